"""The page of real services, measured against predicted: docs/reference/live-validation.md and its picture."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

NAME = "live-validation"
PAGE = Path("docs/reference/live-validation.md")
PICTURE = Path("docs/pictures/live-validation.png")

_INTRO = """# Measured against predicted

For researchers: how well a simulation of the kernel's scheduler predicts real services.
They ran on one machine with two CPUs. The simulation predicted each held-out cell before that cell was measured.
[How to repeat it](../how-to/live-lab.md). `docs/results/live-validation.json` has the data of this page.

A *cell* is one service under one load, one CPU quota and one number of CPUs.
It runs alone, beside a job, or beside another service.
The load is a share of what the service can do under these conditions.
"""

_METHOD = """## How to read it

- **Calibration.** A few cells of each service are measured first. All other cells are held out.
- **Predicted.** The simulation knows a service's CPU time per request, its threads and its wake-up cost.
  Then the service's median error in the cells before is taken out.
  No prediction knows anything of its own cell, or of later ones.
- **Nearest cell** is the simplest predictor: the latency of the nearest cell of the service.
  It may use every cell that was measured before.
- **Ideal / (1 - u)** is the latency at low load, divided by the idle share. It is the law of the queue M/M/1.
- **In the interval** is the share of cells whose p99 lies in the interval that is promised for 90 %.
- **Best possible** is the share that a perfect prediction would reach, by the cells that were measured twice.
  Each measurement differs from the truth, too.
- **Noisy** cells are measured but not scored. Other programs or the hypervisor used the CPUs meanwhile.
  Or more than 0.1 % of the requests were refused, or a cell at saturation was not saturated.
