"""Our table 5 for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def _cell(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def print_errors(document: dict[str, Any]) -> None:
    """Errors beside the paper's, coverage of the margins, hidden counters, baselines."""
    console = Console()
    made = "simulated" if document.get("simulated") else "measured"
    title = f"{document['model']} {document['version']}: mean absolute errors on held-out runs ({made})"
    table = Table(title=title, title_justify="left")
    for name in ("predictor", "output", "hold-out", "cores", "ways", "paper: cores", "paper: ways", "misses target"):
        table.add_column(name, justify="left" if name in ("predictor", "output", "hold-out") else "right")

    def add(who: str, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            table.add_row(
                who,
                row["output"],
                row["split"],
                _cell(row["core_mae"]),
                _cell(row["way_mae"]),
                _cell(row.get("published_core")),
                _cell(row.get("published_way")),
                _share(row.get("off_cliff_share")),
            )

    add("model", document["rows"])
    add("PMU, LLC hidden", document.get("hidden_counters", []))
    for name, found in document.get("baselines", {}).items():
        add(name.replace("_", " "), found["rows"])
    if "reachable" in document:
        add("nearest neighbours, extrapolated", document["reachable"]["nearest"]["rows"])
        add("network of equal size", document["reachable"]["same_size"]["rows"])
        add("network, 8 x the weights", document["reachable"]["larger"]["rows"])
    if table.row_count:
        console.print(table)
    nearest = document.get("baselines", {}).get("nearest_neighbours", {})
    if "bytes" in nearest:
        told = f"{nearest['table_rows']:,} rows, {nearest['bytes'] / 1e6:.1f} MB"
        console.print(f"table of the nearest neighbours: {told}", highlight=False)
    if "importance" in document:
        _print_importance(console, document["importance"])
    if document.get("spearman"):
        _print_spearman(console, document["spearman"])
    if "floor" in document:
        told = ", ".join(f"{name} {error:.2f}" for name, error in document["floor"]["mae"].items())
        console.print(f"noise floor, labels of {document['floor']['runs']} runs: {told}", highlight=False)
    if "left_out" in document:
        _print_left_out(console, document["left_out"])
    for key, what in (("coverage", "seen"), ("coverage_unseen", "unseen")):
        if document.get(key):
            told = ", ".join(f"{float(c):.0%} margin covers {share:.1%}" for c, share in document[key].items())
            console.print(f"{what} services: {told}", highlight=False)
    if "strangers" in document:
        found = document["strangers"]
        told = ", ".join(f"{float(c):.0%} margin covers {share:.1%}" for c, share in found["coverage"].items())
        errors = ", ".join(f"{name} {error:.2f}" for name, error in found["mae"].items())
        console.print(f"{found['services']} variants of unseen services: {told}; errors {errors}", highlight=False)


def _print_importance(console: Console, found: dict[str, dict[str, float]]) -> None:
    table = Table(title="growth of the mean absolute error when one input is shuffled", title_justify="left")
    table.add_column("input")
    outputs = list(next(iter(found.values())))
    for output in outputs:
        table.add_column(output, justify="right")
    for name, grown in sorted(found.items(), key=lambda item: -sum(item[1].values())):
        table.add_row(name, *(_cell(grown[output]) for output in outputs))
    console.print(table)


def _print_spearman(console: Console, found: list[dict[str, Any]]) -> None:
    names = [key for key in found[0] if key not in ("counter", "published")]
    table = Table(title="rank correlation (Spearman) of the OAA with counters", title_justify="left")
    table.add_column("counter")
    for name in (*names, "paper"):
        table.add_column(name, justify="right")
    for line in found:
        table.add_row(line["counter"], *(_cell(line[name]) for name in names), _cell(line["published"]))
    console.print(table)


def _print_left_out(console: Console, found: dict[str, Any]) -> None:
    table = Table(title="coverage of margins that were made without the service and its group", title_justify="left")
    table.add_column("service")
    for coverage in found["mean"]:
        table.add_column(f"{float(coverage):.0%} margin", justify="right")
    for name, shares in found["services"].items():
        table.add_row(name, *(_share(share) for share in shares.values()))
    for what in ("mean", "deviation"):
        table.add_row(what, *(_share(share) for share in found[what].values()))
    console.print(table)
