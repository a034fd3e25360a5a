"""The whole testbed: figure 11's settings under every policy, several runs each; summary, table and figure."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from osml import __version__
from osml.base.extras import how_to_install
from osml.base.failure import Failure, MachineError
from osml.dispatch.mdp.lookup import solved
from osml.dispatch.mdp.parameters import FarmParameters
from osml.lab.testbed.farm import Farm, running_farm, with_precedence
from osml.lab.testbed.figure11 import draw
from osml.lab.testbed.measure import Run, measure
from osml.lab.testbed.report import compare
from osml.lab.testbed.settings import CPU_SHARE, INTENSITIES, MAXCONN, DispatchTrialSettings
from osml.lab.trials.children import interrupt_on_signals
from osml.lab.trials.live.generator import find_generator


def run_testbed(settings: DispatchTrialSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Run it and write summary.json, testbed.md and figure-11.png below `settings.out`; returns the summary.

    Raises InputError for bad knobs, MachineError where the machine lacks something, Failure when a process dies.
    """
    settings.check()
    if importlib.util.find_spec("matplotlib") is None:
        raise MachineError(f"matplotlib is missing: {how_to_install('lab')}")
    loadgen = find_generator(settings.loadgen)
    try:
        settings.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{settings.out} can't be written: {error.strerror}; choose another folder with --out") from None
    interrupt_on_signals()
    began, load_before = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="osml-dispatch-") as name, running_farm(Path(name), loadgen) as farm:
        # The first solution may compile for a while, which must not fall into a run.
        solved(FarmParameters(2, 100, 125, 30, settings.alpha, settings.alpha, "anytime").rounded())
        usual = os.sched_getaffinity(0)
        with_precedence(0, farm.cpu)
        try:
            peaks = farm.calibrate()
            say("peak requests/s: " + ", ".join(f"{key} {value:.1f}" for key, value in peaks.items()))
            runs = _measure_all(settings, farm, peaks, say)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(0, usual)
    summary: dict[str, Any] = {
        "program": f"osml dispatch testbed {__version__}",
        "simulated": False,
        "machine": {
            "cpus": os.cpu_count(), "kernel": platform.release(), "load_average_before": load_before,
        },
        "settings": {
            "runs": settings.runs, "run_s": settings.run_s, "trace_s": settings.trace_s, "seed": settings.seed,
            "alpha_per_s": settings.alpha, "compress": settings.compress, "maxconn": MAXCONN, "cpu_share": CPU_SHARE,
            "work": farm.work, "mu_low_over_mu_high_wanted": dict(INTENSITIES), "poll_ms": settings.poll_ms,
        },
        "peaks_per_s": peaks,
        "comparison": compare(settings, runs),
        "runs": [run.document() for run in runs],
        "seconds": time.monotonic() - began,
    }  # fmt: skip
    (settings.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (settings.out / "testbed.md").write_text(markdown(summary))
    draw(settings, runs, settings.out / "figure-11.png")
    return summary


def _measure_all(
    settings: DispatchTrialSettings, farm: Farm, peaks: dict[str, float], say: Callable[[str], None]
) -> list[Run]:
    """Policies side by side within each run, so that what disturbs the machine for a while disturbs all of them."""
    found: list[Run] = []
    total = len(settings.settings) * settings.runs * len(settings.policies)
    for run, setting in itertools.product(range(settings.runs), settings.settings):
        for policy in settings.policies:
            farm.check()
            found.append(measure(farm, settings, setting, policy, run, peaks))  # pyright: ignore[reportArgumentType]
            last = found[-1]
            say(
                f"{len(found)}/{total} {setting.name}, run {run + 1}, {policy}: mean {last.mean_ms:.1f} ms, "
                f"p95 {last.p95_ms:.1f} ms" + (f", {last.errors} errors" if last.errors else "")
            )
    return found


def markdown(summary: dict[str, Any]) -> str:
    """The tables of the comparison."""
    comparison = summary["comparison"]
    lines = ["| setting | policy | mean, ms (runs) | p95, ms (runs) |", "|---|---|---|---|"]
    for row in comparison["settings"]:
        for policy, figures in row["policies"].items():
            cells = (
                f"{figures[key]['mean']:.1f} ({', '.join(f'{value:.1f}' for value in figures[key]['runs'])})"
                for key in ("mean_ms", "p95_ms")
            )
            lines.append(f"| {row['setting']} | {policy} | {' | '.join(cells)} |")
    lines += ["", "| reduction by the threshold policy | paper | ours |", "|---|---|---|"]
    lines += [f"| {claim['claim']} | {claim['paper']} | {claim['ours']} |" for claim in comparison["claims"]]
    return "\n".join(lines) + "\n"
