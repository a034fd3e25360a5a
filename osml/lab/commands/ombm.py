"""`osml lab ombm`: profile a service under the worst memory contention, and predict the bandwidth that it needs."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from osml.bandwidth import Prediction, Predictor, Profile, load_profile, save_profile
from osml.bandwidth.adaptive import PROFILINGS
from osml.bandwidth.offline import EXIT_SHARE, SAMPLES_GBPS
from osml.base.extras import how_to_install
from osml.base.failure import InputError, MachineError
from osml.lab.commands.ombm_experiments import accuracy_command, assurance_command, figures_command, split_command
from osml.lab.kept_runs import KeptRuns
from osml.lab.ombm.live_profiling import CommandProfiler, LiveSetting, profile_live
from osml.lab.ombm.profiling import VirtualProfiler, deployed, profile_virtual

app = typer.Typer(
    help="OMBM: profiles of a service under memory contention, and how much bandwidth it needs.", no_args_is_help=True
)
app.command("accuracy")(accuracy_command)
app.command("assurance")(assurance_command)
app.command("split")(split_command)
app.command("figures")(figures_command)

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _numbers(option: str, text: str, count: int | None = None) -> list[float]:
    """Numbers separated by commas, above 0."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(math.isfinite(n) and n > 0 for n in found) or (count is not None and len(found) != count):
        wanted = "numbers above 0" if count is None else f"{count} numbers above 0"
        raise InputError(f"{option} is '{text}', expected {wanted} separated by commas")
    return found


@app.command("profile")
def profile_command(
    service: Annotated[str, typer.Argument(help="LC service of the catalog; with --measure any name.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the profile.")],
    platform: Annotated[
        str, typer.Option(help="Platform of the catalog; with --measure the platform id of the agent.")
    ] = "i7-4770k",
    classic: Annotated[bool, typer.Option("--classic", help="Use the paper's samples and straight lines.")] = False,
    profilings: Annotated[int, typer.Option(help="Number of measurements (without --classic).")] = PROFILINGS,
    bandwidths: Annotated[
        str, typer.Option(help="GB/s to sample; without --classic only the lowest (--measure).")
    ] = ",".join(map(str, SAMPLES_GBPS)),
    exit_threshold: Annotated[
        float, typer.Option(help="Narrowest interval, as a share of the range (--classic).")
    ] = EXIT_SHARE,
    rates: Annotated[str | None, typer.Option(metavar="LOW,HIGH", help="Requests/s; default: as in the paper.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the virtual node's noise.")] = 0,
    measure: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Live: command with {gbps} and {qps}; it prints the tail.")
    ] = None,
    run_s: Annotated[float, typer.Option(help="Seconds of one live measurement.")] = 60.0,
    peak_gbps: Annotated[float | None, typer.Option(help="Bandwidth of the live machine.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Core units of the service.")] = 1,
    core_quantum: Annotated[
        float, typer.Option(min=1e-3, max=1e3, help="Live: logical CPUs of a core unit, as the agent tells.")
    ] = 1.0,
    ways: Annotated[
        int | None, typer.Option(min=0, help="Cache ways of the service; default: half of all, live 0 (not divided).")
    ] = None,
    percentile: Annotated[Literal["p50", "p95", "p99"], typer.Option(help="Percentile of the live tail.")] = "p99",
    as_json: JsonOption = False,
) -> None:
    """Profile a service beside STREAM, on the virtual node or live with your own command (--measure).

    A live profile that was stopped, or whose command failed once, goes on with the same command: FILE.part has what was
    measured.
    """
    method: Literal["classic", "adaptive"] = "classic" if classic else "adaptive"
    samples = _numbers("--bandwidths", bandwidths)
    low_high = None if rates is None else cast(tuple[float, float], tuple(_numbers("--rates", rates, 2)))
    part: Path | None = None
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("Profiling", total=None if classic else profilings)

        def each() -> None:
            progress.advance(task)

        if measure is None:
            profiler = VirtualProfiler(*deployed(service, platform), seed=seed, each=each, cpus=cores, ways=ways)
            profile = profile_virtual(
                profiler, method, samples_gbps=samples, exit_share=exit_threshold, profilings=profilings, rates=low_high
            )
        else:
            if low_high is None or peak_gbps is None or not (math.isfinite(peak_gbps) and peak_gbps > 0):
                raise InputError("--measure needs --rates LOW,HIGH and --peak-gbps above 0")
            setting = LiveSetting(service, platform, peak_gbps, low_high, cores, ways or 0, percentile, core_quantum)
            options = {
                "samples_gbps": samples, "exit_share": exit_threshold, "profilings": profilings, "method": method,
                "command": measure, "run_s": run_s, "setting": asdict(setting),
            }  # fmt: skip
            part = out.with_name(f"{out.name}.part")
            with KeptRuns(part, options) as kept:
                if kept.found:
                    typer.echo(f"note: {len(kept.found)} measurements are taken from {part}", err=True)
                profile = profile_live(
                    CommandProfiler(measure, run_s, each, kept),
                    setting,
                    method,
                    samples_gbps=samples,
                    exit_share=exit_threshold,
                    profilings=profilings,
                )
    save_profile(profile, out)
    if part is not None:
        part.unlink(missing_ok=True)
    notes = Predictor(profile).notes
    if as_json:
        document = {
            "file": str(out),
            "service": profile.service,
            "platform": profile.platform,
            "method": method,
            "profilings": profile.profilings,
            "bandwidths_gbps": [line.bandwidth_gbps for line in profile.lines],
            "rates_per_s": [profile.least_qps, profile.most_qps],
            "simulated": profile.simulated,
            "notes": notes,
        }
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        _show_profile(profile)
        typer.echo(f"{out}: {profile.profilings} measurements, {'simulated' if profile.simulated else 'live'}")
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _show_profile(profile: Profile) -> None:
    table = Table(title=f"{profile.service} on {profile.platform} ({profile.method})", title_justify="left")
    table.add_column("GB/s", justify="right")
    table.add_column(f"requests/s: {profile.percentile} in ms (in brackets: inherited)")
    for line in profile.lines:
        cells = [f"{p.qps:,.0f}: {p.latency_ms:.4g}" for p in line.points]
        shown = [cell if p.measured else f"({cell})" for cell, p in zip(cells, line.points, strict=True)]
        table.add_row(f"{line.bandwidth_gbps:.2f}", "   ".join(shown))
    Console().print(table)


