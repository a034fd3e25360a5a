"""Every threshold of the placement, with its unit."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """When a service moves to another cache domain.

    - `missed`: intervals in a row in which a domain misses a target, or cannot satisfy a service, before one leaves it.
    - `held`: intervals in a row in which a domain meets all targets before it takes a service in.
    - `spare_cores`: logical CPUs that have to stay idle in the new domain.
    - `pause_s`: seconds after a move in which nobody moves.
    - `return_s`: seconds after a move in which that service does not come back, or stays where the move was undone.

    When a service is too large for a domain:

    CPUs are those of its domain, or of the largest one that it could have to itself.

    - `full`: share of the CPUs; a service that misses and uses more, or needs more than all, is too large.
    - `fits`: share of the CPUs; a service that uses less, and needs no more than all, is small again.
    - `fitting`: intervals in a row in which it has to fit, or in which its CPU time is not measured.
    """

    missed: int = 8
    held: int = 8
    spare_cores: float = 1.0
    pause_s: float = 30.0
    return_s: float = 600.0
    full: float = 0.95
    fits: float = 0.7
    fitting: int = 30


DEFAULT = Settings()
