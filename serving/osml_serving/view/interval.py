"""What the live view keeps of one interval: small, flat, made once and sent as it is."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from osml.domain import (
    NOT_DONE,
    Assignment,
    Decision,
    Entropy,
    Forecast,
    Infeasible,
    Observation,
    Outcome,
    Platform,
    Reason,
    Region,
    Service,
)
from osml.records import only_watched

_NOTHING = (0, 0)  # core units and ways


class Cell(Struct):
    """Core units and ways that a service can reach."""

    cores: int
    ways: int


class ServiceInterval(Struct):
    """One service in one interval: what was measured, and what it can reach from now on (shared regions included).

    `met` is None where there was nothing to judge by. `speed` is a BE job's speed over its speed alone, 0 to 1. `held`
    is what it could reach while all this was measured; None where nothing was applied then.
    """

    name: str
    kind: str = field(name="class")
    percentile: str
    target_ms: float | None
    latency_ms: float | None
    met: bool | None
    cores: int
    ways: int
    speed: float | None
    ipc: float | None
    work_rate: float | None
    requests_per_s: float | None
    held: Cell | None = None


class Interval(Struct):
    """One observation and the decision it led to.

    `at` is the server's clock (seconds since 1970), `time_s` the node's; `interval_s` is how long was observed.
    """

    seq: int
    at: float
    time_s: float
    policy: str
    e_s: float | None
    e_lc: float | None
    e_be: float | None
    services: list[ServiceInterval]
    regions: list[Region]
    reasons: list[Reason]
    outcome: Outcome | None
    duration_ms: float
    forecasts: list[Forecast] = []
    interval_s: float = 1.0


class Now(Struct):
    """The state of the newest interval: the platform and its assignments."""

    platform: Platform
    assignments: list[Assignment]
    missing: dict[str, str]
    infeasible: Infeasible | None
    entropy: Entropy | None = None


class NodeSummary(Struct):
    """A line in the list of nodes. `unmeasured` counts LC services without a latency, `violations` those above target.

    `interval_s` is the time since the observation before, `group` and `canary` are those of the rollout file.
    """

    node: str
    at: float
    seq: int
    policy: str
    e_s: float | None
    violations: int
    services: int
    unmeasured: int = 0
    infeasible: bool = False
    interval_s: float = 1.0
    group: str | None = None
    canary: str | None = None


def _service_interval(service: Service, now: tuple[int, int], held: tuple[int, int] | None) -> ServiceInterval:
    """One service in one interval: the core units and ways that it can reach from now on, and those before."""
    slack = service.slack
    slowdown = service.slowdown
    return ServiceInterval(
        name=service.name,
        kind=service.kind,
        percentile=service.percentile,
        target_ms=service.target_ms,
        latency_ms=service.latency_ms,
        met=None if slack is None else slack >= 0,
        cores=now[0],
        ways=now[1],
        speed=None if slowdown is None else 1.0 / slowdown,
        ipc=service.counters.ipc,
        work_rate=service.counters.work_rate,
        requests_per_s=None if service.latency is None else service.latency.requests_per_s,
        held=None if held is None else Cell(*held),
    )


def make_interval(observation: Observation, decision: Decision, at: float, duration_ms: float) -> Interval:
    """The interval of one observation and its decision."""
    entropy = decision.entropy
    now = decision.partition.reach()
    watched = only_watched(observation)  # what it tells of allocations is only supposed
    held = {} if watched or observation.partition is None else observation.partition.reach()
    return Interval(
        seq=observation.seq,
        at=round(at, 3),
        time_s=observation.time_s,
        policy=decision.policy,
        e_s=None if entropy is None else entropy.e_s,
        e_lc=None if entropy is None else entropy.e_lc,
        e_be=None if entropy is None else entropy.e_be,
        services=[
            _service_interval(one, now.get(one.name, _NOTHING), held.get(one.name)) for one in observation.services
        ],
        regions=decision.partition.regions,
        reasons=decision.reasons,
        outcome=_supposed(observation.outcome) if watched else observation.outcome,
        duration_ms=round(duration_ms, 3),
        forecasts=decision.forecasts,
        interval_s=observation.interval_s,
    )


def _supposed(outcome: Outcome | None) -> Outcome | None:
    """The outcome of a decision in a dry run: the agent calls it applied, as it would have been."""
    return outcome if outcome is None or outcome.status in NOT_DONE else replace(outcome, status="dry_run")


def make_now(observation: Observation, decision: Decision) -> Now:
    """The newest state of one node."""
    return Now(observation.platform, decision.assignments, observation.missing, decision.infeasible, decision.entropy)


def make_summary(
    observation: Observation,
    decision: Decision,
    interval: Interval,
    group: str | None = None,
    canary: str | None = None,
) -> NodeSummary:
    """The node's line in the list."""
    lc = [service for service in interval.services if service.kind == "lc"]
    return NodeSummary(
        observation.node,
        interval.at,
        interval.seq,
        interval.policy,
        interval.e_s,
        violations=sum(service.met is False for service in lc),
        services=len(interval.services),
        unmeasured=sum(service.met is None for service in lc),
        infeasible=decision.infeasible is not None,
        interval_s=observation.interval_s,
        group=group,
        canary=canary,
    )


encode = msgspec.json.Encoder().encode
