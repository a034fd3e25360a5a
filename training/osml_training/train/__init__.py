"""Training of A, A', B and B': configs, splits, batches, the loop, margins."""
