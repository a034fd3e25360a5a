"""What following a Model-C comes to, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_HEAD = ("policy", "hold-out", "met after", "possible", "falls/10k", "at OAA", "steps", "ends met", "cores", "ways")


def print_policies(document: dict[str, Any]) -> None:
    """One line for each policy and hold-out."""
    made = "simulated" if document.get("simulated") else "measured"
    title = f"{document['model']} {document['version']}: greedy actions on held-out runs ({made})"
    table = Table(title=title, title_justify="left")
    for name in _HEAD:
        table.add_column(name, justify="left" if name in _HEAD[:2] else "right", no_wrap=True)
    for row in document["rows"]:
        table.add_row(
            row["policy"],
            row["split"],
            f"{row['met']:.2%}",
            f"{row['could']:.2%}",
            f"{row['crossings']:.1f}",
            f"{row['arrived']:.1%}",
            "" if row["steps"] is None else f"{row['steps']:.1f}",
            f"{row['ended_met']:.1%}",
            f"{row['cores']:+.1f}",
            f"{row['ways']:+.1f}",
        )
    console = Console()
    console.print(table)
    walks = next((row["walks"] for row in document["rows"]), 0)
    told = ", ".join(f"{share:.1%} ({split})" for split, share in document["falls_refused"].items())
    console.print(f"share of possible falls with a value below that of no change: {told}", highlight=False)
    console.print(
        f"falls/10k: of 10,000 actions that take resources, those after which the target is missed. {walks} walks "
        f"of {document['limit']} steps from random cells; cores and ways above the OAA at their end. 'straight to OAA' "
        "uses the true surface",
        soft_wrap=True,
    )
