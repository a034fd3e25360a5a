"""PARTIES: one resource and one unit at a time. `policy` decides, the other files are its resources."""

from osml.policies.parties.policy import Parties

__all__ = ["Parties"]
