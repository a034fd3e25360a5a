"""The picture of a trial: latency against target, allocation and E_S over time, phase after phase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osml.lab.trials.records import Record

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")  # Okabe and Ito


class Phase:
    """Records of one phase, on a time axis that goes on from the last phase."""

    def __init__(self, label: str, records: Sequence[Record], start_s: float, step_at_s: float | None = None) -> None:
        first = records[0].observation
        self.label = label
        self.records = records
        self.start_s = start_s
        self.times = [record.observation.time_s - first.time_s + first.interval_s + start_s for record in records]
        self.step_at_s = None if step_at_s is None else step_at_s + start_s

    @property
    def end_s(self) -> float:
        """Where the next phase starts."""
        return self.times[-1]


def draw(phases: Sequence[Phase], path: Path, title: str) -> None:
    """Write the picture as PNG. Panels: latency over target (log), cores, ways (where there are any), E_S."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and only the end of a trial needs it

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    platform = phases[0].records[0].observation.platform
    names = [service.name for service in phases[0].records[0].observation.services]
    colours: dict[str, str] = dict(zip(names, COLOURS * (1 + len(names) // len(COLOURS)), strict=False))
    rows = ["latency", "cores", "ways", "entropy"] if platform.ways else ["latency", "cores", "entropy"]
    figure, axes = plt.subplots(len(rows), 1, figsize=(11, 2.6 * len(rows)), sharex=True, constrained_layout=True)
    panels = dict(zip(rows, axes, strict=True))
    for phase in phases:
        _draw_latency(panels["latency"], phase, colours)
        _draw_counts(panels["cores"], phase, colours, "cores")
        if "ways" in panels:
            _draw_counts(panels["ways"], phase, colours, "ways")
        _draw_entropy(panels["entropy"], phase)
        for axis in axes:
            axis.axvline(phase.start_s, color="0.6", linewidth=0.8)
            if phase.step_at_s is not None:
                axis.axvline(phase.step_at_s, color="0.6", linewidth=0.8, linestyle=":")
        panels["latency"].annotate(
            phase.label,
            (phase.start_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -12),
            textcoords="offset points",
        )
    panels["latency"].axhline(1, color="black", linewidth=1)
    panels["latency"].set(yscale="log", ylabel="latency / target")
    panels["latency"].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels["latency"].yaxis.set_major_formatter("{x:g}")
    panels["latency"].yaxis.set_minor_formatter(NullFormatter())
    panels["cores"].set(ylabel="cores within reach", ylim=(0, None))
    if "ways" in panels:
        panels["ways"].set(ylabel="LLC ways within reach", ylim=(0, None))
    panels["entropy"].set(ylabel="E_S", xlabel="node time, s (dotted: load step)", ylim=(0, 1))
    _legend(figure, panels["cores"], title)
    figure.savefig(path, dpi=110)  # pyright: ignore[reportUnknownMemberType] - matplotlib's own annotation
    plt.close(figure)


def _legend(figure: Any, axis: Any, title: str) -> None:
    handles, labels = axis.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.suptitle(title, fontsize=11)
    axis.legend(unique.values(), unique.keys(), loc="upper right", ncols=len(unique), fontsize=8)


def _draw_latency(axis: Any, phase: Phase, colours: dict[str, str]) -> None:
    for name, colour in colours.items():
        points = [
            (time, service.latency_ms / service.target_ms)
            for time, record in zip(phase.times, phase.records, strict=True)
            for service in record.observation.services
            if service.name == name and service.latency_ms and service.target_ms
        ]
        if points:
            axis.plot(*zip(*points, strict=True), color=colour, linewidth=1.3, label=name)


def _draw_counts(axis: Any, phase: Phase, colours: dict[str, str], resource: str) -> None:
    quantum = phase.records[0].observation.platform.core_quantum if resource == "cores" else 1
    for name, colour in colours.items():
        counts = [
            (r.decision.partition.cores_of(name) if resource == "cores" else r.decision.partition.ways_of(name))
            * quantum
            for r in phase.records
        ]
        axis.step(phase.times, counts, where="post", color=colour, linewidth=1.3, label=name)


def _draw_entropy(axis: Any, phase: Phase) -> None:
    values = [r.decision.entropy.e_s if r.decision.entropy else None for r in phase.records]
    points = [(time, value) for time, value in zip(phase.times, values, strict=True) if value is not None]
    if points:
        axis.plot(*zip(*points, strict=True), color="black", linewidth=1.3)
