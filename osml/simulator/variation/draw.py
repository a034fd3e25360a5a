"""Draws a node under a condition: the same condition, seed and company give the same node."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from osml.simulator import catalogs
from osml.simulator.models import on_platform
from osml.simulator.state import Node
from osml.simulator.variation.conditions import Condition
from osml.simulator.variation.drift import Drift, drawn_drift
from osml.simulator.variation.machines import BESIDE_JOBS, drawn_machine
from osml.simulator.variation.nodes import other_curves, other_threads, renamed, varied_node, with_company
from osml.simulator.variation.sensors import Sensors
from osml.simulator.variation.spread import log_uniform

PLATFORM = "e5-2697v4"
SERVICES = (
    "img-dnn", "masstree", "memcached", "mongodb", "moses", "nginx", "specjbb", "sphinx", "xapian", "login", "ads",
)  # fmt: skip
"""Of OSML's table 1, all measured on the platform."""

JOBS = ("stream", "fluidanimate", "streamcluster", "kmeans")
UNSEEN, UNSEEN_THREADS = "unseen", 6
_DISK_BOUND = "mongodb"
_EACH = 3
_LOADS = (0.2, 0.7)
"""Shares of max load (beside a job: times BESIDE_JOBS): about three in four mixes are feasible."""


@dataclass(frozen=True)
class Variant:
    """A node that was drawn, and who sees what of it.

    Jobs in `hidden`, the last ones of the node, are observed by nobody and use all CPUs and ways. `loads` are shares of
    max load.
    """

    seed: int
    node: Node
    loads: dict[str, float]
    sensors: Sensors | None = None
    drift: Drift | None = None
    hidden: frozenset[str] = frozenset()

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs that a policy knows of."""
        return tuple(job.name for job in self.node.jobs if job.name not in self.hidden)

    def heaviest(self, seconds: float) -> Node:
        """The node at the moment, within these seconds, when its services have most work together."""
        if self.drift is None:
            return self.node
        weights = [self.loads[service.name] for service in self.node.services]
        return self.drift.node(self.node, self.drift.heaviest_s(weights, seconds))

    def busiest(self, seconds: float) -> list[Node]:
        """The node when its services have most work together, then when each of them has; one where nothing drifts."""
        if self.drift is None:
            return [self.node]
        peaks = dict.fromkeys(self.drift.peaks_s(seconds))
        return [self.heaviest(seconds), *(self.drift.node(self.node, time_s) for time_s in peaks)]


def drawn(condition: Condition, seed: int, *, beside_job: bool) -> Variant:
    """One node under a condition, beside a best-effort job or without.

    But for other machines, the mix of a seed is the same under all conditions, so that they can be compared.
    """
    rng = np.random.default_rng([seed, int(beside_job)])
    names = tuple(name for name in SERVICES if not condition.machines or name != _DISK_BOUND)
    node, loads = drawn_machine(names, beside_job, rng) if condition.machines else _usual(names, beside_job, rng)
    if beside_job:
        node = replace(node, jobs=(on_platform(catalogs.job(str(rng.choice(JOBS))), node.platform),))
    if condition.node:
        node = varied_node(node, condition.node, rng)
    if condition.curves:
        node = other_curves(node, condition.curves, rng)
    if condition.threads:
        node = other_threads(node, rng)
    if condition.renamed:
        before, node = node, renamed(node)
        loads = {new.name: loads[old.name] for old, new in zip(before.services, node.services, strict=True)}
    hidden: frozenset[str] = frozenset()
    if condition.company:
        unseen = replace(catalogs.job(condition.company), name=UNSEEN, threads=UNSEEN_THREADS)
        node, hidden = with_company(node, unseen), frozenset({UNSEEN})
    drift = drawn_drift(len(node.services), condition.drift, rng) if condition.drift else None
    return Variant(seed, node, loads, drawn_sensors(condition, rng), drift, hidden)


def drawn_sensors(condition: Condition, rng: np.random.Generator) -> Sensors | None:
    """Sensors of a condition; None where they are as good as the virtual node's."""
    low, high = condition.seen
    sensors = Sensors(
        seed=int(rng.integers(2**32)),
        scaled=condition.counters,
        noise=condition.noise,
        seen=log_uniform(rng, low, high),
        late=int(rng.integers(condition.late[0], condition.late[1] + 1)),
        missing=condition.missing,
    )
    return None if replace(sensors, seed=0) == Sensors() else sensors


def _usual(names: tuple[str, ...], beside_job: bool, rng: np.random.Generator) -> tuple[Node, dict[str, float]]:
    """Three services of the catalog on its best-measured machine."""
    chosen = sorted(str(name) for name in rng.choice(names, _EACH, replace=False))
    scale = BESIDE_JOBS if beside_job else 1.0
    loads = {name: round(float(rng.uniform(*_LOADS)) * scale, 3) for name in chosen}
    services = tuple(catalogs.service(name, PLATFORM) for name in chosen)
    return Node(catalogs.platform(PLATFORM), services), loads
