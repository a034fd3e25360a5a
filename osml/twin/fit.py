"""Fits a twin: draws from the prior are moved to what the record shows, by an ensemble smoother.

The smoother takes the record several times with its errors enlarged in proportion (multiple data assimilation: Emerick
and Reynolds, Computers & Geosciences 55, 2013). A number is moved by what can tell of it alone: what other quantities
have in common with it in so few draws is chance (local analysis, as in Hunt et al., Physica D 230, 2007).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from osml.base.failure import InputError
from osml.records import Record
from osml.simulator.columns import MOST_TENANTS, FloatArray, IntArray
from osml.twin import prior
from osml.twin.ensemble import MACHINE_S, Ensemble, Key, clipped, machine_with
from osml.twin.forward import Wanted, predicted
from osml.twin.machine import machine_of
from osml.twin.prior import Company, Hints
from osml.twin.scenes import COUNTERS, LATENCIES, SEEN, Scene, Tenant, scenes_of, tenants_of

MEMBERS = 48
ROUNDS = 4
_MODEL_ERROR = {"p50": 0.06, "mean": 0.06, "p95": 0.08, "p99": 0.10}
"""Log-error of the equations: docs/explanation/virtual-node.md has that of the percentiles."""

_COUNTER_ERROR = 0.04
_ALIKE = 12
"""So many intervals after each other err alike: work and chance change slowly."""

_FAR = math.log(20.0)
_THROTTLED = 0.002
"""Share of the time; below it a stop is nothing to fit a limit to."""


def hints_of(tenant: Tenant, scenes: Sequence[Scene], quotas: Mapping[str, float]) -> Hints:
    """What the record shows of a tenant directly."""
    name = tenant.name
    known = [scene for scene in scenes if name in scene.seen]

    def mean(quantity: str) -> float | None:
        logs = [scene.seen[name][quantity].log for scene in known if quantity in scene.seen[name]]
        return math.exp(statistics.fmean(logs)) if logs else None

    busy = [math.exp(scene.seen[name]["cpu"].log) for scene in known if "cpu" in scene.seen[name]]
    costs = [
        math.exp(scene.seen[name]["cpu"].log) / scene.rates[name]
        for scene in known
        if "cpu" in scene.seen[name] and scene.rates.get(name, 0.0) > 0
    ]
    rates = [scene.rates[name] for scene in scenes if scene.rates.get(name)]
    halves = [math.exp(scene.seen[name]["p50"].log) for scene in known if "p50" in scene.seen[name]]
    return Hints(
        cpu_s=statistics.median(costs) if costs else None,
        rate=max(rates, default=None),
        half_ms=min(halves) if halves else mean("p99"),
        busy=mean("cpu"),
        most_busy=max(busy, default=None),
        ipc=mean("ipc"),
        mpki=mean("mpki"),
        occupancy=mean("occupancy"),
        traffic=mean("bandwidth"),
        throttled=max((scene.throttled.get(name, 0.0) for scene in scenes), default=0.0) > _THROTTLED,
        quota=quotas.get(name),
    )


def drawn(
    record: Record, scenes: Sequence[Scene], quotas: Mapping[str, float], members: int, rng: np.random.Generator
) -> Ensemble:
    """The prior: members that agree with what the record shows at first sight."""
    platform = record.lines[-1].observation.platform
    machine, tenants = machine_of(platform), tenants_of(record)
    hints = {one.name: hints_of(one, scenes, quotas) for one in tenants}
    shown = {name: set[str]().union(*(scene.seen.get(name, {}) for scene in scenes)) for name in hints}
    limited = _limited_by_hand(scenes) | set(quotas)
    rows: list[dict[Key, float]] = []
    company = Company(
        sum(hint.busy or 0.0 for hint in hints.values()) / machine.cpus,
        sum(hint.traffic or 0.0 for hint in hints.values()) / machine.bandwidth_gbps,
    )
    for _ in range(members):
        row: dict[Key, float] = {(MACHINE_S, name): x for name, x in prior.drawn_machine(machine, rng).items()}
        there = machine_with(machine, row)
        for one in tenants:
            hint, draw = hints[one.name], prior.drawn_service if one.kind == "lc" else prior.drawn_job
            row |= {(one.name, name): value for name, value in draw(there, hint, company, rng).items()}
            if one.threads is None:
                row[one.name, "threads"] = prior.drawn_threads(one, hint, machine, rng)
            if hint.throttled and one.name not in limited:
                row[one.name, "quota"] = prior.drawn_quota(hint, rng)
            for quantity in COUNTERS:
                if quantity in shown[one.name]:
                    row[one.name, f"bias:{quantity}"] = math.exp(prior.BIAS[quantity] * float(rng.standard_normal()))
        rows.append(row)
    keys = tuple(rows[0])
    logs = np.log(np.array([[row[key] for key in keys] for row in rows]))
    rates = {name: hint.rate for name, hint in hints.items() if hint.rate}
    return Ensemble(machine, platform, tenants, rates, dict(quotas), keys, clipped(keys, logs))


def _limited_by_hand(scenes: Sequence[Scene]) -> set[str]:
    """Tenants whose CPU quota the record tells."""
    return {name for scene in scenes for name, grant in scene.grants.items() if grant.cpu_quota is not None}


def wanted_of(scenes: Sequence[Scene], tenants: Sequence[Tenant]) -> list[Wanted]:
    """Everything that was measured and that a twin has to explain."""
    kinds = {one.name: one.kind for one in tenants}
    return [
        (at, name, quantity)
        for at, scene in enumerate(scenes)
        for name in scene.present
        for quantity in SEEN
        if quantity in scene.seen.get(name, {}) and (kinds[name] == "be" or scene.rates.get(name, 0.0) > 0)
    ]


def errors_of(scenes: Sequence[Scene], wanted: Sequence[Wanted]) -> FloatArray:
    """Standard errors of the logarithms: of the equations, and of so few and so similar intervals."""
    found: list[float] = []
    for at, name, quantity in wanted:
        reading = scenes[at].seen[name][quantity]
        own = _MODEL_ERROR.get(quantity, _COUNTER_ERROR)
        found.append(math.hypot(own, reading.spread / math.sqrt(max(1.0, reading.count / _ALIKE))))
    return np.array(found)


def assimilated(
    logs: FloatArray, shows: FloatArray, seen: FloatArray, errors: FloatArray, tells: Sequence[IntArray],
    enlarged: float, rng: np.random.Generator,
) -> FloatArray:  # fmt: skip
    """Members moved towards what was seen: (members, keys) and what they show (members, seen), all logarithms.

    `tells` has an entry a key: the places of what may tell of it.
    """
    n, moved = len(logs), logs.copy()
    noisy = seen + math.sqrt(enlarged) * errors * rng.standard_normal(shows.shape)
    y = shows - shows.mean(axis=0)
    for places in {tuple(at.tolist()) for at in tells if len(at)}:
        at = np.array(places)
        keys = [k for k, told in enumerate(tells) if tuple(told.tolist()) == places]
        x = logs[:, keys] - logs[:, keys].mean(axis=0)
        own: FloatArray = y[:, at].T @ y[:, at] / (n - 1) + enlarged * np.diag(errors[at] ** 2)
        cross: FloatArray = y[:, at].T @ x / (n - 1)
        inverse: FloatArray = np.linalg.inv(own).astype(np.float64)
        gain = inverse @ cross  # (seen, keys)
        moved[:, keys] += (noisy - shows)[:, at] @ gain
    return moved


def tells_of(keys: Sequence[Key], wanted: Sequence[Wanted], kinds: Mapping[str, str]) -> list[IntArray]:
    """What may tell of each number: of a service's own what was measured of it, of all others everything."""
    everything = np.arange(len(wanted))
    found: list[IntArray] = []
    for owner, name in keys:
        own = np.array([at for at, (_, tenant, _) in enumerate(wanted) if tenant == owner], np.int64)
        alone = kinds.get(owner) == "lc" or name.startswith("bias:")
        found.append(own if alone else everything)
    return found


