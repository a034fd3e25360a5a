"""What was published about real machines, and how the node is fitted to it and held against it."""
