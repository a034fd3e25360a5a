"""`osml data`: collect, import, label, check and hand on allocation cases."""

from __future__ import annotations

import typer

from osml_training.cli import data_collect, data_contribute, data_import, data_label, data_transitions, data_validate

app = typer.Typer(
    help="Traces and labels: collect, import, label, check, hand on.", no_args_is_help=True,
    pretty_exceptions_enable=False,
)  # fmt: skip
app.command("collect")(data_collect.collect_command)
app.command("label")(data_label.label_command)
app.command("import-osml")(data_import.import_command)
app.command("transitions")(data_transitions.transitions_command)
app.command("validate")(data_validate.validate_command)
app.command("contribute")(data_contribute.contribute_command)
