"""`osml look twin fit|check|whatif`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from osml.base.whole_file import check_folder
from osml.records import gather
from osml.twin.check import checked
from osml.twin.commands.options import Json, Limits, Seed, limits_of, out, print_json, working
from osml.twin.commands.whatif import whatif
from osml.twin.document import Twin, load, save
from osml.twin.fit import MEMBERS
from osml.twin.make import made

app = typer.Typer(help="A virtual node made from an agent's record: fit it, check it, ask it.", no_args_is_help=True)
app.command("whatif")(whatif)

_SCORES = ("median_error", "p90_error", "within_25pct", "coverage_90")


@app.command("fit")
def fit(
    records: Annotated[list[Path], typer.Argument(metavar="RECORD...", help="Files of `osml-agent run --record`.")],
    out_file: Annotated[Path, typer.Option("--out", help="File for the twin.")] = Path("twin.json"),
    seed: Seed = 0,
    members: Annotated[
        int, typer.Option(help="Number of virtual nodes that the twin has.", min=16, max=1024)
    ] = MEMBERS,
    limit: Limits = None,
    json: Json = False,
) -> None:
    """Fit a twin to records of one machine, and say what the records cannot tell."""
    check_folder(out_file)
    record = gather(records)
    quotas = limits_of(record, limit)
    with working("fitting, some seconds"):
        twin = made(record, seed=seed, members=members, quotas=quotas)
    save(twin, out_file)
    if json:
        print_json(summary(twin, out_file))
    else:
        _show(twin, out_file)


def summary(twin: Twin, file: Path) -> dict[str, Any]:
    """What `fit` says: medians and 90 % bounds of all numbers, and what is not known."""
    return {
        "twin": str(file), "node": twin.node, "intervals": twin.intervals, "gaps": twin.gaps, "garbage": twin.garbage,
        "watched": twin.watched, "scenes": len(twin.scenes), "parameters": posteriors(twin), "unknown": twin.unknown,
    }  # fmt: skip


def posteriors(twin: Twin) -> list[dict[str, Any]]:
    """Every number with median and 90 % bounds. `learned` is by how much its spread fell, 0 to 1."""
    import numpy as np  # noqa: PLC0415 - only to show

    rows: list[dict[str, Any]] = []
    for one in twin.parameters:
        low, half, high = np.exp(np.quantile(one.logs, [0.05, 0.5, 0.95])).tolist()
        learned = max(0.0, 1.0 - float(np.std(one.logs)) / one.prior_spread) if one.prior_spread > 0 else 0.0
        rows.append({"of": one.of or "machine", "name": one.name, "median": half, "low": low, "high": high,
                     "learned": round(learned, 3)})  # fmt: skip
    return rows


def _show(twin: Twin, file: Path) -> None:
    console = out()
    console.print(
        f"{twin.node}: {twin.intervals:,} intervals, {twin.gaps} gaps, {twin.garbage} lines skipped; "
        f"fitted to {len(twin.scenes)} scenes"
    )
    table = Table("of", "number", "median", "90 % bounds", "learned")
    for row in posteriors(twin):
        if not row["name"].startswith("bias:"):
            table.add_row(
                row["of"], row["name"], f"{row['median']:.3g}", f"{row['low']:.3g} to {row['high']:.3g}",
                f"{row['learned']:.0%}",
            )  # fmt: skip
    console.print(table)
    console.print("what these records can't tell:")
    for text in twin.unknown:
        console.print(f"- {text}", markup=False)
    console.print(f"wrote {file}; next: osml look twin check {file} LATER_RECORD", markup=False)


@app.command("check")
def check(
    twin: Annotated[Path, typer.Argument(metavar="TWIN", help="File of `osml look twin fit`.")],
    records: Annotated[list[Path], typer.Argument(metavar="RECORD...", help="Records that it was not fitted to.")],
    json: Json = False,
) -> None:
    """Predict a record that the twin was not fitted to, and score that beside simple predictors."""
    known, record = load(twin), gather(records)
    with working("predicting, some seconds"):
        found = checked(known, record)
    if json:
        print_json(found)
        return
    console = out()
    console.print(
        f"{found['node']}: latency at the target's percentile, predicted for {found['intervals']:,} intervals"
    )
    for row in [{"name": "all services"} | found["overall"], *found["services"]]:
        table = Table(
            "predictor", "median error", "90 % below", "within 25 %", "held by 90 % bounds", title=row["name"],
            title_justify="left",
        )  # fmt: skip
        for name in found["predictors"]:
            table.add_row(name, *[_percent(row[name][key]) for key in _SCORES])
        console.print(table)
    for name, about in found["predictors"].items():
        console.print(f"{name}: {about}")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
