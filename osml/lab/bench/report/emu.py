"""Effective machine utilisation over the number of services (PARTIES figures 7 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osml.lab.bench.oracle_policy import ISOLATED, NAME
from osml.lab.bench.published import published
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import figure, violins
from osml.lab.bench.report.statistics import mean
from osml.lab.bench.results import Results


def gain(results: Results, policy: str, over: str) -> float | None:
    """Gain in mean EMU over the same cases, in percent."""
    ours = results.by_key(results.of(policy=policy), "emu")
    other = results.by_key(results.of(policy=over), "emu")
    keys = ours.keys() & other.keys()
    base = sum(other[key] for key in keys)
    return 100.0 * (sum(ours[key] for key in keys) / base - 1.0) if base > 0 else None


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.0f} %"


def by_number_of_services(counts: Mapping[int, Results], beside: str = "") -> Section:
    """Figure 7, with the gains over Heracles and the distance from the oracles; `beside` says what runs there, too."""
    theirs = published()["parties"]["emu_gain_over_heracles_pct"]
    policies = next(iter(counts.values())).policies if counts else []
    bounds = [oracle for oracle in (ISOLATED, NAME) if oracle in policies]
    rows = [
        [
            str(n),
            *(mean(results.by_case(results.of(policy=policy), "emu")).text(".0%") for policy in policies),
            _percent(gain(results, "parties", "heracles")),
            f"+{theirs[n]} %" if n in theirs else "-",
            *(_percent(gain(results, "parties", oracle)) for oracle in bounds),
        ]
        for n, results in sorted(counts.items())
    ]
    against = [f"parties against {oracle}" for oracle in bounds]
    headings = ["services", *policies, "parties over heracles", "published", *against]
    text = [
        "EMU is the sum of the loads of all services. The bench searches the highest load of one of them; EMU is 0 if "
        f"the given loads miss a target. {ISOLATED} finds the best isolated partition, like the paper's oracle; {NAME} "
        "may also share all resources. A policy that shares some resources or uses other mechanisms can exceed both. "
        "The paper's pairs and triples have all loads from 10 to 100 %. In its figure 8 parties is at most "
        f"{published()['parties']['emu_below_oracle_pct_at_most']} % below the oracle."
    ]

    top = 1.1 * max((100 * row["emu"] for results in counts.values() for row in results.rows), default=100.0) or 100.0

    def draw(made: Any, axes: Any) -> None:
        for axis, (n, results) in zip(axes[0], sorted(counts.items()), strict=True):
            values = [[100 * row["emu"] for row in results.of(policy=policy)] for policy in policies]
            violins(axis, policies, values, "EMU, %" if n == min(counts) else "")
            axis.set(title=f"{n} services", ylim=(0, top))

    name = f"emu-by-number{beside.replace(' ', '-').lower()}.png"
    pictures = (
        [
            Picture(
                name,
                f"EMU by number of services{beside} (simulated), as figure 7",
                figure(1, len(counts), (2.9 * len(counts), 3.4), draw),
            )
        ]
        if counts
        else []
    )
    return Section(f"Figure 7: EMU{beside}", text, [Table(headings, rows, "mean EMU, 95 % interval")], pictures)


def convergence_by_number(counts: Mapping[int, Results]) -> Section:
    """Figure 10: seconds until PARTIES meets all targets, at the highest load that it holds."""
    theirs = published()["parties"]["convergence_s"]
    rows: list[list[str]] = []
    means: dict[int, float] = {}
    for n, results in sorted(counts.items()):
        runs = results.of(policy="parties")
        held = [row for row in runs if row["emu"]]
        timed = [row for row in held if row["convergence_s"] is not None]
        seconds = [row["convergence_s"] for row in timed]
        if not seconds:
            continue
        found = mean(results.by_case(timed, "convergence_s"))
        means[n] = found.value
        counts_of = [f"{len(held)} of {len(runs)}", f"{len(timed)} of {len(held)}"]
        rows.append([str(n), *counts_of, found.text(), f"{min(seconds):.3g} to {max(seconds):.3g}"])
    most = max(means, default=0)
    ours = f"ours {means[most] / means[2]:.2f} times with {most}" if most > 2 and means.get(2) else "ours is unknown"
    text = [
        f"Published: at most {theirs['max']} s, {theirs['growth_2_to_6']} times as long with 6 services as with 2; "
        f"{ours}. A run has a time if its targets hold for 30 s in a row. A load is held if they do for 10 s."
    ]
    return Section(
        "Figure 10: convergence of parties",
        text,
        [Table(["services", "runs that hold a load", "of these with a time", "mean seconds", "range"], rows)],
    )
