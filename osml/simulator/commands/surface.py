"""`osml lab simulator surface`: tail latency over cores and ways, with cliff and optimal area."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console

from osml import frontier
from osml.frontier import FloatArray, IntArray
from osml.simulator import columns as c
from osml.simulator.commands.heat_map import Cell, draw_surface, heat_lines
from osml.simulator.mix import Mix, checked_load, node_of, scaling_notes
from osml.simulator.queueing import DISTRIBUTION
from osml.simulator.state import Node
from osml.simulator.surface import surface as latency_surface

_TAILS = {"p50": c.F_P50_MS, "p95": c.F_P95_MS, "p99": c.F_P99_MS}


def _cell(cell: IntArray) -> dict[str, int] | None:
    return {"cores": int(cell[0]), "ways": int(cell[1])} if cell[0] > 0 else None


def _numbers(values: FloatArray) -> list[list[float | None]]:
    """Rows of numbers; what never answers is null."""
    return [[float(value) if np.isfinite(value) else None for value in row] for row in values]


def _document(
    node: Node, load: float, flows: FloatArray, labels: frontier.Labels, latency: FloatArray
) -> dict[str, Any]:
    """The JSON document. `servers[i]` belongs to `cores[i]`."""
    platform, service = node.platform, node.services[0]
    cores = list(range(1, platform.cpus + 1))
    rcliff, oaa = frontier.reference(latency, service.target_ms)
    return {
        "platform": platform.id, "service": service.name, "load": load, "simulated": True,
        "cores": cores, "ways": list(range(1, platform.ways + 1)),
        "p99_ms": _numbers(flows[:, :, c.F_P99_MS]), "p95_ms": _numbers(flows[:, :, c.F_P95_MS]),
        "mean_ms": _numbers(flows[:, :, c.F_MEAN_MS]), "service_time_ms": _numbers(flows[:, :, c.F_SERVICE_MS]),
        "arrival_rate_per_s": load * service.max_load, "arrival_cv2": service.burstiness, "cv2": service.cv2,
        "distribution": DISTRIBUTION, "servers": [min(service.threads, count) for count in cores],
        "target_ms": service.target_ms, "percentile": service.percentile,
        "rcliff": _cell(labels.rcliff), "oaa": _cell(labels.oaa), "cliff": frontier.KINDS[int(labels.kind)],
        "b_points": [
            {"slowdown": slowdown} | {
                way: {"cores": int(taken[0]), "ways": int(taken[1])}
                for way, taken in zip(frontier.DIRECTIONS, labels.b_points[k], strict=True)
            }
            for k, slowdown in enumerate(frontier.SLOWDOWNS)
        ],
        "reference": {"rcliff": _cell(rcliff), "oaa": _cell(oaa)},
        "notes": scaling_notes(node),
    }  # fmt: skip


def _pair(cell: IntArray) -> Cell | None:
    return (int(cell[0]), int(cell[1])) if cell[0] > 0 else None


def _said(cell: Cell | None) -> str:
    return "none" if cell is None else f"{cell[0]} cores, {cell[1]} ways"


def _show(node: Node, load: float, latency: FloatArray, labels: frontier.Labels) -> None:
    service, console = node.services[0], Console()
    rcliff, oaa = _pair(labels.rcliff), _pair(labels.oaa)
    console.print(
        f"{service.name} at {load:.0%} of max load ({load * service.max_load:,.0f}/s) alone on {node.platform.id}, "
        f"simulated: {service.percentile} against a target of {service.target_ms:g} ms",
        highlight=False,
    )
    for line in heat_lines(latency, service.target_ms, rcliff, oaa):
        console.print(line, soft_wrap=True)
    at = "" if rcliff is None else f", {latency[rcliff[0] - 1, rcliff[1] - 1]:.3g} ms"
    kind = frontier.KINDS[int(labels.kind)]
    falls = {"none": "no single step doubles the latency", "both": "cores and ways"}.get(kind, f"{kind} only")
    console.print(f"RCliff: {_said(rcliff)}{at} (cliff: {falls})", highlight=False)
    at = "" if oaa is None else f", {latency[oaa[0] - 1, oaa[1] - 1]:.3g} ms"
    console.print(f"OAA:    {_said(oaa)}{at}", highlight=False)
    if rcliff is None:
        console.print("no allocation meets the target at this load", highlight=False)
    steepest = frontier.steepest_losses(latency)
    console.print(
        f"steepest fall by one core: {steepest[0]:,.3g} times, by one way: {steepest[1]:,.3g} times", highlight=False
    )


def surface(
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")],
    service: Annotated[str, typer.Option(help="LC service of the catalog.")],
    load: Annotated[str, typer.Option(help="Fraction of max load, such as 0.4.")],
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the heat map into this PNG.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Show the tail latency of a service alone over all cores and ways, with RCliff and OAA (OSML, figure 1)."""
    fraction = checked_load(load, "--load")
    node = node_of(Mix({service: fraction}), platform)
    model = node.services[0]
    for note in scaling_notes(node):
        typer.echo(f"note: {note}", err=True)
    flows = latency_surface(node.platform, model, fraction)
    tails = flows[:, :, _TAILS[model.percentile]]
    latency = np.where(np.isnan(tails), np.inf, tails)
    labels = frontier.label(latency, model.target_ms)
    if json:
        sys.stdout.write(msgspec.json.encode(_document(node, fraction, flows, labels, latency)).decode() + "\n")
    else:
        _show(node, fraction, latency, labels)
    if plot is not None:
        draw_surface(
            latency,
            model.target_ms,
            _pair(labels.rcliff),
            _pair(labels.oaa),
            f"{service} at {fraction:.0%} load alone on {platform} (simulated), target {model.target_ms:g} ms",
            f"{model.percentile} in ms",
            plot,
        )
        typer.echo(f"wrote {plot}", err=True)
