"""Who converges, how fast, and with how much (OSML figures 8 and 11, section 6.2)."""

from __future__ import annotations

from typing import Any

from osml.lab.bench.episode import Row
from osml.lab.bench.published import published, ratio
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import colour, figure, own_legend, violins
from osml.lab.bench.report.statistics import mean
from osml.lab.bench.results import Key, Results

HEADS = [
    "policy",
    "converged, of all runs",
    "converged, of the runs of feasible mixes",
    "share of these",
    "published",
    "said that it does not fit, of the runs of infeasible mixes",
]


def who_converges(results: Results, *, figure_11: bool = True, of: str = "") -> Section:
    """Mixes that converge, of all and of those that the oracle can satisfy; their EMU as in figure 11.

    `figure_11`: these are its mixes, so that its numbers stand beside ours. `of`: which mixes of several these are.
    """
    theirs: dict[str, Any] = published()["osml"]["converged"] if figure_11 else {}
    rows: list[list[str]] = []
    for policy in results.policies:
        found = results.of(policy=policy)
        feasible = [row for row in found if row["feasible_oracle"]]
        done = sum(row["converged"] for row in found)
        of_feasible = sum(row["converged"] for row in feasible)
        share = f"{of_feasible / len(feasible):.1%}" if feasible else "-"
        paper = f"{theirs[policy]} of {theirs['of']} ({theirs[policy] / theirs['of']:.1%})" if policy in theirs else "-"
        hopeless = [row for row in found if row["feasible_oracle"] is False]
        told = f"{sum(row['infeasible_reported'] for row in hopeless)} of {len(hopeless)}" if hopeless else "-"
        rows.append([policy, f"{done} of {len(found)}", f"{of_feasible} of {len(feasible)}", share, paper, told])
    table = Table(HEADS, rows, "runs (mix x seed) that converge")
    picture = Picture(
        f"emu-{of.replace(' ', '-')}.png" if of else "emu.png",
        "EMU of converged runs (simulated)" + (", as figure 11" if figure_11 else "") + (f", {of}" if of else ""),
        figure(1, 1, (7, 3.6), lambda made, axes: _emu(results, axes[0, 0])),
    )
    title = "Figure 11: convergence" if figure_11 else f"Convergence, {of}" if of else "Convergence"
    return Section(title, _feasibility(results), [table], [picture])


def _feasibility(results: Results) -> list[str]:
    """How many mixes are feasible, and how many runs of a policy these are: the table counts runs."""
    if all(row["feasible_oracle"] is None for row in results.rows):
        return ["The oracle was not asked, so nobody knows which mixes are feasible. The table counts runs."]
    said: dict[bool | None, int] = {verdict: results.mixes(verdict) for verdict in (True, False, None)}
    first = results.of(policy=results.policies[0])
    runs = {verdict: sum(row["feasible_oracle"] is verdict for row in first) for verdict in said}
    return [
        f"{said[True]} mixes are feasible, {said[False]} are infeasible, and {said[None]} are undecided. "
        f"With {len({row['seed'] for row in first})} seeds, these are {runs[True]}, {runs[False]} and {runs[None]} "
        "runs of each policy. The table counts runs.",
        "For an infeasible mix, the oracle proves that neither an isolated partition nor one shared region meets all "
        "targets. A policy that shares some resources can still meet them. A mix is undecided if the time of the "
        "oracle was up. The paper does not report how many of its mixes are infeasible.",
        "The last column counts runs of infeasible mixes in which the policy itself said that the mix does not fit. "
        "Most policies never say so.",
    ]


def _emu(results: Results, axis: Any) -> None:
    values = [
        [100.0 * row["load"] for row in results.of(policy=policy) if row["converged"]] for policy in results.policies
    ]
    violins(axis, results.policies, values, "EMU (sum of the loads), %")


def common(results: Results) -> dict[str, dict[Key, Row]]:
    """Rows of the cases in which every policy that converges at all has converged, by policy."""
    done = {
        policy: {(row["case"], row["seed"]): row for row in results.of(policy=policy) if row["converged"]}
        for policy in results.policies
    }
    active = {policy: rows for policy, rows in done.items() if rows}
    keys = {key for rows in active.values() for key in rows}
    for rows in active.values():
        keys &= rows.keys()
    return {policy: {key: rows[key] for key in sorted(keys)} for policy, rows in active.items()}


def _managed(results: Results) -> Results:
    """Without the policies that do nothing: they converge at once or never."""
    idle = {"unmanaged", "even", "lc_first", "round_robin", "random"}
    return Results([row for row in results.rows if row["policy"] not in idle], [], results.metadata)


def how_fast(results: Results) -> Section:
    """Figure 8: convergence time over the mixes that all of the managing policies converge on."""
    same = common(_managed(results))
    n = min((len(found) for found in same.values()), default=0)
    theirs = published()["osml"]["convergence_s"]
    rows: list[list[str]] = []
    for policy, found in same.items():
        seconds = [row["convergence_s"] for row in found.values()]
        ours = mean(results.by_case(found.values(), "convergence_s"))
        paper = theirs.get(policy)
        rows.append(
            [
                policy,
                ours.text(),
                f"{min(seconds):.3g} to {max(seconds):.3g}" if seconds else "-",
                "-" if paper is None else f"{paper['mean']:g} ({paper['min']:g} to {paper['max']:g})",
                ratio(ours.value, paper["mean"]) if paper and seconds else "-",
                mean(results.by_case(found.values(), "actions")).text(),
            ]
        )
    table = Table(
        ["policy", "mean seconds", "range", "published", "ours / published", "actions"],
        rows,
        f"{n} runs on which all these policies converge",
    )
    draw = figure(1, 2, (10, 3.8), lambda made, axes: _fast(same, axes))
    picture = Picture("convergence.png", "Convergence time and EMU (simulated), as figure 8", draw)
    text = ["Zero seconds: all targets are met from the first interval on, before the first action."]
    return Section("Figure 8: time to convergence", text, [table], [picture])


def _fast(same: dict[str, dict[Key, Row]], axes: Any) -> None:
    for policy, found in same.items():
        axes[0, 0].scatter(
            [row["convergence_s"] for row in found.values()],
            [100 * row["load"] for row in found.values()],
            s=10,
            alpha=0.6,
            color=colour(policy),
            label=policy,
        )
    axes[0, 0].set(xlabel="seconds to convergence", ylabel="EMU (sum of the loads), %")
    own_legend(axes[0, 0])
    values = [[row["convergence_s"] for row in found.values()] for found in same.values()]
    violins(axes[0, 1], list(same), values, "seconds to convergence")


def resources(results: Results) -> Section:
    """Cores and ways that the LC services hold at the end, over the same runs."""
    same = common(_managed(results))
    theirs = published()["osml"]["resources"]
    rows: list[list[str]] = []
    for policy, found in same.items():
        paper = theirs.get(policy)
        rows.append(
            [
                policy,
                mean(results.by_case(found.values(), "cores_used")).text(),
                mean(results.by_case(found.values(), "ways_used")).text(),
                "-" if paper is None else f"{paper['cores']} cores, {paper['ways']} ways",
                mean(results.by_case(found.values(), "oracle_cores")).text(),
                mean(results.by_case(found.values(), "oracle_ways")).text(),
            ]
        )
    table = Table(["policy", "cores", "ways", "published", "oracle's cores", "oracle's ways"], rows)
    return Section("Section 6.2 (2): resources of the LC services, mean", [], [table])
