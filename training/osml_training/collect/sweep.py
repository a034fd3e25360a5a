"""What to measure: the runs of a sweep over threads, loads and neighbours. A run is one surface over cores and ways."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.columns import MAX_TENANTS
from osml.simulator.engine import MAX_LOAD
from osml.simulator.models import PlatformModel, ServiceModel
from osml_training.collect.variants import platform_of, service_of

MAX_NEIGHBOURS = 4
"""Unless told otherwise, at most so many beside a service, as in the published data set."""

_JOB_PROBABILITY = 0.3
_IDLE_PROBABILITY = 0.5


@dataclass(frozen=True)
class Run:
    """One sweep over all cores and ways that the neighbours leave; everything else stays.

    `beside` are the neighbouring services with their loads (shares of max load), `jobs` best-effort jobs. What the
    service does not get is split among them in fixed `shares` (one a neighbour, the last is what stays idle).
    """

    platform: str
    service: str
    threads: int
    load: float
    beside: tuple[tuple[str, float], ...]
    jobs: tuple[str, ...]
    shares: tuple[float, ...]
    seed: int

    @property
    def neighbours(self) -> int:
        """How many are beside the service."""
        return len(self.beside) + len(self.jobs)

    @property
    def names(self) -> str:
        """The neighbours as a mix: `moses=0.4,be:stream`; empty without any."""
        return ",".join([*(f"{name}={load:.3g}" for name, load in self.beside), *(f"be:{job}" for job in self.jobs)])

    @property
    def id(self) -> str:
        """Short, the same for the same run, other for every other."""
        return hashlib.blake2b(repr(self).encode(), digest_size=8).hexdigest()

    def grid(self) -> tuple[int, int]:
        """(cores, ways) of the largest allocation: every neighbour keeps one core and one way."""
        platform = platform_of(self.platform)
        return platform.cpus - self.neighbours, platform.ways - self.neighbours


@dataclass(frozen=True)
class Sweep:
    """What to collect. The same sweep and seed give the same rows; a larger `rows` begins with those of a smaller.

    `rows` is the aim over all platforms and services, split evenly. `loads` are shares of max load, `threads` multiples
    of the service's usual number. Of every 1 + `colocated` runs one is alone on the node. Each cell settles for
    `warmup_s` and is then measured `samples` times for `interval_s`. Each run with neighbours has at most
    `most_neighbours`, and so many `unconfined` rows besides (`collect.unconfined`). Platforms and services may
    be parts and variants of those of the catalogs (osml_training.collect.variants).
    """

    platforms: tuple[str, ...]
    services: tuple[str, ...]
    neighbours: tuple[str, ...]
    jobs: tuple[str, ...] = ("stream", "streamcluster", "blackscholes", "bodytrack")
    loads: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    threads: tuple[float, ...] = (1.0, 0.75, 0.5)
    colocated: int = 3
    rows: int = 1_000_000
    samples: int = 10
    unconfined: int = 0
    most_neighbours: int = MAX_NEIGHBOURS
    interval_s: float = 1.0
    warmup_s: float = 20.0
    noise: bool = True
    seed: int = 0

    def checked(self) -> Sweep:
        """This sweep, or InputError for one that cannot be collected."""
        if not self.platforms or not self.services:
            raise InputError("the sweep has no platform or no service, expected at least one of each")
        _known(platform_of, self.platforms)
        _known(lambda name: service_of(name, self.platforms[0]), (*self.services, *self.neighbours))
        _known(catalogs.job, self.jobs)
        if not self.loads or not all(0 < load <= MAX_LOAD for load in self.loads):
            raise InputError(
                f"loads are {list(self.loads)}, expected shares of the maximum load, above 0 and at most {MAX_LOAD:g}"
            )
        if not self.threads or not all(0 < share <= 8 for share in self.threads):
            raise InputError(
                f"threads are {list(self.threads)}, expected multiples of the usual number, above 0 and at most 8"
            )
        limits = {"rows": (self.rows, 1, 10**11), "samples": (self.samples, 1, 10**5), "seed": (self.seed, 0, 2**63)}
        limits |= {"interval_s": (self.interval_s, 0.01, 3600), "warmup_s": (self.warmup_s, 1, 3600)}
        limits |= {"colocated": (self.colocated, 0, 1000), "unconfined": (self.unconfined, 0, 10**5)}
        limits["most_neighbours"] = (self.most_neighbours, 1, MAX_TENANTS - 1)
        for field, (value, low, high) in limits.items():
            if not (math.isfinite(value) and low <= value <= high):
                raise InputError(f"{field} is {value}, expected {low} to {high}")
        if self.colocated and not (self.neighbours or self.jobs):
            raise InputError("colocated runs have no neighbours and no jobs, expected some, or colocated 0")
        return self

    def rows_of(self, run: Run) -> int:
        """How many rows a run has."""
        cores, ways = run.grid()
        return cores * ways * self.samples + (self.unconfined if run.neighbours else 0)


def _known(look_up: Callable[[str], object], names: Iterable[str]) -> None:
    """InputError for a name that the catalog doesn't have."""
    for name in names:
        try:
            look_up(name)
        except catalogs.CatalogError as error:
            raise InputError(str(error)) from None


