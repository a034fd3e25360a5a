"""`osml lab simulator`: the node made of equations."""

from __future__ import annotations

import typer

from osml.simulator.commands.crosscheck import crosscheck
from osml.simulator.commands.fit import fit
from osml.simulator.commands.mount import mount
from osml.simulator.commands.oracle import oracle
from osml.simulator.commands.sensitivity import sensitivity
from osml.simulator.commands.surface import surface
from osml.simulator.commands.validate import validate

app = typer.Typer(help="The virtual node: a simulated machine, calibrated on published facts.", no_args_is_help=True)

app.command("crosscheck")(crosscheck)
app.command("fit")(fit)
app.command("mount")(mount)
app.command("oracle")(oracle)
app.command("sensitivity")(sensitivity)
app.command("surface")(surface)
app.command("validate")(validate)
