"""`osml lab simulator sensitivity`: what hangs on each assumed number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osml.base.failure import InputError
from osml.simulator.calibration.sensitivity.assumed import AS_IS, Constant, constants
from osml.simulator.calibration.sensitivity.sweep import FACTORS, sweep
from osml.simulator.calibration.sensitivity.variant import Row

_LESS, _MORE = FACTORS
_IN_WORDS = ("constant", "policies that changed places")
Rows = dict[tuple[str, float], Row]


def _changes(rows: Rows, constant: Constant) -> list[str] | None:
    """Which policies have changed places, in words; None where no policy ran."""
    usual = rows[AS_IS.id, 1.0]
    if usual.missed is None:
        return None
    return [
        f"times {factor:g}, {change}" for factor in FACTORS for change in rows[constant.id, factor].changes_from(usual)
    ]


def _order(row: Row) -> str:
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in row.order.items())


def _documents(rows: Rows, chosen: list[Constant]) -> list[dict[str, object]]:
    return [
        {
            "constant": constant.id,
            "value": constant.value,
            "facts": {f"{factor:g}": rows[constant.id, factor].facts for factor in FACTORS},
            "missed": {f"{factor:g}": rows[constant.id, factor].missed for factor in FACTORS},
            "order": {f"{factor:g}": rows[constant.id, factor].order for factor in FACTORS},
            "changes": _changes(rows, constant),
        }
        for constant in chosen
    ]


def _table(rows: Rows, chosen: list[Constant]) -> Table:
    usual = rows[AS_IS.id, 1.0]
    table = Table(
        title="Assumed numbers, one at a time 30 % less and more (simulated)",
        caption=f"of {usual.total} facts; policies as is: {_order(usual) or 'not looked at'}",
        box=None,
        pad_edge=False,
    )
    for heading in ("constant", "value", "facts -30 %", "as is", "+30 %", "policies that changed places"):
        table.add_column(heading, justify="left" if heading in _IN_WORDS else "right", no_wrap=heading == "constant")
    for constant in chosen:
        changes = _changes(rows, constant)
        table.add_row(
            escape(constant.id),
            "by entry" if constant.value is None else f"{constant.value:g}",
            str(rows[constant.id, _LESS].facts),
            str(usual.facts),
            str(rows[constant.id, _MORE].facts),
            "" if changes is None else "\n".join(changes) or "none",
        )
    return table


def _chosen(only: list[str] | None) -> list[Constant]:
    known = constants()
    found = [constant for constant in known if not only or any(part in constant.id for part in only)]
    if not found:
        raise InputError(f"--only {', '.join(only or [])} matches none of {', '.join(c.id for c in known)}")
    return found


def sensitivity(
    only: Annotated[list[str] | None, typer.Option(help="Only constants whose name has this; repeatable.")] = None,
    fact: Annotated[list[str] | None, typer.Option(help="Only facts whose id has this; repeatable.")] = None,
    facts_only: Annotated[bool, typer.Option("--facts-only", help="Do not run policies.")] = False,
    rows: Annotated[
        Path, typer.Option(help="File of finished rows. A run goes on where the last one of the same sources ended.")
    ] = Path("out/sensitivity/rows.jsonl"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Change each assumed number of the node by 30 % and count the published facts that it still meets.

    Besides, five policies run on twelve mixes of osml-302 and twelve of osml-jobs: which change places? Each variant
    is a process; those of constants in compiled functions take a minute, the others a quarter of that.
    """
    chosen = _chosen(only)
    try:
        found = sweep(
            chosen, rows, facts_only=facts_only, facts=tuple(fact or ()), say=lambda line: typer.echo(line, err=True)
        )
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {rows} has what is finished, the same command goes on from there", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        raise InputError(f"--rows {rows}: cannot be used ({error.strerror})") from None
    if as_json:
        usual = found[AS_IS.id, 1.0]
        document = {
            "simulated": True, "total": usual.total, "facts": usual.facts, "missed": usual.missed,
            "order": usual.order, "constants": _documents(found, chosen),
        }  # fmt: skip
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    Console().print(_table(found, chosen))