def shows_of(ensemble: Ensemble, scenes: Sequence[Scene], wanted: Sequence[Wanted]) -> FloatArray:
    """What all members show, (members, wanted)."""
    return np.array([predicted(ensemble, member, scenes, wanted) for member in range(ensemble.size)])


def fitted(
    record: Record, *, seed: int = 0, members: int = MEMBERS, quotas: Mapping[str, float] | None = None
) -> tuple[Ensemble, tuple[Scene, ...]]:
    """Members that explain a record, and the scenes that they were fitted to. The same seed gives the same twin.

    `quotas` are CPU limits that the record does not tell. Raises InputError where nothing can be learned from it.
    """
    if (tenants := len(tenants_of(record))) > MOST_TENANTS:
        raise InputError(
            f"the record has {tenants} services and jobs, a twin has at most {MOST_TENANTS}; give a record of a time "
            "with fewer"
        )
    scenes = scenes_of(record, seed=seed)
    if not scenes:
        raise InputError(
            f"the record has {len(record.lines)} intervals, but nowhere two with the same allocation; "
            "give a longer record"
        )
    rng = np.random.default_rng(seed)
    ensemble = drawn(record, scenes, quotas or {}, members, rng)
    wanted = wanted_of(scenes, ensemble.tenants)
    if not any(quantity in LATENCIES for _, _, quantity in wanted):
        raise InputError(
            "the record has no service with both a latency and requests per second, so nothing can be learned of a "
            "service; give a record with load, whose latency source counts requests"
        )
    seen = np.array([scenes[at].seen[name][quantity].log for at, name, quantity in wanted])
    errors = errors_of(scenes, wanted)
    tells = tells_of(ensemble.keys, wanted, {one.name: one.kind for one in ensemble.tenants})
    for _ in range(ROUNDS):
        shows = np.clip(shows_of(ensemble, scenes, wanted), seen - _FAR, seen + _FAR)
        ensemble = ensemble.with_logs(assimilated(ensemble.logs, shows, seen, errors, tells, ROUNDS, rng))
    return ensemble, scenes
