"""`osml virtual`: the node made of equations."""

from __future__ import annotations

import typer

from osml.cli.virtual.fit import fit
from osml.cli.virtual.mount import mount
from osml.cli.virtual.oracle import oracle
from osml.cli.virtual.surface import surface

app = typer.Typer(
    help="A virtual node: a machine made of equations, calibrated on published facts.", no_args_is_help=True
)

app.command("fit")(fit)
app.command("mount")(mount)
app.command("oracle")(oracle)
app.command("surface")(surface)


@app.callback()
def virtual() -> None:
    """Keep `mount` a sub-command while it is the only one."""
