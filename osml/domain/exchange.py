"""What agent and server say to each other: one observation in, one decision out."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from osml.domain.forecast import Forecast
from osml.domain.partition import Assignment, Partition
from osml.domain.platform import Name, NonNegativeFloat, NonNegativeInt, Platform, PositiveFloat, Share
from osml.domain.service import Service

OBSERVATION_SCHEMA = "osml/observation/v1"
DECISION_SCHEMA = "osml/decision/v1"
MAX_SERVICES = 64
Resource = Literal["cores", "ways", "mba", "frequency", "memory", "disk", "network"]


class Outcome(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of the decision `seq` on the machine."""

    seq: NonNegativeInt
    status: Literal["applied", "unchanged", "refused", "rolled_back", "failed", "dry_run"]
    message: str = ""
    duration_ms: NonNegativeFloat | None = None


NOT_DONE = frozenset({"refused", "rolled_back", "failed"})
"""`Outcome.status` of a decision that is not in force, although the agent applies decisions."""

DRY_RUN = "dry_run"
"""Key of `Observation.missing` where the agent applies nothing: what it tells of allocations would be in force."""


class Host(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole machine in one interval: shares of CPU time (steal) and of the interval (pressure), 0 to 1.

    `steal` is what a hypervisor gave to others. Pressures are those of the kernel, line "some".
    """

    steal: Share | None = None
    cpu_pressure: Share | None = None
    memory_pressure: Share | None = None
    io_pressure: Share | None = None


class Observation(Struct, frozen=True, forbid_unknown_fields=True):
    """One interval of one node.

    `time_s` is node time (monotonic, any origin), `interval_s` the time since the last observation. `partition` is the
    one last applied (None: nothing applied yet, or the machine was changed by somebody else), `assignments` is
    what the agent read back from the machine. `policy_state` is the string of the last answer, opaque to the agent.
    """

    node: Name
    seq: NonNegativeInt
    time_s: NonNegativeFloat
    interval_s: PositiveFloat
    platform: Platform
    services: Annotated[list[Service], Meta(min_length=1, max_length=MAX_SERVICES)]
    schema: Literal["osml/observation/v1"] = OBSERVATION_SCHEMA
    policy: str | None = None
    partition: Partition | None = None
    assignments: list[Assignment] = []
    outcome: Outcome | None = None
    host: Host = Host()
    missing: dict[str, str] = {}  # mechanism or sensor -> why this node does not have it
    policy_state: Annotated[str, Meta(max_length=131072)] | None = None


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why, in words; and what changed, for those who count."""

    text: str
    service: str | None = None
    resource: Resource | None = None
    change: int = 0


class Infeasible(Struct, frozen=True, forbid_unknown_fields=True):
    """What this node cannot satisfy, for the scheduler above (design, section 9)."""

    services: list[str]
    message: str


class ServiceEntropy(Struct, frozen=True, forbid_unknown_fields=True):
    """A_i, R_i, ReT_i and Q_i of one LC service, each in [0, 1] (Ah-Q, equations 11 to 14).

    `tolerance` and `interference` are None where the ideal latency is not known; the other two do not need it.
    """

    name: str
    tolerance: float | None
    interference: float | None
    remaining_tolerance: float
    intolerable: float


class Entropy(Struct, frozen=True, forbid_unknown_fields=True):
    """E_LC, E_BE, E_S in [0, 1] (Ah-Q, equations 15 to 17). None where there was nothing to compute it from."""

    e_lc: float | None
    e_be: float | None
    e_s: float | None
    services: list[ServiceEntropy] = []


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    """What the node shall do until the next observation. `seq` repeats the observation's."""

    node: Name
    seq: NonNegativeInt
    policy: str
    partition: Partition
    assignments: list[Assignment]
    schema: Literal["osml/decision/v1"] = DECISION_SCHEMA
    reasons: list[Reason] = []
    entropy: Entropy | None = None
    infeasible: Infeasible | None = None
    forecasts: list[Forecast] = []
    policy_state: str | None = None
