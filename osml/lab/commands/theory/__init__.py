"""`osml lab theory`: what Ah-Q proves and defines, on measured or simulated numbers."""

from __future__ import annotations

import typer

from osml.lab.commands.theory.dip import dip
from osml.lab.commands.theory.equivalence import equivalence_command
from osml.lab.commands.theory.inversions import inversions
from osml.lab.commands.theory.tlt import tlt

app = typer.Typer(
    help="The theory of Ah-Q on given or simulated numbers: TLT bound, DIP, inversions, resource equivalence.",
    no_args_is_help=True,
)

app.command("tlt")(tlt)
app.command("dip")(dip)
app.command("inversions")(inversions)
app.command("equivalence")(equivalence_command)
