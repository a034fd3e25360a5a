"""`osml look doctor`: what this machine can do, and how to get what it can't."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osml.doctor.agent import agent_findings
from osml.doctor.finding import Finding
from osml.doctor.machine import machine_findings
from osml.doctor.software import software_findings


def doctor(
    agent: Annotated[
        Path | None, typer.Option(help="The osml-agent binary.", show_default="the one built here")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """List the mechanisms that this machine supports: act, sense, decide, simulate, train.

    The command changes nothing. The exit code is 0 even if mechanisms are missing: osml works without them.
    """
    findings = [*agent_findings(agent), *machine_findings(), *software_findings()]
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode({"mechanisms": findings})).decode() + "\n")
        return
    Console().print(_table(findings))


def _table(findings: list[Finding]) -> Table:
    table = Table("to", "mechanism", "", "what was found", "how to enable", title="This machine")
    for found in sorted(findings, key=lambda f: ("act", "sense", "decide", "simulate", "train").index(f.area)):
        mark = "[green]yes[/green]" if found.available else "[red]no[/red]"
        table.add_row(found.area, found.mechanism, mark, escape(found.reason), escape(found.how_to_enable))
    return table
