"""`osml learn data`: collect, sweep, import, label, check and hand on allocation cases."""

from __future__ import annotations

import typer

from osml_training.cli.data import (
    collect,
    contribute,
    exchange,
    import_published,
    label,
    leaderboard,
    outlooks,
    sweep,
    transitions,
    validate,
)

app = typer.Typer(
    help="Collect, import, label, check and contribute traces.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("collect")(collect.collect_command)
app.command("sweep")(sweep.sweep_command)
app.command("label")(label.label_command)
app.command("import-osml")(import_published.import_command)
app.command("transitions")(transitions.transitions_command)
app.command("outlooks")(outlooks.outlooks_command)
app.command("validate")(validate.validate_command)
app.command("contribute")(contribute.contribute_command)
app.command("list")(exchange.list_command)
app.command("fetch")(exchange.fetch_command)
app.command("index")(exchange.index_command)
app.command("leaderboard")(leaderboard.leaderboard_command)
