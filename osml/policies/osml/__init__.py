"""OSML: models predict needs, rules divide the node."""

from osml.policies.osml.policy import Osml, OsmlAb, OsmlDqn, OsmlFormula

__all__ = ["Osml", "OsmlAb", "OsmlDqn", "OsmlFormula"]
