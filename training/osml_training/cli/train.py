"""`osml train`: models A, A', B, B' and C out of labelled data sets."""

from __future__ import annotations

import typer

from osml_training.cli import train_c, train_evaluate, train_model, train_transfer
from osml_training.data.features import MODELS

app = typer.Typer(
    help="Train, evaluate and transfer the models A, A', B, B' and C.", no_args_is_help=True,
    pretty_exceptions_enable=False,
)  # fmt: skip
for _model in MODELS:
    app.command(_model, help=train_model.HELP[_model])(train_model.command_for(_model))
app.command("c", help=train_c.HELP)(train_c.c_command)
app.command("evaluate")(train_evaluate.evaluate_command)
app.command("transfer")(train_transfer.transfer_command)
