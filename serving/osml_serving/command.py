"""`osml run serve`: the command that the `osml` program plugs in. Its flags are the fields of `Settings`."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from osml_serving.child_process import one_thread_in_libraries
from osml_serving.settings import Settings, load_settings


def serve(**flags: object) -> None:
    """Run the decision server and the dashboard (at /).

    Each flag has an environment variable, such as OSML_PORT for --port; the flag wins. A restart loses no decision.
    Experiences for `osml learn train c --online` are in a database.
    """
    settings = load_settings(flags)
    one_thread_in_libraries()

    # The rest of the package takes half a second to import: not for `osml --help`.
    if settings.workers > 1:
        from osml_serving.log import Log  # noqa: PLC0415
        from osml_serving.workers.supervisor import Supervisor  # noqa: PLC0415

        Supervisor(settings, Log(settings.log_format, settings.log_level)).run()
        return
    from osml_serving.start import start  # noqa: PLC0415

    start(settings)


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    """A flag whose help is the field's sentence. None: it was not given, and the environment or the default counts."""
    default = "none" if field.default is None else str(field.default)
    option = typer.Option(help=field.description, show_default=default)
    annotation = Annotated[_typed(field.annotation) | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _typed(annotation: Any) -> type[bool | int | float | str | Path]:
    """What typer reads for a field. `Settings` checks limits and choices, for flag and environment alike."""
    if isinstance(annotation, UnionType):
        [annotation] = [one for one in get_args(annotation) if one is not type(None)]
    return str if get_origin(annotation) is Literal else annotation


_flags = [_flag(name, field) for name, field in Settings.model_fields.items()]
setattr(serve, "__signature__", inspect.Signature(_flags))  # noqa: B010 - typer reads the flags from there
