"""Rows of data sets as arrays for a model: features, labels, and which run each row belongs to."""
