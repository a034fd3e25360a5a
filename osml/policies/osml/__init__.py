"""OSML: models say where the good allocation is. `policy` decides, the other files are its parts."""

from osml.policies.osml.policy import Osml, OsmlAb, OsmlC

__all__ = ["Osml", "OsmlAb", "OsmlC"]
