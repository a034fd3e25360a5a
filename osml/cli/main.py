"""`osml`: four groups of commands, the old names of the commands as hidden aliases, and plug-ins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from osml import __version__
from osml.base.failure import Failure
from osml.cli.commands import COMMANDS, GROUPS, Entry, load, other_plug_ins


class LazyGroup(TyperGroup):
    """A group that knows the help line of each command, and loads the command when it is asked for."""

    entries: ClassVar[dict[str, Entry]]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names. `ctx` is of the click that typer carries inside."""
        entry = self.entries.get(args[0])
        if entry is not None:
            self.commands[args[0]] = as_command(load(entry), args[0])
        return super().resolve_command(ctx, args)


def as_command(found: Any, name: str) -> Any:
    """A function or an application of typer as a command of click with this name."""
    if isinstance(found, typer.Typer):
        command = get_group(found)
        command.name = name
        return command
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(found)
    return get_command(alone)


def _lazy(entries: dict[str, Entry]) -> type[LazyGroup]:
    return type("LazyGroup", (LazyGroup,), {"entries": entries})


def _stub() -> None:
    """Stand in for a command in the list of commands."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"osml {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Entry of all commands."""
    del version


def _plug_in(app: typer.Typer) -> None:
    """Add the commands of other packages (entry point group `osml.commands`) that no group knows."""
    for entry in other_plug_ins():
        try:
            command: typer.Typer | Callable[..., Any] = entry.load()
        except Exception as error:  # of somebody else's package: the commands of this one still work
            print(f"osml: command '{entry.name}' can't be loaded: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


def application() -> typer.Typer:
    """All commands, each in its group; old names are there too, hidden."""
    old = {entry.old: entry for entry in COMMANDS if entry.old}
    app = typer.Typer(
        name="osml",
        cls=_lazy(old),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Keeps latency-critical services inside their tail-latency targets on a shared server.",
    )
    app.callback()(_root)
    for group, line in GROUPS.items():
        members = {entry.name: entry for entry in COMMANDS if entry.group == group}
        inner = typer.Typer(cls=_lazy(members), help=line, no_args_is_help=True)
        for entry in members.values():
            inner.command(entry.name, help=entry.help)(_stub)
        app.add_typer(inner, name=group)
    for name, entry in old.items():
        app.command(name, help=entry.help, hidden=True)(_stub)
    _plug_in(app)
    return app


def _forget_output() -> None:
    """What could not be written shall not fail once more when the interpreter ends."""
    with suppress(OSError, ValueError):  # a test has a standard output without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Console entry point: one sentence and an exit code instead of a traceback."""
    try:
        try:
            application()()
        finally:
            if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is, where it was closed
                sys.stdout.flush()  # a full disk is found out here, not when the interpreter ends
    except Failure as failure:
        print(f"osml: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
    except BrokenPipeError:
        _forget_output()
        sys.stderr.close()  # the reader went away (`osml ... | head`): not worth a word
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that is a file, no right to write
        where = f"'{error.filename}': " if error.filename is not None else ""
        print(f"osml: {where}{error.strerror or error}", file=sys.stderr)
        _forget_output()
        sys.exit(1)
