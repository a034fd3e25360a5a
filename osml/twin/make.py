"""From a record to a twin: fit, noise of single intervals, and what the record could not tell, in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.records import Record, only_watched
from osml.simulator.columns import FloatArray
from osml.twin.document import Noise, Twin, parameters_of
from osml.twin.ensemble import Ensemble
from osml.twin.fit import MEMBERS, drawn, fitted
from osml.twin.machine import caches_of
from osml.twin.scenes import LATENCIES, SETTLING, Scene, check_one_cache, check_one_class
from osml.twin.stolen import stolen_of
from osml.twin.targets import targets_of
from osml.twin.trajectory import along, measured_along, names_of

NOISE_MEMBERS = 6
_FEW = 20
"""Intervals below which no noise is told."""

_LEARNED = 0.3
"""A parameter whose spread fell by less was not learned."""

_VARIED = 0.15
"""Relative change of a load or a limit below which nothing can be seen of its effect."""


def made(record: Record, *, seed: int = 0, members: int = MEMBERS, quotas: dict[str, float] | None = None) -> Twin:
    """A twin of the machine of a record. The same record and seed give the same twin.

    InputError as in `fitted`, `check_one_cache` and `check_one_class`.
    """
    check_one_cache(line.observation for line in record.lines)
    check_one_class(record)
    ensemble, scenes = fitted(record, seed=seed, members=members, quotas=quotas)
    before = drawn(record, scenes, quotas or {}, members, np.random.default_rng(seed))
    last = record.lines[-1].observation
    return Twin(
        node=record.node, platform=last.platform, seed=seed, watched=record.dry_run, intervals=len(record.lines),
        gaps=len(record.gaps), garbage=record.garbage, tenants=list(ensemble.tenants), rates=dict(ensemble.rates),
        quotas=dict(ensemble.quotas), parameters=parameters_of(ensemble, before), scenes=list(scenes),
        noise=noise_of(ensemble, record), unknown=unknown_of(ensemble, before, scenes, record),
        stolen=stolen_of(record), targets=targets_of(record),
    )  # fmt: skip


def noise_of(ensemble: Ensemble, record: Record) -> dict[str, dict[str, Noise]]:
    """What single intervals of the record have beyond the middle of the twin."""
    names = names_of(ensemble)
    with np.errstate(all="ignore"):
        middle = np.median(along(ensemble.some(NOISE_MEMBERS), record), axis=0)
    beyond = measured_along(record, names) - middle
    joined = np.array([at not in record.gaps for at in range(SETTLING + 1, len(record.lines))], bool)
    found: dict[str, dict[str, Noise]] = {}
    for place, name in enumerate(names):
        for at, percentile in enumerate(LATENCIES):
            noise = _noise(beyond[SETTLING:, place, at], joined)
            if noise is not None:
                found.setdefault(name, {})[percentile] = noise
    return found


def _noise(beyond: FloatArray, joined: NDArray[np.bool_]) -> Noise | None:
    """`joined`: whether an interval follows the one before, without a gap."""
    pairs = np.stack([beyond[:-1], beyond[1:]])[:, joined]
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    if pairs.shape[1] < _FEW:
        return None
    last, now = pairs
    kept = float(np.clip(np.corrcoef(last, now)[0, 1], 0.0, 0.98)) if last.std() > 0 and now.std() > 0 else 0.0
    centre = float(np.median(now))
    return Noise(_three(now), round(kept, 4), _three(now - centre - kept * (last - centre)))


def _three(values: FloatArray) -> tuple[float, float, float]:
    low, half, high = np.quantile(values, [0.05, 0.5, 0.95]).tolist()
    return round(low, 5), round(half, 5), round(high, 5)


def unknown_of(ensemble: Ensemble, before: Ensemble, scenes: tuple[Scene, ...], record: Record) -> list[str]:
    """What these records can't tell, one sentence each."""
    said: list[str] = []
    watched = sum(only_watched(line.observation) for line in record.lines)
    if watched:
        when = "" if record.dry_run else f" in {watched:,} of {len(record.lines):,} intervals"
        said.append(
            f"allocations: the agent only watched{when}, so every service and job is taken to use all CPUs and ways "
            "there, but for its own CPU limit"
        )
    if (caches := caches_of(ensemble.platform)) > 1:
        said.append(
            f"cache: this machine has {caches} last-level caches, the twin has one, so blame of the cache, and "
            "levers of cache and memory bandwidth, can't be trusted"
        )
    for one in ensemble.tenants:
        if one.kind == "lc" and not ensemble.rates.get(one.name):
            answered = any(one.percentile in scene.seen.get(one.name, {}) for scene in scenes)
            why = "its requests were not counted" if answered else "it had no load"
            said.append(f"{one.name}: nothing can be learned of it, {why}")
    for one in ensemble.tenants:
        there = [scene for scene in scenes if one.name in scene.present]
        said += _not_varied(one.name, one.kind, there, ensemble)
        shown = {quantity for scene in there for quantity in scene.seen.get(one.name, {})}
        if "cpu" not in shown:
            said.append(f"{one.name}: its CPU time was not measured, so it is guessed from its latency")
        if not shown & {"mpki", "occupancy", "bandwidth"}:
            said.append(f"{one.name}: no counter of cache or memory, so its need of cache is that of known programs")
        spreads = {
            name: (float(ensemble.logs[:, at].std()), float(before.logs[:, at].std()))
            for at, (owner, name) in enumerate(ensemble.keys)
            if owner == one.name and not name.startswith("bias:")
        }
        dark = [name for name, (now, first) in spreads.items() if now > (1.0 - _LEARNED) * first]
        if dark:
            said.append(f"{one.name}: hardly learned are {', '.join(dark)}")
    if all(line.observation.host.steal is None for line in record.lines):
        said.append("hypervisor: the record has no steal time, so time that a hypervisor took looks like slow programs")
    return said


def _not_varied(name: str, kind: str, there: list[Scene], ensemble: Ensemble) -> list[str]:
    """What the record never changed for a tenant."""
    said: list[str] = []
    rates = [scene.rates[name] for scene in there if scene.rates.get(name)]
    if kind == "lc" and rates and max(rates) < (1.0 + _VARIED) * min(rates):
        said.append(f"{name}: its load hardly changed, so other loads are extrapolated")
    grants = [scene.grants[name] for scene in there if name in scene.grants]
    if ensemble.platform.ways is None:
        said.append(f"{name}: its ways are not known, this machine can't partition its cache")
    elif len({grant.way_mask for grant in grants}) <= 1:
        said.append(f"{name}: the record never changed its ways")
    if len({(grant.cpus, grant.cpu_quota) for grant in grants}) <= 1:
        said.append(f"{name}: the record never changed its CPUs")
    return said
