"""`osml look replay`: what another policy would have decided over a record, and what would have come of it.

Without a twin this needs nothing of the simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from osml.base.brief_number import brief
from osml.base.extras import how_to_install
from osml.base.failure import MachineError
from osml.decide.replay import CANNOT_SHOW, Replayed, replayed, shares_of
from osml.records import Record, gather
from osml.twin.commands.options import Json, Seed, out, print_json, refused, working

if TYPE_CHECKING:
    from osml.twin.closed_replay import Consequences

_ROWS = 12


def replay(
    records: Annotated[list[Path], typer.Argument(metavar="RECORD...", help="Files of `osml-agent run --record`.")],
    policy: Annotated[str, typer.Option(help="The policy that decides.")],
    twin: Annotated[
        Path | None,
        typer.Option(help="File of `osml look twin fit`; decisions take effect on this twin (closed loop)."),
    ] = None,
    members: Annotated[int, typer.Option(help="Number of the twin's members that run.", min=2, max=64)] = 5,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Replay a record under another policy: its decision of every interval beside the record's.

    Without a twin the policy sees what was recorded, whatever it decides. With a twin it sees what it causes.
    """
    record = gather(records)
    with working("replaying"), refused():
        found = _closed(record, policy, twin, members, seed) if twin else _open(record, policy, seed)
    if json:
        print_json(found)
    else:
        _show(found)


def _row(one: Replayed, present: Collection[str] | None = None) -> dict[str, Any]:
    """`present`: who was there, where a twin decides for all that it knows. Only these can differ."""
    names = sorted({owner for region in one.decided.regions for owner in region.owners})
    decided = shares_of(one.decided, one.platform, names)
    recorded = None if one.recorded is None else shares_of(one.recorded, one.platform, names)
    there = {name: share for name, share in decided.items() if present is None or name in present}
    return {
        "seq": one.seq, "time_s": one.time_s, "decision": decided, "recorded": recorded,
        "infeasible": one.infeasible, "difference": _difference(there, recorded),
    }  # fmt: skip


def _difference(decided: dict[str, Any], recorded: dict[str, Any] | None) -> dict[str, Any] | None:
    """CPUs and ways more than recorded."""
    if recorded is None:
        return None
    return {
        name: {
            key: None
            if share[key] is None or recorded[name][key] is None
            else round(share[key] - recorded[name][key], 6)
            for key in share
        }
        for name, share in decided.items()
    }


def _document(record: Record, policy: str, rows: list[dict[str, Any]], loop: str, cannot: list[str]) -> dict[str, Any]:
    policies = Counter(line.decision.policy for line in record.lines if line.decision is not None)
    return {
        "node": record.node, "policy": policy, "recorded_policies": [name for name, _ in policies.most_common()],
        "loop": loop, "intervals": rows, "gaps": len(record.gaps), "garbage": record.garbage, "cannot_show": cannot,
    }  # fmt: skip


def _open(record: Record, policy: str, seed: int) -> dict[str, Any]:
    rows = [_row(one) for one in replayed(record, policy, seed)]
    return _document(record, policy, rows, "open", list(CANNOT_SHOW))


def _closed(record: Record, policy: str, file: Path, members: int, seed: int) -> dict[str, Any]:
    try:
        from osml.twin.closed_replay import consequences  # noqa: PLC0415 - only this needs the simulator
        from osml.twin.document import load  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MachineError(
            f"--twin needs the Python package '{error.name}', which is not installed: {how_to_install('simulator')}"
        ) from None
    found: Consequences = consequences(load(file), record, policy, members=members, seed=seed)
    rows: list[dict[str, Any]] = []
    for at, line in enumerate(record.lines):
        seen = line.observation
        decided, recorded = found.decided[at], None if line.decision is None else line.decision.partition
        one = Replayed(seen.seq, seen.time_s, decided, recorded, seen.platform, infeasible=False)
        present = [service.name for service in seen.services]
        rows.append(_row(one, present) | {"predicted": found.row(at)})
    cannot = ["what the twin leaves out: see `osml look twin check`", *found.cannot_show]
    return _document(record, policy, rows, "closed", cannot) | {"simulated": True, "overall": found.overall()}


def _show(found: dict[str, Any]) -> None:
    console = out()
    before = ", ".join(found["recorded_policies"]) or "no decisions"
    rows: list[dict[str, Any]] = found["intervals"]
    changed = sum(bool(row["difference"]) and any(_other(x) for x in row["difference"].values()) for row in rows)
    loop = f"{found['policy']} in {found['loop']} loop"
    console.print(f"{found['node']}: {loop} against the record ({before}), {len(rows):,} intervals")
    if found["recorded_policies"]:
        console.print(f"it would have decided otherwise in {changed:,} of them")
    names = list(dict.fromkeys(name for row in rows for name in row["decision"]))  # who left early, too
    table = Table("time s", *[f"{name}: CPUs, ways (record)" for name in names])
    step = max(1, len(rows) // _ROWS)
    for row in rows[::step]:
        table.add_row(f"{row['time_s']:.0f}", *[_cell(row, name) for name in names])
    console.print(table)
    if "overall" in found:
        _overall(found["overall"])
    console.print("what this cannot show:")
    for text in found["cannot_show"]:
        console.print(f"- {text}", markup=False)


def _other(shares: dict[str, Any]) -> bool:
    return any(value for value in shares.values())


def _cell(row: dict[str, Any], name: str) -> str:
    def text(share: dict[str, Any] | None) -> str:
        if share is None:
            return "-"
        return f"{share['cpus']:g}" + ("" if share["ways"] is None else f", {share['ways']}")

    recorded: dict[str, dict[str, Any]] = row["recorded"] or {}
    return f"{text(row['decision'].get(name))} ({text(recorded.get(name))})"


def _overall(overall: dict[str, Any]) -> None:
    table = Table("simulated", "as recorded", "under the policy", "difference", "90 % bounds")
    rows = [(f"{name}, median latency ms", one, "_ms", brief) for name, one in overall["services"].items()]
    for name, one, unit, text in [*rows, ("E_S", overall["e_s"], "", _entropy)]:
        recorded, policy, more = (one[f"{key}{unit}"] for key in ("recorded", "policy", "difference"))
        if more is None:
            table.add_row(name, *["-"] * 4)
        else:
            bounds = f"{text(one['low'], '+')} to {text(one['high'], '+')}"
            table.add_row(name, text(recorded), text(policy), text(more, "+"), bounds)
    out().print(table)


def _entropy(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}"
