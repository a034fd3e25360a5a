"""RCliff, OAA and B-points out of a latency surface."""
