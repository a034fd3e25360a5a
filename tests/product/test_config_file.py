"""`--config FILE`: values of a file, options that win over them, and files that make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from osml.base.config_file import config_option
from osml.base.failure import InputError

app = typer.Typer(add_completion=False)


@app.command()
def command(
    name: Annotated[str, typer.Option()],
    poll_ms: Annotated[float, typer.Option()] = 1.0,
    node: Annotated[list[str] | None, typer.Option()] = None,
    config: Annotated[Path | None, config_option()] = None,
) -> None:
    """Print what came."""
    del config
    print(name, poll_ms, node)


def run(folder: Path, text: str, *arguments: str) -> str:
    file = folder / "options.yaml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["--config", str(file), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_file_has_the_values_and_an_option_wins(tmp_path: Path) -> None:
    assert run(tmp_path, "name: web\npoll-ms: 5\nnode: [a=b, c=d]\n") == "web 5.0 ['a=b', 'c=d']\n"
    assert run(tmp_path, "name: web\npoll_ms: 5\n", "--poll-ms", "2") == "web 2.0 None\n"


@pytest.mark.parametrize("text", ["", "# poll_ms: 5\n"])
def test_an_empty_file_changes_nothing(text: str, tmp_path: Path) -> None:
    assert run(tmp_path, text, "--name", "web") == "web 1.0 None\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nmae: web", "'nmae' is unknown, expected one of name, node, poll_ms"),
        ("- name", "is a list, expected a mapping"),
        ("name: [", "is not YAML"),
    ],
)
def test_a_file_that_makes_no_sense_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        run(tmp_path, text)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.yaml can't be read \(No such file or directory\)"):
        CliRunner().invoke(app, ["--config", str(tmp_path / "gone.yaml")], catch_exceptions=False)