@app.command("predict")
def predict_command(
    file: Annotated[Path, typer.Argument(metavar="PROFILE", help="Profile of `osml lab ombm profile`.")],
    qps: Annotated[float, typer.Option(help="Current rate, requests/s.")],
    slo_ms: Annotated[float, typer.Option(help="Tail latency that must be met, ms.")],
    platform: Annotated[
        str | None, typer.Option(help="Platform of use; refuses a profile of another platform.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the lowest bandwidth that meets an SLO at a request rate, and print its line."""
    if not (math.isfinite(slo_ms) and slo_ms > 0):
        raise InputError(f"--slo-ms is {slo_ms:g}, expected ms above 0")
    if not (math.isfinite(qps) and qps > 0):
        raise InputError(f"--qps is {qps:g}, expected requests/s above 0")
    profile = load_profile(file)
    if platform is not None and platform != profile.platform:
        raise InputError(
            f"{file} is a profile of '{profile.platform}', not of '{platform}': the need differs between "
            "platforms; profile the service on that platform"
        )
    predictor = Predictor(profile)
    found = predictor.predict(qps, slo_ms)
    notes = [*predictor.notes, *_clamped(found, qps, predictor)]
    if as_json:
        document = {
            "bandwidth_gbps": found.bandwidth_gbps, "predicted_ms": found.predicted_ms, "clamped": found.clamped,
            "qps": qps, "slo_ms": slo_ms, "service": profile.service, "platform": profile.platform,
            "method": profile.method, "simulated": profile.simulated, "notes": notes,
            "line": {
                "qps": found.qps, "bandwidth_gbps": [b for b, _ in found.line],
                "latency_ms": [tail for _, tail in found.line],
            },
        }  # fmt: skip
        sys.stdout.write(json.dumps(document) + "\n")
        return
    line = "  ".join(f"{gbps:.3g}: {tail:.4g}" for gbps, tail in _thinned(found.line))
    typer.echo(f"line of {found.qps:,.6g} requests/s, GB/s: {profile.percentile} in ms   {line}")
    if found.bandwidth_gbps is None:
        typer.echo(f"no bandwidth meets {slo_ms:g} ms: {found.predicted_ms:.4g} ms with all {profile.peak_gbps:g} GB/s")
    elif found.clamped and qps > found.qps:
        typer.echo(
            f"all {found.bandwidth_gbps:.3f} GB/s for {profile.service} at {qps:,.6g} requests/s: {profile.percentile} "
            f"{found.predicted_ms:.4g} ms at {found.qps:,.6g} requests/s, unknown at higher rates"
        )
    else:
        typer.echo(
            f"{found.bandwidth_gbps:.3f} GB/s for {profile.service} at {qps:,.6g} requests/s: "
            f"{profile.percentile} {found.predicted_ms:.4g} ms <= {slo_ms:g} ms"
        )
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _clamped(found: Prediction, qps: float, predictor: Predictor) -> list[str]:
    if not found.clamped:
        return []
    where = f"{qps:g} requests/s is outside the profile ({predictor.least_qps:g} to {predictor.most_qps:g})"
    if qps < found.qps:
        return [f"{where}: the line of the lowest rate applies, which is on the safe side"]
    return [f"{where}: the need above the highest rate is unknown; the prediction is all bandwidth and can be too low"]


def _thinned(line: tuple[tuple[float, float], ...], most: int = 9) -> list[tuple[float, float]]:
    """At most so many points of a line, both ends among them."""
    step = max(1, math.ceil((len(line) - 1) / (most - 1)))
    return [*line[:-1:step], line[-1]]


@app.command("plot")
def plot_command(
    file: Annotated[Path, typer.Argument(metavar="PROFILE", help="Profile of `osml lab ombm profile`.")],
    out: Annotated[Path, typer.Option(metavar="PNG", help="PNG file to write.")] = Path("out/ombm/profile.png"),
    slo_ms: Annotated[float | None, typer.Option(help="SLO in ms to draw.")] = None,
) -> None:
    """Draw both prediction graphs of a profile (figures 5 and 6)."""
    if slo_ms is not None and not (math.isfinite(slo_ms) and slo_ms > 0):
        raise InputError(f"--slo-ms is {slo_ms:g}, expected ms above 0")
    profile = load_profile(file)
    try:
        from osml.lab.ombm.figures import draw_profile  # noqa: PLC0415 - matplotlib is an extra
    except ImportError as error:
        raise MachineError(f"plots need matplotlib ({error}): {how_to_install('lab')}") from None
    try:
        typer.echo(f"wrote {draw_profile(profile, out, slo_ms)}")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from None
