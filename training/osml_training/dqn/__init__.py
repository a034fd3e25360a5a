"""Model-C offline: fitted Q-learning on pairs of traces."""
