"""Ah-Q (TPDS '24), sections VII and IX, beside the suites ahq-equivalence, ahq-constant and ahq-fluctuating."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from osml.lab.bench.episode import Row
from osml.lab.bench.papers.line import Line, RunsOf, mean_of, near, order, points, times
from osml.lab.bench.report.entropies import tails_against_unmanaged
from osml.lab.bench.report.equivalence import ALL_WAYS, LEVEL, curve, grids
from osml.lab.bench.results import Results
from osml.lab.bench.suites.ahq_constant import part_of
from osml.lab.bench.suites.ahq_fluctuating import FIGURE
from osml.lab.theory.equivalence import cores_needed
from osml.simulator.calibration.measured.policy_facts import published_value as value
from osml.simulator.mix import parse_mix

POLICIES = ("unmanaged", "parties", "clite", "arq")
_HIGH, _LOW, _MIDDLE = 0.5, 0.1, 0.5
_ENTROPY = 0.1
_POINTS = 500


def lines(runs: RunsOf) -> Iterator[Line]:
    """All of the paper's lines whose suite was run."""
    if "ahq-equivalence" in runs:
        yield from _smaller_nodes(runs["ahq-equivalence"])
    if "ahq-constant" in runs:
        at_20, at_40 = (runs["ahq-constant"].only(part_of(others)) for others in (0.2, 0.4))
        yield from _entropies(at_20)
        yield from _against_unmanaged(at_40)
    if "ahq-fluctuating" in runs:
        yield from _fluctuating(runs["ahq-fluctuating"].only(FIGURE))


def _smaller_nodes(results: Results) -> Iterator[Line]:
    """Table II, figures 11 and 12 a: E_S over cores and ways."""
    cores, ways, found = grids(results)
    # Table II and figure 12 a are of all ways.
    of_all = {policy: cells[:, ways.index(ALL_WAYS)] for policy, cells in found.items()} if ALL_WAYS in ways else {}
    if "unmanaged" in found:
        for number, row in value("ahq.table2").items():
            known = "unmanaged" in of_all and number in cores
            ours = float(of_all["unmanaged"][cores.index(number)]) if known else None
            yield near("ahq.table2", f"E_S of unmanaged on {number} cores", row[-1], ours, _ENTROPY)
    for policy, cells in value("ahq.fig11").items():
        for cell, published in cells.items():
            c, w = (int(text) for text in cell.removesuffix("w").split("c"))
            known = policy in found and c in cores and w in ways
            ours = float(found[policy][cores.index(c), ways.index(w)]) if known else None
            yield near("ahq.fig11", f"E_S of {policy}, {c} cores, {w} ways", published, ours, _ENTROPY)
    for policy, published in value("ahq.fig12a").items():
        over_cores = curve(cores, of_all[policy]) if policy in of_all else None
        if over_cores is not None:
            ours = cores_needed(over_cores, LEVEL).cores
            yield near("ahq.fig12a", f"cores of {policy} for E_S {LEVEL:g}", published, ours, 1.0)


def _load(row: Row) -> float:
    return parse_mix(row["mix"]).loads["xapian"]


def _entropies(at_20: Results) -> Iterator[Line]:
    """Figure 16 a, E_S with IPC for jobs, as the paper has it."""

    def of(loads: tuple[float, float]) -> dict[str, float | None]:
        return {
            policy: mean_of([row for row in at_20.of(policy=policy) if loads[0] < _load(row) <= loads[1]], "e_s_ipc")
            for policy in POLICIES
        }

    lowest = [(policy, "unmanaged") for policy in POLICIES[1:]]
    yield order("ahq.fig16.low", "E_S, xapian at 10 % (lower is better)", lowest, of((0.0, _LOW)))
    pairs = (("parties", "arq"), ("clite", "arq"), ("unmanaged", "parties"), ("unmanaged", "clite"))
    yield order("ahq.fig16.high", "E_S, xapian above 50 % (lower is better)", pairs, of((_HIGH, 1.0)))


def _against_unmanaged(at_40: Results) -> Iterator[Line]:
    """Figure 16 b: tails against unmanaged (geometric mean over xapian's loads), and the job's IPC."""
    for policy, published in value("ahq.fig16b.tails").items():
        found = tails_against_unmanaged(at_40, policy)
        logs = [log for one in found.logs.values() for log in one]
        ours = 100.0 * (1.0 - math.exp(statistics.fmean(logs))) if logs else None
        without = f" (without {found.left_out} runs of no finite tail)" if found.left_out else ""
        yield points("ahq.fig16b.tails", f"tails of {policy} below unmanaged{without}", published, ours)
    speeds = {
        policy: mean_of([row for row in at_40.of(policy=policy) if _load(row) <= _MIDDLE], "be_speed")
        for policy in ("arq", "parties", "clite")
    }
    for policy, published in value("ahq.fig16b.ipc").items():
        arq, other = speeds["arq"], speeds[policy]
        more = 100.0 * (arq / other - 1.0) if arq and other else None
        yield points("ahq.fig16b.ipc", f"the job's speed under arq over {policy}", published, more)


def _fluctuating(results: Results) -> Iterator[Line]:
    """Figure 17: intervals with a missed target."""
    ours = {policy: mean_of(results.of(policy=policy), "violations") for policy in ("arq", "parties")}
    for policy, published in value("ahq.fig17.violations").items():
        yield times("ahq.fig17.violations", f"{policy}, of {_POINTS} intervals", published, ours[policy])
    yield order("ahq.fig17.violations", "which policy misses more", (("parties", "arq"),), ours)
