"""`osml learn data leaderboard`: how well the data sets of a folder predict each other."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from osml.base.failure import InputError

if TYPE_CHECKING:
    from osml_training.tables.features import Model

NAME = "leaderboard"


def leaderboard_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with packages (*.tar).")],
    model: Annotated[str, typer.Option(help="Labels to predict: a or a2.")] = "a2",
    rows: Annotated[int, typer.Option(min=100, help="Most examples of each data set.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the models and of the choice of examples.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Leave out each platform and each service once, and write leaderboard.json and leaderboard.md beside the index.

    Variants and parts go with what they were made of.
    Four simple models learn from the rest. The first one, the median, knows nothing of the inputs.
    """
    from osml.base.whole_file import whole_file  # noqa: PLC0415
    from osml.datasets.contribute import refused, unpack_check  # noqa: PLC0415
    from osml.datasets.package import unpack  # noqa: PLC0415
    from osml.datasets.validate import validate  # noqa: PLC0415
    from osml_training.evaluate.leaderboard import MODELS, leaderboard, markdown, read  # noqa: PLC0415

    chosen: Model | None = next((name for name in MODELS if name == model), None)
    if chosen is None:
        raise InputError(f"--model is '{model}', expected one of {', '.join(MODELS)}")
    packages = sorted(folder.glob("*.tar")) if folder.is_dir() else []
    if not packages:
        raise InputError(f"'{folder}' has no package, expected *.tar of `osml learn data contribute --to`")
    with tempfile.TemporaryDirectory(prefix="osml-leaderboard-") as scratch:
        sets: list[Path] = []
        for number, package in enumerate(packages):
            sets.append(Path(scratch) / str(number))
            sets[-1].mkdir()
            try:
                unpack(package, sets[-1])
                unpack_check(package)
                report = validate(sets[-1], made_here=False)
                if not report.accepted:
                    raise refused(report)
            except InputError as error:
                reason = str(error).removeprefix(f"{package}: ")
                raise InputError(f"package '{package}' can't be compared: {reason}; remove it") from None
        board = leaderboard(read(sets, chosen, rows, seed), chosen, seed)
    encoded = msgspec.json.format(msgspec.json.encode(board), indent=1) + b"\n"
    for suffix, content in ((".json", encoded), (".md", markdown(board).encode())):
        with whole_file(folder / f"{NAME}{suffix}") as partial:
            partial.write_bytes(content)
    if json:
        sys.stdout.write(encoded.decode())
        return
    Console(highlight=False, soft_wrap=True).print(markdown(board), markup=False)
