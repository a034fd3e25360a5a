"""The oracle: the exact best partition of a mix into isolated parts on the virtual node."""

from osml.simulator.oracle.search import Answer, best_partition

__all__ = ["Answer", "best_partition"]
