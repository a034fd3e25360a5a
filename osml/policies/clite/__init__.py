"""CLITE: Bayesian optimisation over partitions. `policy` decides, the other files are its parts."""

from osml.policies.clite.policy import Clite

__all__ = ["Clite"]
