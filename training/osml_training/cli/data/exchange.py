"""`osml learn data list`, `fetch` and `index`: data sets of others, from a server or from static files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.base.token_file import read_token
from osml_training.cli.plain_text import plain_text

if TYPE_CHECKING:
    from osml.datasets.exchange import Offered

Server = Annotated[str | None, typer.Option(metavar="URL", help="Server that has the data sets.")]
Index = Annotated[str | None, typer.Option(metavar="URL|FOLDER", help="Static index: where index.json is.")]
TokenFile = Annotated[Path | None, typer.Option(help="File with the server's bearer token.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def list_command(server: Server = None, index: Index = None, token_file: TokenFile = None, json: Json = False) -> None:
    """List the accepted data sets of a server or of a static index, with their content."""
    from osml.datasets.exchange import Source  # noqa: PLC0415

    found = Source(server, index, read_token(token_file)).datasets()
    _show(found, json)


def fetch_command(
    identity: Annotated[
        str, typer.Argument(metavar="ID|NAME", help="Its name, or at least the first 4 characters of its id.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the data set.")],
    server: Server = None,
    index: Index = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Fetch a data set: check its checksum, its files and its content, and unpack it for `osml learn train`."""
    from osml.datasets.exchange import Source  # noqa: PLC0415

    found = Source(server, index, read_token(token_file)).fetch(identity, folder)
    if json:
        sys.stdout.write(msgspec.json.encode({"dataset": str(folder), "fetched": found}).decode() + "\n")
        return
    Console(highlight=False, soft_wrap=True).print(
        f"{found.rows or 0:,} rows in {folder}\nnext: train on it, see docs/how-to/train.md", markup=False
    )


def index_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with packages (*.tar).")], json: Json = False
) -> None:
    """Check all packages of a folder and write index.json: any web server can then offer them as static files."""
    from osml.datasets.exchange import write_index  # noqa: PLC0415

    _show(write_index(folder).datasets, json)


def _show(found: list[Offered], json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode({"datasets": found}).decode() + "\n")
        return
    table = Table("id", "name", "kind", "platforms", "services", "rows", "labels", "licence")
    for one in found:
        content = one.content
        if content is None:
            table.add_row(one.id[:12], "?", "", "", "", plain_text(one.rows or ""), "", "")
            continue
        labels = ", ".join(f"{count} {outcome}" for outcome, count in content.outcomes.items())
        cells = (
            content.name, content.kind, ", ".join(content.platforms), ", ".join(content.services), one.rows, labels,
            content.licence,
        )  # fmt: skip
        table.add_row(one.id[:12], *map(plain_text, cells))
    Console().print(table)
