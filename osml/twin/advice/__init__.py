"""Blame by Shapley values, levers, and the advice that follows from them."""
