"""Interference-aware request dispatch: the Markov decision process and the HAProxy adapter."""