def runs_of(sweep: Sweep, platform: str, service: str) -> Iterator[Run]:
    """Endlessly many runs of one service on one platform, in the order in which they are collected.

    Runs alone go through threads x loads in a random order first; what follows has loads in between.
    """
    seeds = [sweep.seed, zlib.crc32(platform.encode()), zlib.crc32(service.encode())]
    rng = np.random.default_rng(np.random.SeedSequence(seeds))
    usual = service_of(service, platform)
    grid = [(threads, load) for threads in sweep.threads for load in sweep.loads]
    order = [grid[int(i)] for i in rng.permutation(len(grid))]
    pool = [name for name in sweep.neighbours if name != service]
    room = platform_of(platform)
    number = 0
    while True:
        if number % (1 + sweep.colocated) == 0:
            alone = number // (1 + sweep.colocated)
            threads, load = order[alone] if alone < len(order) else _between(sweep, rng)
            run = Run(platform, service, _threads(usual, threads), load, (), (), (), 0)
        else:
            threads, load = _between(sweep, rng)
            beside, jobs, shares = _beside(sweep, rng, pool, room)
            run = Run(platform, service, _threads(usual, threads), load, beside, jobs, shares, 0)
        number += 1
        seed: list[int] = rng.integers(2**63, size=1).tolist()
        yield replace(run, seed=seed[0])


def _between(sweep: Sweep, rng: np.random.Generator) -> tuple[float, float]:
    load = rng.uniform(min(sweep.loads), max(sweep.loads))
    return float(rng.choice(np.array(sweep.threads))), round(float(load), 3)


def _threads(service: ServiceModel, share: float) -> int:
    return max(1, round(service.threads * share))


def _beside(
    sweep: Sweep, rng: np.random.Generator, pool: list[str], room: PlatformModel
) -> tuple[tuple[tuple[str, float], ...], tuple[str, ...], tuple[float, ...]]:
    """One to `most_neighbours`, at most one of them a job, and how they split what is left."""
    most = min(sweep.most_neighbours, room.cpus // 2, room.ways // 2, len(pool) + bool(sweep.jobs))
    count = int(rng.integers(1, max(most, 1) + 1))
    with_job = bool(sweep.jobs) and (not pool or count > len(pool) or rng.random() < _JOB_PROBABILITY)
    chosen = rng.permutation(len(pool))[: count - with_job]
    beside = tuple((pool[int(i)], _between(sweep, rng)[1]) for i in chosen)
    jobs = (sweep.jobs[int(rng.integers(len(sweep.jobs)))],) if with_job else ()
    idle = rng.random() < _IDLE_PROBABILITY
    drawn: list[float] = rng.dirichlet(np.full(len(beside) + len(jobs) + idle, 2.0)).tolist()
    return beside, jobs, (*(round(share, 4) for share in drawn), *(() if idle else (0.0,)))


@dataclass(frozen=True)
class Part:
    """The runs that go into one file."""

    platform: str
    service: str
    number: int
    runs: tuple[Run, ...]

    @property
    def path(self) -> str:
        """Below the folder of the traces."""
        return f"platform={self.platform}/service={self.service}/part-{self.number:05d}.parquet"


def parts_of(sweep: Sweep, part_rows: int = 200_000) -> list[Part]:
    """All files of a sweep, the services of a platform in turn."""
    aim = math.ceil(sweep.rows / (len(sweep.platforms) * len(sweep.services)))
    parts = [
        part
        for platform in sweep.platforms
        for service in sweep.services
        for part in _parts(sweep, platform, service, aim, part_rows)
    ]
    return sorted(parts, key=lambda part: part.number)


def _parts(sweep: Sweep, platform: str, service: str, aim: int, part_rows: int) -> Iterator[Part]:
    counts: list[Run] = []
    total = rows = number = 0
    for run in runs_of(sweep, platform, service):
        counts.append(run)
        rows += sweep.rows_of(run)
        total += sweep.rows_of(run)
        if rows >= part_rows or total >= aim:
            yield Part(platform, service, number, tuple(counts))
            counts, rows, number = [], 0, number + 1
        if total >= aim:
            return
