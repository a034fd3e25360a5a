"""A model for another machine: first hidden layer kept, the rest trained on a few of its traces (OSML section 6.4)."""