- **Bias** is the median of predicted / measured - 1.
"""


_CELL = "A cell is written as service, CPUs/quota/load and company with its weight. `idle` is SCHED_IDLE."
_NOTHING = """**No held-out cell is scored yet.** The file has calibration cells only, or all others are noisy.
"""


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100.0 * share:.0f} %"


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def _summary(document: dict[str, Any]) -> str:
    repeats = document["two_measurements_agree"]
    lines = [
        ("held-out cells below saturation", str(document["held_out"]), "at least 300"),
        ("p99 within 25 %, prediction", _percent(document["within_25pct"]), "80 %"),
        ("p99 within 25 %, simulation alone", _percent(document.get("simulation_within_25pct")), ""),
        ("p99 within 25 %, nearest cell", _percent(document["nearest_within_25pct"]), ""),
        ("p99 within 25 %, ideal / (1 - u)", _percent(document["mm1_within_25pct"]), ""),
        ("p95 within 25 %, prediction", _percent(document["within_25pct_p95"]), ""),
        ("p50 within 25 %, prediction", _percent(document["within_25pct_p50"]), ""),
        ("median error of p99", _percent(document["median_error_p99"]), ""),
        ("p99 in its 90 % interval", _percent(document["coverage_90"]), "85 to 95 %"),
        ("p99 without an upper end of its interval", str(document.get("unbounded_p99", "not counted")), ""),
        ("p95 in its 90 % interval", _percent(document["coverage_90_p95"]), ""),
        ("p50 in its 90 % interval", _percent(document["coverage_90_p50"]), ""),
        (
            f"throughput within 10 %, {document['held_out_saturated']} cells at saturation",
            _percent(document["throughput_within_10pct"]),
            "all",
        ),
        ("CPU time within 10 %", _percent(document["cpu_within_10pct"]), ""),
        (
            f"second measurement within 25 % of the first, {repeats['pairs']} pairs",
            _percent(repeats["within_25pct"]),
            "",
        ),
        ("p99 within 25 %, best possible on this machine", _percent(repeats.get("best_possible")), ""),
        ("noisy cells, not scored", str(document["noisy"]), ""),
        (
            "calibration cells at saturation that were not saturated",
            str(document["unsaturated_calibration_cells"]),
            "none",
        ),
        ("p99 within 25 %, with the noisy cells", _percent(document.get("within_25pct_with_noisy")), ""),
        ("upper over lower end of the 90 % interval of p99, median", _ratio(document.get("median_width_p99")), ""),
        ("requests without an answer within 10 s", str(document.get("unanswered", "not counted")), ""),
        ("calibration cells", str(document["calibration_cells"]), ""),
        ("of these noisy", str(document.get("noisy_calibration_cells", "not counted")), ""),
    ]
    rows = [f"| {what} | {found} | {aim} |" for what, found, aim in lines]
    return "\n".join(["| | measured | aim |", "|---|---:|---:|", *rows]) + "\n"


def _groups(groups: dict[str, dict[str, Any]]) -> str:
    rows = [
        f"| {name} | {found['cells']} | {_percent(found['within_25pct'])} | {_percent(found['median_error'])} "
        f"| {_signed(found['bias'])} | {_percent(found['coverage_90'])} "
        f"| {_percent(found['nearest_within_25pct'])} | {_percent(found['mm1_within_25pct'])} |"
        for name, found in groups.items()
    ]
    head = "| | cells | within 25 % | median error | bias | in the interval | nearest cell | ideal / (1 - u) |"
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|---:|", *rows]) + "\n"


def _signed(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:+.0f} %"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _worst(document: dict[str, Any]) -> str:
    rows = [
        f"| {one['cell']} | {_ms(one['measured_ms'])} | {_ms(one['predicted_ms'])} | {one['reason']} |"
        for one in document["worst"]
    ]
    head = "| cell | measured p99, ms | predicted p99, ms | what the cell shows |"
    return "\n".join([head, "|---|---:|---:|---|", *rows]) + "\n"


def _all(document: dict[str, Any]) -> str:
    head = (
        "| cell | role | p99 measured, ms | its 90 % | p99 predicted, ms | its 90 % | requests/s | predicted "
        "| late p99, ms | steal, CPUs | others, CPUs |"
    )
    rows = [_row(cell) for cell in document["cells"]]
    return "\n".join([head, "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|", *rows]) + "\n"


def _row(cell: dict[str, Any]) -> str:
    seen, said = cell["measured"], cell["predicted"]
    role = "calibration" if cell["calibrated"] else "held out"
    role = f"{role}, noisy" if seen["noisy"] else role
    quota = "-" if cell["quota"] is None else f"{cell['quota']:g}"
    key = f"{cell['service']} {cell['cpus']}/{quota}/{cell['load']:g} {cell['company']}"
    if cell["company"] != "none":
        key += f" {cell['weight']:g}" if cell["scheduling"] == "normal" else " idle"
    if cell["repeat"]:
        key += f" again {cell['repeat']}"
    p99 = "" if said is None else _ms(said["p99_ms"]["value"])
    between = "" if said is None else f"{_ms(said['p99_ms']['low'])} to {_ms(said['p99_ms']['high'])}"
    rate = "" if said is None else f"{said['throughput']['value']:.0f}"
    return (
        f"| {key} | {role} | {_ms(seen['p99_ms'])} | {_ms(seen['low'])} to {_ms(seen['high'])} | {p99} | {between} "
        f"| {seen['throughput']:.0f} | {rate} | {_ms(seen['lateness_p99_ms'])} | {seen['steal']:.3f} "
        f"| {seen['foreign']:.2f} |"
    )


def page(document: dict[str, Any]) -> str:
    """The page as Markdown."""
    if not document["held_out"]:
        return f"{_INTRO}\n{_NOTHING}\n{_summary(document)}\n{_METHOD}\n## Every cell\n\n{_CELL}\n\n{_all(document)}"
    groups = "\n".join(f"### By {name}\n\n{_groups(found)}" for name, found in document["groups"].items())
    return (
        f"{_INTRO}\n{_summary(document)}\n![p99 measured against predicted](../pictures/{PICTURE.name})\n\n{_METHOD}\n"
        f"## Errors of p99 by group\n\n{groups}\n## Worst cells\n\n"
        "A cell is written as service/CPUs/quota/load/company/weight/scheduling/repeat.\n\n"
        f"{_worst(document)}\n## Every cell\n\n"
        f"{_CELL}\n\n{_all(document)}"
    )


def draw(document: dict[str, Any], path: Path) -> None:
    """p99 measured over predicted, one point a held-out cell, with what the simple predictors say beside."""
    mpl: Any = importlib.import_module("matplotlib")
    mpl.use("Agg")
    plt: Any = importlib.import_module("matplotlib.pyplot")
    cells = [
        cell
        for cell in document["cells"]
        if not cell["calibrated"]
        and not cell["measured"]["noisy"]
        and cell["load"] <= 1.0
        and cell["predicted"] is not None
        and cell["measured"]["p99_ms"]
    ]
    if not cells:
        path.unlink(missing_ok=True)
        return
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), sharex=True, sharey=True, layout="constrained")
    names = sorted({cell["service"] for cell in cells})
    sayings: dict[str, list[float]] = {
        "prediction": [cell["predicted"]["p99_ms"]["value"] for cell in cells],
        "nearest cell before": [cell["predicted"]["nearest_ms"][2] for cell in cells],
        "ideal latency / (1 - u)": [cell["predicted"]["mm1_ms"][2] for cell in cells],
    }
    values: list[float] = [cell["measured"]["p99_ms"] for cell in cells]
    low, high = min(values, default=1.0) / 2.0, max(values, default=1.0) * 2.0
    for axis, (title, said) in zip(axes, sayings.items(), strict=True):
        for name in names:
            own = [place for place, cell in enumerate(cells) if cell["service"] == name]
            seen = [values[place] for place in own]
            # Predictions beyond an end stand on it.
            axis.loglog([min(max(said[place], low), high) for place in own], seen, ".", label=name, alpha=0.8)
        line = (low, high)
        axis.plot(line, line, "k", linewidth=0.8)
        axis.fill_between(line, (low / 1.25, high / 1.25), (low / 0.75, high / 0.75), color="0.9", zorder=0)
        axis.set(title=title, xlabel="predicted p99, ms", xlim=(low, high), ylim=(low, high))
    axes[0].set_ylabel("measured p99, ms")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=8, fontsize=8)
    figure.suptitle("Real services, held-out cells (grey: within 25 %)")
    figure.savefig(path, dpi=110)
    plt.close(figure)
