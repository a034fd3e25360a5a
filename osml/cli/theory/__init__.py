"""`osml theory`: what Ah-Q proves and defines, on measured or simulated numbers."""

from __future__ import annotations

import typer

from osml.cli.theory.dip import dip
from osml.cli.theory.equivalence import equivalence_command
from osml.cli.theory.inversions import inversions
from osml.cli.theory.tlt import tlt
from osml.cli.theory_help import HELP

app = typer.Typer(help=HELP, no_args_is_help=True)

app.command("tlt")(tlt)
app.command("dip")(dip)
app.command("inversions")(inversions)
app.command("equivalence")(equivalence_command)
