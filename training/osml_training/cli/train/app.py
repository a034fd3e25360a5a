"""`osml learn train`: models A, A', B, B', C and C' out of labelled data sets."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from osml_training.cli.train import (
    c,
    c2,
    c_online,
    calibrate,
    evaluate,
    model,
    transfer,
)
from osml_training.tables.features import MODELS

ONLINE = "--online"


class _Models(TyperGroup):
    """`osml learn train c --online` is `osml learn train c-online`: it learns from a store, not from data sets."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the one in the place of the other. `ctx` is of the click that typer carries inside."""
        if args[:1] == ["c"] and ONLINE in args:
            args = ["c-online", *(arg for arg in args[1:] if arg != ONLINE)]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Models,
    help="Train, evaluate and transfer the models A, A', B, B', C and C'.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _model in MODELS:
    app.command(_model, help=model.HELP[_model])(model.command_for(_model))
app.command("c", help=c.HELP)(c.c_command)
app.command("c2", help=c2.HELP)(c2.c2_command)
app.command("c-online", help=c_online.HELP)(c_online.c_online_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("calibrate")(calibrate.calibrate_command)
app.command("transfer")(transfer.transfer_command)
