"""The tables that the demo and the live trial print at their end."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def _figure(value: float | None, form: str = ".2f", unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"


def phase_table(title: str, phase: dict[str, Any]) -> Table:
    """One row per service: latency against target, met or not, what it could reach, BE speed."""
    table = Table(title=title, title_justify="left")
    for heading, side in (
        ("service", "left"),
        ("class", "left"),
        ("p99 ms", "right"),
        ("target ms", "right"),
        ("met", "left"),
        ("cores", "right"),
        ("ways", "right"),
        ("BE speed / solo", "right"),
    ):
        table.add_column(heading, justify="left" if side == "left" else "right")
    for service in phase["services"]:
        ratio = service["work_ratio"] if service["work_ratio"] is not None else service["ipc_ratio"]
        met = {None: "-", True: "[green]met[/]", False: "[bold red]VIOLATED[/]"}[service["met"]]
        table.add_row(
            service["name"],
            service["class"],
            _figure(service["p99_ms"]),
            _figure(service["target_ms"], "g"),
            met,
            _figure(service["cores"], "g"),
            _figure(service["ways"], "g"),
            _figure(ratio) if service["class"] == "be" else "",
        )
    return table


def print_report(document: dict[str, Any], console: Console) -> None:
    """Both phases, E_S of both, actions, convergence, the agent's cost."""
    ground = "simulated node" if document["simulated"] else "measured on this machine"
    for name, phase in document["phases"].items():
        label = document["policy"] if name == "managed" else name
        parts = f"E_LC {_figure(phase['e_lc'], '.3f')}, E_BE {_figure(phase['e_be'], '.3f')}"
        entropy = f"E_S {_figure(phase['e_s'], '.3f')} ({parts})"
        console.print(phase_table(f"{label}: {entropy}, {ground}", phase))
    console.print(
        f"actions {document['actions']}, converged in {_figure(document['convergence_s'], '.0f', ' s')}"
        + (
            f", after the load step in {_figure(document['convergence_after_step_s'], '.0f', ' s')}"
            if "convergence_after_step_s" in document
            else ""
        )
    )
    if document["agent"]:
        cost = document["agent"]
        console.print(f"agent: {cost['cpu_pct']:.2f} % of one core at 1 Hz, {cost['rss_mib']:.1f} MiB")
