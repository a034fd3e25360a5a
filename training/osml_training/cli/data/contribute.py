"""`osml learn data contribute`: validate, pack, hand on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from osml.base.failure import InputError
from osml.base.token_file import read_token

_CHECK_S = 600.0


def contribute_command(
    dataset: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a data set.")],
    to: Annotated[Path | None, typer.Option(help="Folder for the package.", show_default="DIR/..")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Server that receives the package (POST /v1/datasets).")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the server's bearer token.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set: a-z, 0-9, '.', '_', '-'.")] = None,
    contributor: Annotated[str | None, typer.Option(help="Your name or a pseudonym; it becomes public.")] = None,
    description: Annotated[str | None, typer.Option(help="One or two sentences: content, purpose, method.")] = None,
    licence: Annotated[
        str | None, typer.Option(help="Expected SPDX id of the licence; the command fails if the files have another.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the server has checked the data set.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check a data set, write its card and checksums, pack it, and put it in a folder or send it to a server."""
    from osml.datasets.contribute import pack, send, wait_for_check  # noqa: PLC0415

    if to is not None and server is not None:
        raise InputError("give --to FOLDER or --server URL, not both")
    if wait and server is None:
        raise InputError("--wait needs --server URL: a folder checks nothing")
    token = read_token(token_file)
    out = to or dataset.resolve().parent
    with Console(stderr=True).status("checking and packing"):
        package = pack(dataset, out, name=name, contributor=contributor, description=description, licence=licence)
    answer: dict[str, Any] | None = None
    if server is not None:
        with Console(stderr=True).status(f"sending {package.file.stat().st_size / 1e6:.1f} MB"):
            answer = send(package, server, token)
        if wait:
            with Console(stderr=True).status("waiting for the server's check"):
                answer = wait_for_check(server, str(answer["id"]), token, _CHECK_S)
    document: dict[str, Any] = {
        "package": str(package.file),
        "id": package.id,
        "rows": package.rows,
        "bytes": package.file.stat().st_size,
        "findings": package.report.findings,
        "server": server,
        "answer": answer,
    }
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    where = f"packed in {package.file}"
    if server is not None and answer is not None:
        at = f"{server.rstrip('/')}/v1/datasets/{answer['id']}"
        where += f"\n{server} received it ({answer.get('state', 'checking')}); result: GET {at}"
    findings = sum(package.report.counts.values())
    seen = f"{findings:,} findings" + (f" (see `osml learn data validate {dataset}`)" if findings else "")
    Console().print(
        f"{package.rows:,} rows, {seen}, id {package.id[:12]}\n{where}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
