"""`osml look advise`: does this machine need partitioning, and what would it gain?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from osml.base.brief_number import brief
from osml.base.failure import InputError
from osml.base.whole_file import check_folder, write_whole
from osml.records import gather
from osml.twin.advice.advise import advised, document
from osml.twin.advice.page import page
from osml.twin.commands.options import Json, Limits, Seed, limits_of, out, print_json, working
from osml.twin.document import Twin, is_twin, load
from osml.twin.make import made

_MOST = 5


def advise(
    source: Annotated[
        Path, typer.Argument(metavar="RECORD|TWIN", help="A record of the agent, or a file of `osml look twin fit`.")
    ],
    html: Annotated[Path | None, typer.Option(help="File for a page that shows it.")] = None,
    seed: Seed = 0,
    limit: Limits = None,
    json: Json = False,
) -> None:
    """Say who suffers, from whom, from what, and what each lever would give. Nothing on the machine is changed."""
    if html is not None:
        check_folder(html)
    twin = _twin_of(source, seed, limit)
    with working("asking the twin, some seconds"):
        found = document(twin, advised(twin, seed=seed))
    if html is not None:
        write_whole(html, page(found).encode())
    if json:
        print_json(found)
    else:
        _show(found, html)


def _twin_of(source: Path, seed: int, limit: list[str] | None) -> Twin:
    if is_twin(source):
        if limit:
            raise InputError(
                f"--limit was given with a twin, {source}, which is fitted already; "
                "give it to `osml look twin fit`, or give the record here"
            )
        return load(source)
    record = gather([source])
    quotas = limits_of(record, limit)
    with working("fitting a twin, some seconds"):
        return made(record, seed=seed, quotas=quotas)


def _show(found: dict[str, Any], html: Path | None) -> None:
    console = out()
    console.print(f"{found['node']}: {found['verdict']}", markup=False)
    for text in found["answer"]:
        console.print(f"- {text}", markup=False)
    for one in found["services"]:
        measured, suffers = brief(one["measured_ms"]), brief(one["suffers_ms"])
        title = f"{one['name']}: {one['percentile']} {measured} ms, suffers {suffers} ms"
        causes = Table("from", "through", "ms", "confidence", title=title, title_justify="left")
        for cause in one["from"][:_MOST]:
            sure = "not known" if cause["confidence"] is None else f"{cause['confidence']:.0%}"
            causes.add_row(cause["culprit"] or "not known", cause["resource"], brief(cause["ms"]), sure)
        levers = Table("lever", "ms less (simulated)", "90 % bounds")
        for lever in one["levers"][:_MOST]:
            levers.add_row(
                lever["lever"] + ("" if lever["available"] else " (not on this machine)"), brief(lever["gain"]),
                f"{brief(lever['low'])} to {brief(lever['high'])}",
            )  # fmt: skip
        console.print(causes, levers)
    console.print("what the record can't tell:")
    for text in found["unknown"]:
        console.print(f"- {text}", markup=False)
    if html is not None:
        console.print(f"wrote {html}", markup=False)
