"""`osml lab conformance`: whether a server keeps the contract of the wire format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osml.base.failure import InputError
from osml.base.token_file import read_token
from osml.lab.conformance.checks import Server, run_checks


def conformance(
    url: Annotated[str, typer.Argument(help="Address of the server, such as http://127.0.0.1:8080.")],
    token_file: Annotated[Path | None, typer.Option(help="File with a token of scope agent for --node.")] = None,
    node: Annotated[str, typer.Option(help="Name of the node that the checks invent.")] = "conformance",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check a server against the contract, version 1. The exit code is 1 where a check fails.

    The checks send observations of an invented node. A server that keeps experiences gets one invented experience
    under the name of --node: do not give the name of a real node.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"the address is '{url}', expected one that begins with http:// or https://")
    token = read_token(token_file)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        made = httpx.Client(base_url=url, headers=headers, timeout=10)
    except httpx.InvalidURL as error:
        raise InputError(f"the address is '{url}', expected one such as http://127.0.0.1:8080 ({error})") from None
    with made as client:
        found = run_checks(Server(client, node))
    passed = sum(one.fault is None for one in found)
    if as_json:
        checks = [{"name": one.name, "passed": one.fault is None, "fault": one.fault} for one in found]
        print(json.dumps({"passed": passed, "total": len(found), "checks": checks}))
    else:
        table = Table("promise", "", "what was found", title=f"{passed} of {len(found)} promises are kept")
        for one in found:
            mark = "[green]kept[/green]" if one.fault is None else "[red]broken[/red]"
            table.add_row(one.name, mark, escape(one.fault or ""))
        Console().print(table)
    if passed < len(found):
        raise typer.Exit(1)
