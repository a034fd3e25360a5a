"""`--config FILE`: a YAML file with values for the other options of a command. An option on the command line wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import typer
import yaml

from osml.base.failure import InputError


def _read(ctx: typer.Context, file: Path | None) -> Path | None:
    """Make the values of the file the defaults of the command. InputError for a file or a key that makes no sense."""
    if file is None:
        return None
    try:
        found: object = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise InputError(f"--config {file} can't be read ({error.strerror}), expected a YAML file") from None
    except yaml.YAMLError as error:
        raise InputError(f"--config {file} is not YAML: {' '.join(str(error).split())}") from None
    if found is None:  # an empty file, or one of comments alone, changes nothing
        return file
    if not isinstance(found, dict):
        raise InputError(f"--config {file} is a {type(found).__name__}, expected a mapping such as 'poll_ms: 1.0'")
    known = {name for parameter in ctx.command.params if (name := parameter.name) not in (None, "config", "help")}
    values: dict[str, Any] = {}
    for key, value in cast("dict[object, object]", found).items():
        name = str(key).replace("-", "_")
        if name not in known:
            raise InputError(f"--config {file}: '{key}' is unknown, expected one of {', '.join(sorted(known))}")
        values[name] = value
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return file


def config_option() -> Any:
    """Make the option of a parameter of type `Path | None`."""
    return typer.Option("--config", help="YAML file with values for the other options.", callback=_read, is_eager=True)
