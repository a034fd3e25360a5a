"""The equations of the node, compiled: CPU, cache, memory, disk, network, and the `step` that solves them together."""
