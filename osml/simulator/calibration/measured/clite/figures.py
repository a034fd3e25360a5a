"""CLITE's regions (figure 1) and oracle maps (figures 7, 8, 12), from its curves of p95 over load (figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import yaml

from osml.base.failure import InputError
from osml.simulator.calibration.measured.clite.fit import CACHES, REMOTE, THREADS, calibrate
from osml.simulator.calibration.measured.clite.law import NODE, Curve, Service
from osml.simulator.calibration.measured.clite.maps import LOADS, job_map, least_ways, oracle_map
from osml.simulator.calibration.measured.outcome import Pair, Rule, Test
from osml.simulator.calibration.measured.table import read_text
from osml.simulator.columns import FloatArray

Cell = int | float | str | None
"""A number, "x" where nothing meets the targets, null where the cell is not published."""


class ServiceFact(msgspec.Struct, frozen=True):
    """Max load in requests/s and p95 there (memcached: us, all others: ms)."""

    max_load_qps: float
    p95_at_max_load: float


class Facts(msgspec.Struct, frozen=True):
    """What the tests read of clite_facts.yaml; all else in it is ignored."""

    services: dict[str, ServiceFact | str] = {}
    figure_6_p95_over_load: dict[str, list[float | None] | str] = {}
    figure_1_qos_region: dict[str, list[Cell]] = {}
    heat_maps: dict[str, dict[str, dict[int, list[Cell]]]] = {}


def read_facts(path: Path) -> Facts:
    """The facts of a file; InputError with one sentence for what is wrong with it."""
    try:
        return check_facts(msgspec.convert(yaml.safe_load(read_text(path)), Facts))
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None


def check_facts(facts: Facts) -> Facts:
    """ValueError for a curve, region or map of the wrong shape, or a cell that is no percentage."""
    for name, curve in facts.figure_6_p95_over_load.items():
        if isinstance(curve, list) and any(value is not None and not 0.0 < value < 1e9 for value in curve):
            raise ValueError(f"figure 6, {name}: expected latencies above 0")
    for name, service in facts.services.items():
        if not isinstance(service, str) and not (service.max_load_qps > 0.0 and service.p95_at_max_load > 0.0):
            raise ValueError(f"services, {name}: expected a max load and a p95 above 0")
    rows: dict[str, Sequence[Cell]] = {
        f"figure 1, {k}": v for k, v in facts.figure_1_qos_region.items() if k != "cores"
    }
    for name, map_of in facts.heat_maps.items():
        for load, cells in map_of.get("oracle", {}).items():
            if load not in range(10, 101, 10):
                raise ValueError(f"{name}: row {load}, expected loads 10, 20 .. 100")
            rows[f"{name}, row {load}"] = cells
    for name, cells in rows.items():
        if len(cells) != 10:
            raise ValueError(f"{name}: {len(cells)} cells, expected 10")
        for cell in cells:
            if cell != "x" and (isinstance(cell, str) or (cell is not None and not 0 <= cell <= 100)):
                raise ValueError(f"{name}: {cell!r}, expected a number, x or null")
    return facts


def service_of(facts: Facts, name: str) -> Service | None:
    """A calibrated service; None where the file has no curve of it, or nobody knows its threads."""
    fact, values = facts.services.get(name), facts.figure_6_p95_over_load.get(name)
    if not isinstance(fact, ServiceFact) or not isinstance(values, list) or name not in THREADS:
        return None
    unit = 1e-6 if name == "memcached" else 1e-3
    known = [(i, value * unit) for i, value in enumerate(values) if value is not None]
    if len(known) < 3:
        return None
    rates = np.array([(i + 1) / 10 * fact.max_load_qps for i, _ in known])
    curve = Curve(rates, np.array([value for _, value in known]), fact.max_load_qps, fact.p95_at_max_load * unit)
    return calibrate(curve, CACHES[name], THREADS[name], remote=name in REMOTE)


def _region(name: str, service: Service, published: Sequence[Cell]) -> Test:
    """Every part of the machine: 1 where the target holds, 0 where it does not."""
    least = least_ways(service, [1.0])[0]
    cells: list[tuple[int, str, bool, bool]] = []
    for i, cell in enumerate(published):
        for ways in range(1, NODE.ways + 1):
            if cell is not None:
                met = not isinstance(cell, str) and ways >= cell
                cells.append((i + 1, f"{name} {2 * (i + 1)} CPUs, {ways} ways", met, bool(ways >= least[i])))
    most = sum(met for _, _, met, _ in cells) * 2 >= len(cells)
    cut = max(range(12), key=lambda cut: sum((cores >= cut) == met for cores, _, met, _ in cells)) if cells else 0
    rectangle = Rule("so many cores or more, the best on these cells", [float(cores >= cut) for cores, *_ in cells])
    note = "Threads, tolerance and cache stalls were fitted on these cells; load 100 %, which the paper does not say."
    pairs = [Pair(key, float(met), float(ours), float(most)) for _, key, met, ours in cells]
    simplest = "the more frequent side"
    return Test(
        f"CLITE figure 1: side of the target, {name}",
        "0 or 1",
        "distance",
        0.0,
        pairs,
        simplest,
        None,
        note,
        (rectangle,),
    )


def _map(name: str, made: FloatArray, published: Mapping[int, Sequence[Cell]], constant: float | None) -> list[Test]:
    """All cells of a map, and those where the oracle does not simply reach 100."""
    pairs: list[Pair] = []
    for i, load in enumerate(LOADS):
        for j, cell in enumerate(published.get(10 * (i + 1), ())):
            if cell is not None:
                value = 0.0 if isinstance(cell, str) else float(cell)
                key = f"{name} row {100 * load:g} column {10 * (j + 1)}"
                pairs.append(Pair(key, value, float(made[i, j]), constant))
    if constant is None:
        middle = median(pair.measured for pair in pairs) if pairs else 0.0
        pairs = [pair._replace(simplest=middle) for pair in pairs]
    simplest = "always the median of the cells" if constant is None else f"always {constant:g} %"
    none = Rule("never", [0.0 for _ in pairs])
    note = "Threads of the services, tolerance and cache stalls were fitted on these cells and those of figure 1."
    found = [Test(f"CLITE {name}: all cells", "points", "distance", 10.0, pairs, simplest, 0.8, note, (none,))]
    if constant is not None:
        told = [pair for pair in pairs if pair.measured < constant]
        rule = Rule("never", [0.0 for _ in told])
        title = f"CLITE {name}: informative cells"
        found.append(Test(title, "points", "distance", 10.0, told, simplest, 0.8, note, (rule,)))
    return found


def tests(facts: Facts, known: Facts | None = None) -> list[Test]:
    """Regions, and the oracle's maps. A service whose curve is not in the facts comes from the `known` ones."""
    services: dict[str, Service] = {}
    for name in THREADS:
        own = service_of(facts, name) or (service_of(known, name) if known else None)
        if own is not None:
            services[name] = own
    out: list[Test] = []
    for name, published in facts.figure_1_qos_region.items():
        if name in services:
            out.append(_region(name, services[name], published))
    for name, jobs in (("figure_7_max_memcached_load", 0), ("figure_8_max_memcached_load", 1)):
        published = facts.heat_maps.get(name, {}).get("oracle")
        three = [services.get(key) for key in ("img-dnn", "masstree", "memcached")]
        a, b, c = three
        if published and a and b and c:
            out += _map(name.split("_max")[0].replace("_", " "), oracle_map(a, b, c, jobs), published, 100.0)
    published = facts.heat_maps.get("figure_12_streamcluster_performance_pct", {}).get("oracle")
    rows, columns = services.get("memcached"), services.get("xapian")
    if published and rows and columns:
        out += _map("figure 12", job_map(rows, columns, 2 * NODE.cores), published, None)
    return out
