"""OSML: models predict needs, rules divide the node."""

from osml.policies.osml.policy import Osml, OsmlAb, OsmlFormula

__all__ = ["Osml", "OsmlAb", "OsmlFormula"]
