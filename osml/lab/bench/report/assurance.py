"""Targets held, bandwidth beyond need and CPU use of one LC service beside batch jobs (OMBM section 4.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from osml.lab.bench.episode import Row
from osml.lab.bench.published import published
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import colour, figure, own_legend
from osml.lab.bench.results import Results
from osml.lab.ombm.accuracy import SERVICES
from osml.lab.ombm.assurance import COMBINATIONS, KINDS, WARM_UP_S, Assurance, Seen, assured
from osml.simulator.mix import parse_mix

_SHOWN = "C"
"""The combination of figure 12's picture."""

_SHOWN_S = 310.0
_FLOOR, _CEILING = 1e-3, 30.0  # of the target: what the picture shows


def combination_of(mix: str) -> str:
    """The name of a mix's jobs in table 2."""
    jobs = parse_mix(mix).jobs
    return next(name for name, of_table in COMBINATIONS.items() if of_table == jobs)


def assurances(results: Results) -> list[Assurance]:
    """By kind of load, service, combination and policy: all rates and seeds together, the warm-up left out."""
    seen: dict[tuple[str, str, str, str], list[Seen]] = defaultdict(list)
    for row in results.timelines:
        if row["time_s"] >= WARM_UP_S:
            key = (row["part"], row["service"], combination_of(row["mix"]), row["policy"])
            seen[key].append(Seen(row["tail_ms"] <= row["target_ms"], row["load"], row["reserved_gbps"], row["busy"]))
    order = {policy: place for place, policy in enumerate(results.policies)}
    found = [assured(service, jobs, kind, policy, some) for (kind, service, jobs, policy), some in seen.items()]
    return sorted(found, key=lambda a: (KINDS.index(a.load), SERVICES.index(a.service), a.combination, order[a.policy]))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _row(group: Sequence[Assurance]) -> list[str]:
    first = group[0]
    wasted = [one.wasted_gbps for one in group if one.wasted_gbps is not None]
    gains = [used / alone for alone, used in (one.published_cpu_pct for one in group)]
    return [
        f"{first.service}, {first.load}",
        first.policy,
        f"{min(one.slo_pct for one in group):.1f}",
        f"{_mean([one.slo_pct for one in group]):.1f}",
        f"{_mean(wasted):.2f}" if wasted else "-",
        f"{_mean([one.needed_gbps for one in group]):.2f}",
        f"{_mean([one.cpu_alone_pct for one in group]):.1f}",
        f"{_mean([one.cpu_pct for one in group]):.1f}",
        f"{_mean([one.gain for one in group]):.1f}",
        f"{_mean(gains):.1f}",
    ]


def table(results: Results) -> Section:
    """One row a service, kind of load and policy: the least over the combinations of jobs, else means over them."""
    groups: dict[tuple[str, str, str], list[Assurance]] = defaultdict(list)
    for one in assurances(results):
        groups[one.load, one.service, one.policy].append(one)
    theirs = published()["ombm"]
    headings = [
        "service, load",
        "policy",
        "SLO held, lowest %",
        "SLO held, mean %",
        "GB/s beyond need",
        "GB/s needed",
        "CPU % alone",
        "CPU % with jobs",
        "factor",
        "factor, published",
    ]
    text = [
        f"Published (OMBM only): the SLO is held in up to {theirs['slo_held_pct']} % of the intervals. CPU use grows "
        f"by a factor of {theirs['cpu_gain']['mean']} on average, {theirs['cpu_gain']['max']} at most. The paper "
        "does not describe its rates. GB/s beyond need: reserved bandwidth above the need beside these jobs at that "
        "rate; the paper has no such figure. A dash: the policy reserves no bandwidth. Every policy may use the "
        f"software regulator. The first {WARM_UP_S} s of a run do not count."
    ]
    return Section("Table 3: SLO held and server used", text, [Table(headings, [_row(g) for g in groups.values()])])


def figure_11() -> Section:
    """Real tails beside the jobs under the prediction line; the same whatever the policies do."""
    from osml.lab.ombm.figures import figure_11 as draw  # noqa: PLC0415 - matplotlib is an extra

    caption = "Figure 11: tails beside A, B, C under the classic prediction line (simulated)"
    return Section("Figure 11", [], [], [Picture("figure-11.png", caption, lambda path: draw(path) and None)])


def figure_12(results: Results) -> Section:
    """Tail over target and reserved bandwidth while the rate follows a sine, beside C, first seed."""
    shown: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in results.timelines:
        drawn = (row["part"], row["seed"], combination_of(row["mix"])) == ("diurnal", 0, _SHOWN)
        if drawn and WARM_UP_S <= row["time_s"] < _SHOWN_S:
            shown[row["service"], row["policy"]].append(row)

    def draw(made: Any, axes: Any) -> None:
        for column, service in enumerate(SERVICES):
            tails, reserved = axes[0, column], axes[1, column]
            for policy in results.policies:
                rows = shown.get((service, policy), [])
                times = [row["time_s"] for row in rows]
                over = [min(max(row["tail_ms"] / row["target_ms"], _FLOOR), _CEILING) for row in rows]
                tails.plot(times, over, ".", markersize=2, color=colour(policy), label=policy)
                if rows and all(row["reserved_gbps"] is not None for row in rows):
                    given = [row["reserved_gbps"] for row in rows]
                    reserved.plot(times, given, linewidth=1, color=colour(policy), label=policy)
            tails.axhline(1.0, color="k", linewidth=0.7)
            tails.set(yscale="log", ylim=(_FLOOR, 1.1 * _CEILING), title=service)
            reserved.set(xlabel="seconds", ylim=(0, 26))
        axes[0, 0].set_ylabel("tail / target")
        axes[1, 0].set_ylabel("reserved GB/s")
        own_legend(axes[0, 0], fontsize=7, markerscale=4)

    caption = f"Figure 12: a sine over all rates beside {_SHOWN} (simulated, first seed; cut at {_CEILING:g})"
    return Section("Figure 12", [], [], [Picture("figure-12.png", caption, figure(2, len(SERVICES), (11, 6), draw))])
