"""Figure 11 in numbers: policies by setting, and the paper's claims beside what was measured here."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from osml.lab.testbed.measure import Run
from osml.lab.testbed.settings import DispatchTrialSettings

FIGURES = ("mean_ms", "p95_ms")
# Section VI-C: gain of the threshold policy, percent; loads 0.4 and 0.7 are its 100 and 175 requests/s.
PAPER_OVERALL = {"avoid": (24, 58), "round_robin": (30, 63)}
PAPER_BY_LOAD = {"avoid": {0.4: 7.7, 0.7: 51.2}, "round_robin": {0.4: 49.4, 0.7: 12.3}}
PAPER_BY_INTENSITY = {"avoid": {"low": 26.8, "high": 16.2}, "round_robin": {"low": 24.8, "high": 33.9}}
PAPER_TRACES = {"app": {"avoid": (9, 40), "round_robin": (45, 78)}, "etc": {"avoid": (48, 73), "round_robin": (55, 79)}}


def compare(settings: DispatchTrialSettings, runs: list[Run]) -> dict[str, Any]:
    """`settings`: figures by setting and policy; `claims`: paper against ours; `aim`: how often threshold was best."""
    rows = [_row(settings, runs, setting.name) for setting in settings.settings]
    return {"settings": rows, "claims": _claims(settings, rows), "aim": _aim(rows)}


def _row(settings: DispatchTrialSettings, runs: list[Run], setting: str) -> dict[str, Any]:
    policies: dict[str, Any] = {}
    for policy in settings.policies:
        own = sorted((run for run in runs if (run.setting, run.policy) == (setting, policy)), key=lambda run: run.run)
        policies[policy] = {
            name: {"mean": statistics.fmean(values), "runs": values}
            for name in FIGURES
            for values in [[float(getattr(run, name)) for run in own]]
        }
    others = [policy for policy in policies if policy != "threshold"]
    gains = {name: {other: _gain(policies["threshold"], policies[other], name) for other in others} for name in FIGURES}
    return {"setting": setting, "policies": policies, "gain_pct": gains}


def _gain(ours: dict[str, Any], other: dict[str, Any], name: str) -> float:
    """How much lower, percent of the other's."""
    return 100 * (other[name]["mean"] - ours[name]["mean"]) / other[name]["mean"]


def _aim(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Settings in which the mean is lower than both others'; and where it is worse than the better one in every run."""
    best, worse = list[str](), list[str]()
    for row in rows:
        means = {policy: figures["mean_ms"] for policy, figures in row["policies"].items()}
        others = [means[name] for name in ("avoid", "round_robin") if name in means]
        if not others:
            continue
        better = min(others, key=lambda figures: figures["mean"])
        if means["threshold"]["mean"] < better["mean"]:
            best.append(row["setting"])
        elif all(ours > other for ours, other in zip(means["threshold"]["runs"], better["runs"], strict=True)):
            worse.append(row["setting"])
    return {"settings": len(rows), "lower_than_both": best, "worse_than_the_better_in_every_run": worse}


def _claims(settings: DispatchTrialSettings, rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    by_name = {row["setting"]: row["gain_pct"] for row in rows}
    constant = [setting for setting in settings.settings if setting.load is not None]
    found: list[dict[str, str]] = []

    def add(
        claim: str, paper: str, values: list[float], shown: Callable[[list[float]], float] = statistics.fmean
    ) -> None:
        if values:
            found.append({"claim": claim, "paper": paper, "ours": f"{shown(values):.0f} %"})

    for other, (mean, most) in PAPER_OVERALL.items():
        if other not in settings.policies:
            continue
        gains = {setting: by_name[setting.name]["mean_ms"][other] for setting in constant}
        add(f"mean against {other}, all constant settings", f"{mean} %", list(gains.values()))
        add(f"mean against {other}, largest", f"{most} %", list(gains.values()), max)
        for load, paper in PAPER_BY_LOAD[other].items():
            add(f"mean against {other}, load {load:g}", f"{paper} %", [g for s, g in gains.items() if s.load == load])
        for intensity, paper in PAPER_BY_INTENSITY[other].items():
            own = [g for s, g in gains.items() if s.intensity == intensity]
            add(f"mean against {other}, {intensity} intensity", f"{paper} %", own)
        for trace in settings.traces:
            figures = by_name[f"{trace} trace"]
            for name, label, paper in zip(FIGURES, ("mean", "p95"), PAPER_TRACES[trace][other], strict=True):
                add(f"{label} against {other}, {trace} trace", f"{paper} %", [figures[name][other]])
    return found
