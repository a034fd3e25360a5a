"""One case of a suite: a node, its loads over time, and how a run of it is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from osml.lab.trials.summary import CONVERGED_WITHIN_S
from osml.simulator import catalogs
from osml.simulator.board import domain_count
from osml.simulator.cut_down import cut_down, resized_service
from osml.simulator.load_traces import Churn, Trace, loads_at
from osml.simulator.mix import Mix
from osml.simulator.models import JobModel, on_platform
from osml.simulator.node_platform import NO_LEVERS, Lever
from osml.simulator.state import Node
from osml.simulator.variation.draw import Variant


@dataclass(frozen=True)
class Search:
    """The load of one service is not given but searched: the highest step at which the policy meets all targets."""

    service: str
    steps: tuple[float, ...] = tuple(round(0.1 * step, 1) for step in range(1, 11))


def _script_in_words(script: Churn, jobs: Sequence[str]) -> str:
    """Who comes, with the load at first, in the order of arrival."""
    stays = sorted(script.stays, key=lambda stay: stay.start_s)
    first = [f"{stay.service}={loads_at(stay.trace, 0.0):g}" for stay in stays]
    return ",".join([*first, *(f"be:{job}" for job in jobs)])


@dataclass(frozen=True)
class Scenario:
    """A mix under one or more policies and seeds. `part` names the table or figure of the suite that it belongs to.

    A run has converged from where all targets hold for `hold_s` without a miss, once all services are there. It ends
    `tail_s` after these, or after `limit_s`; with `whole` it always lasts `limit_s`. Latencies, entropies and resources
    of the row are those of the last `tail_s` (with `whole`: of all after `settle_s`).
    `cut` is (cores, ways) of the platform, `threads` of a service or job; loads are shares of what a service bears on
    the whole platform, or, if `resized`, on the cut one.
    `time_slice_ms`: another than the platform's. `regulator`: every policy may throttle memory bandwidth, in software
    where the platform has no MBA. `levers`: what every policy may set besides cores and ways (by default nothing).
    `seeds`: no more than so many, for what is only a picture. `bounds`: predicted bounds are compared with the truth at
    the end of a run. `variant`: a node that was drawn, in the place of the
    catalog's; `mix` then has its loads and the jobs that policies know of.
    `sockets`: so many of the platform. `by_domain`: services may be placed on them; else they are one pool of CPUs and
    ways. `twin_part` is the part with the same mixes whose noise this one has too.
    """

    suite: str
    part: str
    mix: Mix
    platform: str
    interval_s: float = 1.0
    delay_s: float = 0.1
    limit_s: float = CONVERGED_WITHIN_S
    tail_s: float = 30.0
    settle_s: float = 0.0
    hold_s: float = 30.0
    whole: bool = False
    timeline: bool = False
    traces: Mapping[str, Trace] | Churn | None = None
    search: Search | None = None
    cut: tuple[int, int] | None = None
    threads: Mapping[str, int] = field(default_factory=dict[str, int])
    resized: bool = False
    time_slice_ms: float | None = None
    regulator: bool = False
    levers: frozenset[Lever] = NO_LEVERS
    seeds: int | None = None
    bounds: bool = False
    variant: Variant | None = None
    sockets: int = 1
    by_domain: bool = True
    twin_part: str | None = None

    @property
    def name(self) -> str:
        """The mix in one line, `?` where its load is searched, with the cut of the platform."""
        text = str(self.mix) if not isinstance(self.traces, Churn) else _script_in_words(self.traces, self.mix.jobs)
        if self.search is not None:
            text = ",".join([f"{self.search.service}=?", *([text] if text else [])])
        if self.cut is not None:
            text += f"@{self.cut[0]}c{self.cut[1]}w"
        if self.time_slice_ms is not None:
            text += f"@{self.time_slice_ms:g}ms"
        return text if self.variant is None else f"{text}#{self.variant.seed}"

    def intervals(self, seconds: float) -> int:
        """So many seconds in intervals."""
        return round(seconds / self.interval_s)

    @property
    def key(self) -> str:
        """What tells this scenario from all others of its suite."""
        return f"{self.part}:{self.name}"

    @property
    def noise(self) -> str:
        """What tells the noise of this scenario from that of all others."""
        return f"{self.suite}/{self.twin_part or self.part}:{self.name}"

    def at(self, load: float) -> Scenario:
        """The same with a load for the service that is searched."""
        if self.search is None:
            return self
        return replace(self, mix=Mix({self.search.service: load, **self.mix.loads}, self.mix.jobs), search=None)

    @property
    def names(self) -> list[str]:
        """LC services on the node, present or to come."""
        if isinstance(self.traces, Churn):
            return self.traces.services
        return list(self.mix.loads)

    @cached_property
    def node(self) -> Node:
        """The virtual node. CatalogError for names that nobody knows."""
        if self.variant is not None:
            return self.variant.node
        model = catalogs.platform(self.platform)
        if self.time_slice_ms is not None:
            model = replace(model, time_slice_ms=self.time_slice_ms)
        cut = model if self.cut is None else cut_down(model, *self.cut)
        services = [
            resized_service(name, cut) if self.resized else catalogs.service(name, model.id) for name in self.names
        ]
        jobs = [on_platform(catalogs.job(name), model) for name in self.mix.jobs]
        return Node(
            cut,
            tuple(replace(s, threads=self.threads.get(s.name, s.threads)) for s in services),
            tuple(replace(j, threads=self.threads.get(j.name, j.threads)) for j in jobs),
        )

    @property
    def domains(self) -> int:
        """Cache domains of the node."""
        platform = catalogs.platform(self.platform) if self.variant is None else self.variant.node.platform
        return domain_count(platform, self.sockets)

    @property
    def jobs(self) -> Sequence[JobModel]:
        """The jobs that policies know of; a node can have others after them."""
        return self.node.jobs[: len(self.mix.jobs)]

    @property
    def varied(self) -> dict[str, Any]:
        """What else the closed loop has to know of a node that was drawn."""
        drawn = self.variant
        return {} if drawn is None else {"drift": drawn.drift, "sensors": drawn.sensors, "hidden": drawn.hidden}

    @property
    def loads(self) -> Mapping[str, float | Trace] | Churn:
        """Loads as the closed loop takes them."""
        if isinstance(self.traces, Churn):
            return self.traces
        return {**self.mix.loads, **(self.traces or {})}

    @property
    def complete_s(self) -> float:
        """When the last service of a script is there; no run counts as converged before."""
        return max(stay.start_s for stay in self.traces.stays) if isinstance(self.traces, Churn) else 0.0

    @property
    def constant(self) -> bool:
        """True where no load changes."""
        return self.traces is None
