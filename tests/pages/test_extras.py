"""The command that adds an extra to the environment that osml runs in."""

from pathlib import Path

import pytest

from osml.base import extras


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    environment = tmp_path / ".venv"
    environment.mkdir()
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving/pyproject.toml").touch()  # a checkout
    monkeypatch.setattr(extras.sys, "prefix", str(environment))
    return environment


def test_an_environment_of_uv_is_told_uv(prefix: Path) -> None:
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\nprompt = osml\n")
    common = "run `uv sync --frozen --inexact --no-default-groups --package"
    assert extras.how_to_install("clite") == f"{common} osml --extra clite` in the checkout of osml"
    assert extras.how_to_install("train", "ray", package="osml-training") == (
        f"{common} osml-training --extra train --extra ray` in the checkout of osml"
    )


@pytest.mark.parametrize("text", [None, "home = /usr/bin\nversion = 3.11\nprompt = uv\n"])
def test_any_other_environment_is_told_its_own_pip(prefix: Path, text: str | None) -> None:
    if text is not None:
        (prefix / "pyvenv.cfg").write_text(text)
    python = extras.sys.executable
    assert extras.how_to_install("clite") == f"run `{python} -m pip install '.[clite]'` in the checkout of osml"
    assert extras.how_to_install(package="osml-serving") == (
        f"run `{python} -m pip install './serving'` in the checkout of osml"
    )


@pytest.mark.parametrize("name", ["mine", ".venv"])
def test_an_environment_of_uv_that_is_not_the_checkouts_is_told_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "pyvenv.cfg").write_text("uv = 0.9.1\n")
    monkeypatch.setattr(extras.sys, "prefix", str(tmp_path / name))
    command = f"uv pip install --python {extras.sys.executable} '.[clite]'"
    assert extras.how_to_install("clite") == f"run `{command}` in the checkout of osml"
