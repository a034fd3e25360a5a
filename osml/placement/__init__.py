"""Which cache domain each service is in, and a policy that decides for each domain as if it were a node."""

from osml.placement.placed import prepared

__all__ = ["prepared"]
