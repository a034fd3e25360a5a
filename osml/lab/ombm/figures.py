"""Figures 5 to 12 of OMBM as PNG: ours, with the published numbers in the titles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from osml.bandwidth import Predictor, Profile
from osml.lab.ombm import accuracy, assurance
from osml.lab.ombm.accuracy import Truth, accuracy_by_rate, judge, predicted_tails, profile_of, truth_of
from osml.lab.ombm.profiling import VirtualProfiler, deployed, rates_of

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito
_GRID = 120
_EACH_RATE = (0.4, 0.6, 0.8, 1.0)
_SHOWN_RATES = (0.4, 0.6, 0.8, 0.9, 1.0)
_DIURNAL_S = 310


def _panels(rows: int, columns: int, title: str) -> tuple[Any, Any]:
    made: tuple[Any, Any] = plt.subplots(  # pyright: ignore[reportUnknownMemberType] - matplotlib's own annotation
        rows, columns, figsize=(5 * columns, 3.9 * rows), constrained_layout=True, squeeze=False
    )
    figure, axes = made
    for axis in axes.flat:
        axis.grid(visible=True, color="0.9")
    figure.suptitle(title, fontsize=10)
    return figure, axes


def _saved(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _simulated(profile: Profile) -> str:
    return "simulated" if profile.simulated else "measured"


def draw_profile(profile: Profile, path: Path, slo_ms: float | None = None) -> Path:
    """Figures 5 and 6 from one profile: tail over the rate by bandwidth, tail over the bandwidth by rate."""
    predictor = Predictor(profile)
    title = f"{profile.service} on {profile.platform}, {profile.method}, {profile.profilings} profilings"
    figure, axes = _panels(1, 2, f"{title} ({_simulated(profile)})")
    first, second = axes[0]
    rates = np.linspace(profile.least_qps, profile.most_qps, _GRID)
    shades = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(profile.lines)))
    for line, shade in zip(profile.lines, shades, strict=True):
        first.plot(
            rates,
            [predictor.tail_ms(q, line.bandwidth_gbps) for q in rates],
            color=shade,
            label=f"{line.bandwidth_gbps:.3g} GB/s",
        )
        measured = [point for point in line.points if point.measured]
        first.plot([p.qps for p in measured], [p.latency_ms for p in measured], "o", color=shade, markersize=4)
    first.set(xlabel="requests/s", ylabel=f"{profile.percentile} in ms", yscale="log", title="figure 5: first graph")
    gbps = np.linspace(profile.lines[0].bandwidth_gbps, profile.lines[-1].bandwidth_gbps, _GRID)
    for share, colour in zip(_SHOWN_RATES, COLOURS, strict=False):
        qps = profile.least_qps + (profile.most_qps - profile.least_qps) * share
        second.plot(gbps, [predictor.tail_ms(qps, b) for b in gbps], color=colour, label=f"{qps:,.0f}/s")
    second.set(
        xlabel="reserved GB/s", ylabel=f"{profile.percentile} in ms", yscale="log", title="figure 6: second graph"
    )
    for axis in (first, second):
        if slo_ms is not None:
            axis.axhline(slo_ms, color="red", linewidth=1, label=f"SLO {slo_ms:g} ms")
    first.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    second.legend(fontsize=7)
    return _saved(figure, path)


def _beside(axis: Any, truth: Truth, profiles: Sequence[tuple[str, Profile]]) -> None:
    """Real and predicted tails over the bandwidth at the rate of the figures, up to twice the SLO."""
    slo_ms, row = truth.service.target_ms, truth.shown
    axis.plot(truth.gbps, truth.tail_ms[row], color="black", linewidth=2, label="real, beside STREAM")
    for (label, profile), colour in zip(profiles, COLOURS, strict=False):
        predictor = Predictor(profile)
        points = [predictor.tail_ms(float(truth.qps[row]), float(b)) for b in truth.gbps]
        axis.plot(truth.gbps, points, color=colour, label=label)
    axis.axhline(slo_ms, color="red", linewidth=1)
    axis.set(
        ylim=(0, 2 * slo_ms),
        xlabel=f"reserved GB/s at {truth.shown_qps:,.0f}/s",
        ylabel=f"{truth.service.percentile} in ms",
    )
    axis.legend(fontsize=7)


def figure_7(path: Path, seed: int = 0) -> Path:
    """Accuracy of both methods: the tails at the rate of the figure, and the accuracy over all rates."""
    figure, axes = _panels(2, 3, "figure 7: predicted and real tails; below: accuracy over the rate (simulated)")
    for axis, below, name in zip(axes[0], axes[1], accuracy.SERVICES, strict=True):
        truth = truth_of(name)
        profiles = [(method, profile_of(name, method, seed)) for method in ("classic", "adaptive")]
        _beside(axis, truth, profiles)
        ours = ", ".join(f"{m} {judge(p, truth, m).accuracy_pct:.1f} %" for m, p in profiles)
        axis.set_title(f"{name}: {ours}\npaper {accuracy.PUBLISHED_PCT[name]:g} %", fontsize=9)
        for (method, profile), colour in zip(profiles, COLOURS, strict=False):
            below.plot(truth.qps, accuracy_by_rate(predicted_tails(profile, truth), truth), color=colour, label=method)
        below.axvline(truth.shown_qps, color="black", linewidth=1, linestyle=":")
        below.axhline(accuracy.PUBLISHED_PCT[name], color="grey", linewidth=1, linestyle="--", label="paper, one rate")
        below.locator_params(axis="x", nbins=5)
        below.set(ylim=(40, 101), xlabel="requests/s (dotted: shown above)", ylabel="accuracy in %")
        below.legend(fontsize=7)
    return _saved(figure, path)


def figure_8(path: Path, seed: int = 0) -> Path:
    """Two samples of bandwidths."""
    figure, axes = _panels(1, 2, "figure 8: accuracy by sampled bandwidths (simulated)")
    said = {"masstree": "paper: the second sample is better", "img-dnn": "paper: the first sample is better"}
    for axis, (name, claim) in zip(axes[0], said.items(), strict=True):
        profiles = [
            (f"sample {number}: {', '.join(map(str, samples))}", profile_of(name, "classic", seed, samples))
            for number, samples in ((1, accuracy.SAMPLES_GBPS), (2, accuracy.SECOND_SAMPLES_GBPS))
        ]
        _beside(axis, truth_of(name), profiles)
        ours = " and ".join(f"{judge(p, truth_of(name), '').accuracy_pct:.1f} %" for _, p in profiles)
        axis.set_title(f"{name}: {ours}\n{claim}", fontsize=9)
    return _saved(figure, path)


def figures_9_and_10(path: Path, seed: int = 0) -> Path:
    """How many bandwidths and how many rates."""
    figure, axes = _panels(2, 3, "figures 9 and 10: accuracy by number of bandwidths and by exit threshold (simulated)")
    for column, name in enumerate(accuracy.SERVICES):
        counts = [(f"{n} bandwidths", profile_of(name, "classic", seed, s)) for n, s in accuracy.COUNTS_GBPS.items()]
        shares = [(f"threshold {s:.1%}", profile_of(name, "classic", seed, exit_share=s)) for s in accuracy.EXIT_SHARES]
        for axis, profiles in ((axes[0][column], counts), (axes[1][column], shares)):
            _beside(axis, truth_of(name), profiles)
            ours = [f"{judge(p, truth_of(name), '').accuracy_pct:.0f}" for _, p in profiles]
            axis.set_title(f"{name}: {', '.join(ours)} %", fontsize=9)
    return _saved(figure, path)


def figure_11(path: Path, seed: int = 0) -> Path:
    """Real tails beside batch jobs against the classic prediction lines, by rate."""
    figure, axes = _panels(3, len(_EACH_RATE), "figure 11: tails beside A, B, C under the prediction line (simulated)")
    for row, name in enumerate(accuracy.SERVICES):
        platform, model = deployed(name, accuracy.PLATFORM)
        predictor = Predictor(profile_of(name, "classic", seed))
        gbps = np.linspace(0.8, platform.bandwidth_gbps, 13)
        for axis, share in zip(axes[row], _EACH_RATE, strict=True):
            qps = share * rates_of(model)[1]
            axis.plot(gbps, [predictor.tail_ms(qps, float(b)) for b in gbps], color="black", label="prediction")
            for (combination, jobs), colour in zip(assurance.COMBINATIONS.items(), COLOURS, strict=False):
                real = VirtualProfiler(platform, model, jobs=jobs)
                axis.plot(gbps, [real.true_ms(float(b), qps) for b in gbps], ".-", color=colour, label=combination)
            axis.set(yscale="log", xlabel="reserved GB/s", ylabel="p99 in ms")
            axis.set_title(f"{name} at {qps:,.0f}/s", fontsize=9)
    axes[0][0].legend(fontsize=7)
    return _saved(figure, path)


def figure_12(path: Path, seed: int = 0) -> Path:
    """Tails and bandwidth while the rate follows a sine, beside C."""
    figure, axes = _panels(2, 3, "figure 12: changing rates beside C (simulated)")
    for column, name in enumerate(accuracy.SERVICES):
        model = deployed(name, accuracy.PLATFORM)[1]
        trace = assurance.traces(model, "diurnal", seed)[0]
        for classic, colour in ((True, COLOURS[0]), (False, COLOURS[1])):
            run = assurance.run_policy(name, "C", trace, classic=classic, seconds=_DIURNAL_S, seed=seed)
            times = [interval.time_s for interval in run]
            label = "classic" if classic else "adaptive, corrected"
            tails = [interval.tail_ms(0, model.percentile) for interval in run]
            axes[0][column].plot(times, tails, ".", markersize=3, color=colour, label=label)
            given = [i.decision.partition.mba[name] / 1e3 if i.decision else 0.0 for i in run]
            axes[1][column].plot(times, given, color=colour, linewidth=1, label=label)
        axes[0][column].axhline(model.target_ms, color="red", linewidth=1, label="SLO")
        axes[0][column].set(yscale="log", ylabel="p99 in ms", xlabel="s")
        axes[0][column].set_title(name, fontsize=9)
        axes[1][column].set(ylabel="reserved GB/s", xlabel="s")
    axes[0][0].legend(fontsize=7)
    axes[1][0].legend(fontsize=7)
    return _saved(figure, path)


def draw_all(folder: Path, seed: int = 0) -> list[Path]:
    """Figures 5 to 12; returns their paths."""
    slo_ms = {name: deployed(name, accuracy.PLATFORM)[1].target_ms for name in accuracy.SERVICES}
    found = [
        draw_profile(profile_of("silo", method, seed), folder / f"ombm-figures-5-6-{method}.png", slo_ms["silo"])
        for method in ("classic", "adaptive")
    ]
    return [
        *found,
        figure_7(folder / "ombm-figure-7.png", seed),
        figure_8(folder / "ombm-figure-8.png", seed),
        figures_9_and_10(folder / "ombm-figures-9-10.png", seed),
        figure_11(folder / "ombm-figure-11.png", seed),
        figure_12(folder / "ombm-figure-12.png", seed),
    ]
