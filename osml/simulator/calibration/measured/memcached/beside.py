"""memcached beside iBench programs, from its rows alone: p95 below the knee, throughput at saturation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.memcached.alone import REACHED, Unsaturated, alone, by_target
from osml.simulator.calibration.measured.memcached.antagonists import ANTAGONISTS, Beside, BesideConstants
from osml.simulator.calibration.measured.outcome import Pair, Test
from osml.simulator.calibration.measured.table import Columns, Row

COLUMNS = Columns(
    positive=("qps_target", "qps", "p95_us"),
    whole=("threads", "cpus"),
    texts=("repo", "vm", "set", "interference"),
    optional=("runs", "min_us", "p5_us", "p50_us", "p75_us", "p90_us", "p99_us", "p999_us"),
)

SHIPPED = BesideConstants()

WITHOUT: Mapping[str, BesideConstants] = {
    "TellToldTold/cloud-comp-arch-project": BesideConstants(
        interrupt=0.0726, single=0.1404, llc=1.3491, membw=1.2, awake=0.969, knee_llc=0.715
    ),
    "ibouchama/cloud-comp-arch-project-team": BesideConstants(
        interrupt=0.0726, single=0.1404, llc=1.3562, membw=1.1569, awake=0.969, knee_llc=0.7258
    ),
    "jellytabby/cloud-comp-arch-project": BesideConstants(
        wake_ms=0.0134, interrupt=0.05, single=0.2, llc=1.2658, membw=1.1569, awake=0.9541, knee_llc=0.7258
    ),
}
"""Constants fitted without any row of one repository, by a search that starts at neutral values."""

_WITHOUT_GUESS = Unsaturated(work=16.9)  # from the e2 machines alone

_BELOW = 1.3
_SATURATED = 0.15
_AIM = 0.8


class Cell(NamedTuple):
    """Runs of one target rate beside one antagonist, with what the law says (us, requests/s)."""

    repo: str
    antagonist: str
    key: str
    reached: bool
    measured: float  # p95 in us where the target is reached, else requests/s
    ours: float
    none: float  # the same of the service alone at the same target


def _key(row: Row) -> tuple[str, str, str]:
    return row["repo"], row["vm"], row["set"]


def _none_rows(rows: Sequence[Row], key: tuple[str, str, str]) -> list[Row]:
    """Rows without a neighbour of the set, or of the longest set of the machine whose name begins its name."""
    mine = [row for row in rows if row["interference"] == "none" and _key(row)[:2] == key[:2]]
    names = [row["set"] for row in mine if key[2].startswith(row["set"])]
    return [row for row in mine if row["set"] == max(names, key=len)] if names else []


def cells(
    rows: Sequence[Row], machines: Machines, constants: Mapping[str, BesideConstants], known: Sequence[Row] = ()
) -> Iterator[Cell]:
    """Every cell with an antagonist. The service alone comes from the rows, else the `known` ones, else no cell."""
    one = [row for row in rows if row["threads"] == 1.0 and row["cpus"] == 1.0]
    alone_known = [row for row in known if row["threads"] == 1.0 and row["cpus"] == 1.0]
    groups: dict[tuple[tuple[str, str, str], str], list[Row]] = defaultdict(list)
    for row in one:
        if row["interference"] in ANTAGONISTS:
            groups[_key(row), row["interference"]].append(row)
    for (key, antagonist), mine in sorted(groups.items()):
        c = constants.get(key[0], SHIPPED)
        none = _none_rows(one, key) or _none_rows(alone_known, key)
        base = alone(none, c.knee, _WITHOUT_GUESS if constants else None) if none else None
        if base is None:
            continue
        beside = Beside(base, antagonist, machines.of(key[1], mine[0]), c)
        for load, runs in by_target(mine).items():
            reached = median(row["qps"] for row in runs) >= REACHED * 1000.0 * load
            column = "p95_us" if reached else "qps"
            ours = 1000.0 * (beside.p95(load) if reached else min(load, beside.capacity))
            name = f"{' '.join(key)} {antagonist} {1000.0 * load:g}/s"
            measured = median(row[column] for row in runs)
            yield Cell(key[0], antagonist, name, reached, measured, ours, _alone_at(none, load, column))


def _alone_at(none: Sequence[Row], load: float, column: str) -> float:
    """The measured value of the service alone at the same load, interpolated between targets."""
    found = {target: median(row[column] for row in cell) for target, cell in by_target(none).items()}
    return float(np.interp(load, list(found), list(found.values())))


def _below(name: str, found: Sequence[Cell], note: str, aim: float | None = None) -> Test:
    pairs = [Pair(cell.key, cell.measured, cell.ours, cell.none) for cell in found if cell.reached]
    return Test(name, "us", "factor", _BELOW, pairs, "p95 alone at the same load", aim, note)


def tests(rows: Sequence[Row], machines: Machines, known: Sequence[Row] = ()) -> list[Test]:
    """All antagonists, each of them, and all with constants that have not seen the repository."""
    found = list(cells(rows, machines, {}, known))
    fitted = "Seven constants and the form of the law were fitted on the shipped rows. Beside `cpu` no row was seen."
    p95 = "memcached p95 beside an antagonist, below the knee"
    out = [_below(p95, found, fitted, _AIM)]
    full = [Pair(cell.key, cell.measured, cell.ours, cell.none) for cell in found if not cell.reached]
    throughput = "memcached throughput beside an antagonist, at saturation"
    out.append(
        Test(throughput, "requests/s", "relative", _SATURATED, full, "throughput alone at the same load", None, fitted)
    )
    out += [_below(f"memcached p95 beside {a}", [c for c in found if c.antagonist == a], fitted) for a in ANTAGONISTS]
    unseen = [cell for cell in cells(rows, machines, WITHOUT, known) if cell.repo in WITHOUT]
    note = "Constants were fitted without any row of the repository; the form of the law was chosen on all rows."
    out.append(_below("memcached p95 beside an antagonist, repository left out", unseen, note, _AIM))
    return out
