"""`osml virtual`: the node made of equations."""

from __future__ import annotations

import typer

from osml.cli.virtual.crosscheck import crosscheck
from osml.cli.virtual.fit import fit
from osml.cli.virtual.mount import mount
from osml.cli.virtual.oracle import oracle
from osml.cli.virtual.surface import surface
from osml.cli.virtual.validate import validate
from osml.cli.virtual_help import HELP

app = typer.Typer(help=HELP, no_args_is_help=True)

app.command("crosscheck")(crosscheck)
app.command("fit")(fit)
app.command("mount")(mount)
app.command("oracle")(oracle)
app.command("surface")(surface)
app.command("validate")(validate)
