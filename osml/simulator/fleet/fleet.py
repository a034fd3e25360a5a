"""Thousands of virtual nodes of one platform, stepped at once: partitions as counts and loads in, measurements out.

For training and for benches. One node of a fleet does exactly what `engine.advance` does, and what it measures does not
depend on the other nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osml.entropy import RELATIVE_IMPORTANCE
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.engine import MAX_LOAD
from osml.simulator.fleet import measure as m
from osml.simulator.fleet.step import Nodes, Room, Terms, misfit, room_for, step_nodes
from osml.simulator.models import JobModel, PlatformModel, ServiceModel, on_platform
from osml.simulator.queueing import percentile_table
from osml.simulator.state import NodeInputError
from osml.simulator.surface import solo_speed

Kind: TypeAlias = ServiceModel | JobModel

EMPTY = -1
"""Kind of a place where nobody is."""

_PERCENTILE = {"p50": m.M_P50_MS, "p95": m.M_P95_MS, "p99": m.M_P99_MS, "mean": m.M_MEAN_MS}


def terms_of(platform: PlatformModel, kinds: Sequence[Kind]) -> Terms:
    """The kinds of tenants of a fleet as arrays. Solo speeds of the jobs are found by letting them run alone."""
    rows = np.zeros((len(kinds), c.TENANT_COLUMNS))
    facts = np.zeros((len(kinds), m.KIND_COLUMNS))
    shapes: list[float] = []
    for i, kind in enumerate(kinds):
        tenant = on_platform(kind, platform) if isinstance(kind, JobModel) else kind
        rows[i] = c.tenant_row(tenant)
        shape = tenant.cv2 if isinstance(tenant, ServiceModel) else 0.0
        if shape not in shapes:
            shapes.append(shape)
        rows[i, c.T_TABLE] = shapes.index(shape)
        if isinstance(tenant, ServiceModel):
            facts[i, m.K_LC], facts[i, m.K_TARGET_MS] = 1.0, tenant.target_ms
            facts[i, m.K_PERCENTILE], facts[i, m.K_MAX_LOAD] = _PERCENTILE[tenant.percentile], tenant.max_load
        else:
            facts[i, m.K_SOLO_IPC], facts[i, m.K_SOLO_WORK] = solo_speed(platform, tenant)
    tables = np.stack([percentile_table(shape) for shape in shapes])
    return Terms(c.platform_row(platform), np.array(platform.cpu_order(), np.int64), rows, facts, tables)


class Fleet:
    """Nodes of one platform, each with up to `places` tenants out of `kinds`.

    `nodes` holds the arrays, see `Nodes`; `cores`, `ways` and `limits` in it are the caller's to write, the rest is to
    be read: `measured` (nodes, places, MEASURED_COLUMNS) is NaN where there was nothing to measure, `entropy` is
    (nodes, ENTROPY_COLUMNS). About 0.7 KiB a place. Without `noise` measurements are those of endlessly many samples.
    """

    def __init__(
        self,
        platform: PlatformModel,
        kinds: Sequence[Kind],
        size: int,
        places: int,
        *,
        noise: bool = True,
        relative_importance: float = RELATIVE_IMPORTANCE,
    ):
        if size < 1:
            raise NodeInputError(f"the fleet has {size} nodes, expected at least 1")
        if not 1 <= places <= c.MAX_TENANTS:
            raise NodeInputError(f"places is {places}, expected 1 to {c.MAX_TENANTS} tenants on a node")
        if not kinds:
            raise NodeInputError("the fleet has no kind of service or job, expected at least one")
        self.platform, self.kinds = platform, tuple(kinds)
        self.size, self.places, self.noise, self.relative_importance = size, places, noise, relative_importance
        self.terms = terms_of(platform, kinds)
        shape = (size, places)
        self.nodes = Nodes(
            np.full(shape, EMPTY, np.int64),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.tile(c.no_limits(places, self.terms.platform), (size, 1, 1)),
            np.zeros((*shape, c.STATE_COLUMNS)),
            np.zeros((*shape, platform.ways)),
            np.zeros((*shape, c.FLOW_COLUMNS)),
            np.full((*shape, m.MEASURED_COLUMNS), np.nan),
            np.full((size, m.ENTROPY_COLUMNS), np.nan),
            np.zeros(size, np.uint64),
        )
        self._all = np.arange(size)
        self._idle = c.initial_rows(1, self.terms.platform)[0]
        self._rooms: dict[int, Room] = {}

    @property
    def bytes(self) -> int:
        """Memory of all nodes."""
        return sum(array.nbytes for array in self.nodes)

    @property
    def is_service(self) -> NDArray[np.bool_]:
        """Where an LC service is, (nodes, places)."""
        present = self.nodes.present
        return (present >= 0) & (self.terms.kinds[present, m.K_LC] > 0)

    def seed(self, seeds: int | Sequence[int] | NDArray[np.uint64], which: ArrayLike | None = None) -> None:
        """Begin the noise of some nodes (all by default) anew, from one seed for all or from one for each."""
        at = self._chosen(which)
        if isinstance(seeds, int):
            seeds = np.random.default_rng(seeds).integers(0, 2**64, len(at), np.uint64)
        self.nodes.streams[at] = np.asarray(seeds, np.uint64)

    def place(self, kinds: ArrayLike, which: ArrayLike | None = None) -> None:
        """Put tenants on some nodes (all by default), which are idle with an empty cache from now on.

        `kinds` are indices into the kinds of this fleet, EMPTY for nobody, as (places,) or (len(which), places).
        """
        at, given = self._chosen(which), np.asarray(kinds, np.int64)
        if given.size and not (given.min() >= EMPTY and given.max() < len(self.kinds)):
            raise NodeInputError(f"kinds are {given.min()} to {given.max()}, expected {EMPTY} to {len(self.kinds) - 1}")
        nodes = self.nodes
        nodes.present[at] = given
        nodes.state[at], nodes.occupancy[at] = self._idle, 0.0
        nodes.measured[at], nodes.entropy[at], nodes.flows[at] = np.nan, np.nan, 0.0

    def replace(self, node: int, place: int, kind: int) -> None:
        """Let one tenant come (to an idle start) or, with EMPTY, go; the others carry on. Counts are the caller's."""
        if not EMPTY <= kind < len(self.kinds):
            raise NodeInputError(f"kind is {kind}, expected {EMPTY} to {len(self.kinds) - 1}")
        nodes = self.nodes
        nodes.present[node, place] = kind
        nodes.state[node, place], nodes.occupancy[node, place] = self._idle, 0.0

    def step(self, loads: FloatArray, dt: float = 1.0, which: ArrayLike | None = None) -> None:
        """Let `dt` seconds pass on some nodes (all by default).

        `loads` (nodes, places) are fractions of max load, what stands there for jobs and empty places is ignored.
        Raises NodeInputError, with the node, for counts that cannot be laid out and for impossible loads.
        """
        at, nodes = self._chosen(which), self.nodes
        if not (np.isfinite(dt) and dt > 0):
            raise NodeInputError(f"dt is {dt}, expected a number of seconds above 0")
        self._check(at, loads)
        counts: IntArray = (nodes.present[at] >= 0).sum(axis=1)
        for n in range(self.places + 1):
            chosen = at[counts == n]
            if len(chosen) == 0:
                continue
            if n not in self._rooms:
                self._rooms[n] = room_for(n, self.platform.cpus, self.platform.ways)
            step_nodes(chosen, self.terms, nodes, loads, dt, self.noise, self.relative_importance, self._rooms[n])

    def _chosen(self, which: ArrayLike | None) -> IntArray:
        return self._all if which is None else np.asarray(which, np.int64)

    def _check(self, at: IntArray, loads: FloatArray) -> None:
        if loads.shape != (self.size, self.places):
            raise NodeInputError(f"loads have shape {loads.shape}, expected (nodes, places) = {self.size, self.places}")
        bad = misfit(at, self.terms, self.nodes)
        if bad >= 0:
            services = self.is_service[bad]
            cores, ways = self.nodes.cores[bad][services].tolist(), self.nodes.ways[bad][services].tolist()
            raise NodeInputError(
                f"node {bad} of the fleet has cores {cores} and ways {ways}, expected at least one of each for every "
                f"service and one left for the jobs, of {self.platform.cpus} cores and {self.platform.ways} ways"
            )
        odd = (self.nodes.present[at] >= 0) & ~((loads[at] >= 0) & (loads[at] <= MAX_LOAD))
        odd &= self.is_service[at]
        if odd.any():
            row, place = (int(x[0]) for x in np.nonzero(odd))
            raise NodeInputError(
                f"load of node {at[row]}, place {place} is {loads[at[row], place]}, expected a fraction of max load "
                f"from 0 to {MAX_LOAD:g}"
            )
