"""`osml`: registers the commands of this package and those that other packages plug in."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated

import typer

from osml import __version__
from osml.cli import demo, dispatch, doctor, entropy, live
from osml.cli.bench_help import HELP as BENCH
from osml.cli.ombm_help import HELP as OMBM
from osml.cli.theory_help import HELP as THEORY
from osml.cli.virtual_help import HELP as VIRTUAL
from osml.failure import Failure

COMMANDS_GROUP = "osml.commands"
# Commands that live in a package of their own: what to install where it is missing.
ELSEWHERE = {"serve": "osml-serving", "train": "osml-training", "data": "osml-training", "models": "osml-training"}

app = typer.Typer(
    name="osml",
    help="Keeps latency-critical services inside their tail-latency targets on a shared server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"osml {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Entry of all commands."""
    del version


app.command("entropy")(entropy.entropy)
app.command("demo")(demo.demo)
app.command("live")(live.live)
app.command("doctor")(doctor.doctor)
app.add_typer(dispatch.app, name="dispatch")


# Groups on compiled equations, which take a second to load: loaded only where one of their commands is asked for.
COMPILED = {"virtual": VIRTUAL, "theory": THEORY, "bench": BENCH, "ombm": OMBM}


def _group(name: str) -> typer.Typer:
    """The commands of a compiled group; only its name where another command is asked for."""
    return import_module(f"osml.cli.{name}").app if sys.argv[1:2] == [name] else typer.Typer(help=COMPILED[name])


def _plug_in() -> None:
    """Add the compiled groups and the commands of other packages (entry point group `osml.commands`)."""
    for name in COMPILED:
        app.add_typer(_group(name), name=name)
    for entry in sorted(entry_points(group=COMMANDS_GROUP), key=lambda found: found.name):
        try:
            command = entry.load()
        except ImportError as error:
            print(f"osml: command '{entry.name}' can't be loaded: {error}", file=sys.stderr)
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


def _missing_package(arguments: list[str]) -> str | None:
    """Say what to install when the wanted command belongs to a package that is not here."""
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    if wanted not in ELSEWHERE or any(entry.name == wanted for entry in entry_points(group=COMMANDS_GROUP)):
        return None
    package = ELSEWHERE[wanted]
    return f"command '{wanted}' belongs to the package {package}: install it by `uv sync --inexact --package {package}`"


def main() -> None:
    """Console entry point: one sentence and an exit code instead of a traceback."""
    missing = _missing_package(sys.argv[1:])
    if missing is not None:
        print(f"osml: {missing}", file=sys.stderr)
        sys.exit(3)
    _plug_in()
    try:
        app()
    except Failure as failure:
        print(f"osml: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (`osml ... | head`): not worth a word
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that is a file, no right to write
        where = f"'{error.filename}': " if error.filename is not None else ""
        print(f"osml: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(1)
