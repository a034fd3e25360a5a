"""docs/how-to/set-up.md names targets and extras that exist, and the pages name no other target of make."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.kit.pages import COMMANDS, ROOT, blocks_of

SET_UP = ROOT / "docs/how-to/set-up.md"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("how-to/*.md")),
    *sorted((ROOT / "docs").glob("tutorial/*.md")),
]
TARGETS = set(
    re.findall(r"^([a-z][\w-]*)(?: [a-z][\w-]*)*:(?!=)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
)
TARGETS |= {f"setup-{what}" for what in re.findall(r"setup-(\S+)", (ROOT / "Makefile").read_text("utf-8"))}


def extras_of(project: Path) -> set[str]:
    return set(tomllib.loads(project.read_text("utf-8"))["project"]["optional-dependencies"])


def asked_of_make(text: str) -> list[str]:
    """Targets that are typed: options, assignments and comments are none."""
    found: list[str] = []
    for line in re.findall(r"\bmake ([^`#&|;\n]*)", text):
        found += [word for word in line.split() if re.fullmatch(r"[a-z][a-z-]*", word)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_typed_after_make_is_a_target(page: Path) -> None:
    typed = "\n".join(
        line for block in blocks_of(page) if block.language in COMMANDS for line in block.commands
        if not line.startswith(("sudo apt-get", "apt-get"))
    )  # fmt: skip
    assert set(asked_of_make(typed)) <= TARGETS


def test_the_table_of_set_ups_names_targets_and_extras_that_exist() -> None:
    rows = [line for line in SET_UP.read_text("utf-8").splitlines() if line.startswith("| ")]
    targets = {word for row in rows for quoted in re.findall(r"`([^`]+)`", row) for word in asked_of_make(quoted)}
    assert {"setup-run", "agent", "setup-live", "live-lab", "setup-test"} == targets <= TARGETS
    extras = set(re.findall(r"--extra (\w+)", "\n".join(rows)))
    known = extras_of(ROOT / "pyproject.toml") | extras_of(ROOT / "training/pyproject.toml")
    assert {"gym", "train"} == extras <= known


def test_extras_that_pages_install_exist() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md") if "notes" not in path.parts]
    asked = re.findall(r"pip install '\./(\w*)\[([\w-]+)\]'", "\n".join(texts))
    assert ("", "clite") in asked and ("serving", "postgres") in asked
    for folder, extra in asked:
        assert extra in extras_of(ROOT / folder / "pyproject.toml")


def test_a_word_that_is_no_target_is_found() -> None:
    assert asked_of_make("make demo ARGS=--quick\nsudo make setup-live agent && ls") == ["demo", "setup-live", "agent"]
