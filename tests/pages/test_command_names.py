"""Pages, files of the deployment and the dashboard use the names of commands that `osml --help` shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osml.cli.commands import COMMANDS
from osml.datasets.programs import PROGRAMS, RUN_LIVE, SWEEP_LIVE, current_program
from tests.kit.pages import ROOT

OLD = {entry.old: f"{entry.group} {entry.name}" for entry in COMMANDS if entry.old}
HIDDEN = re.compile(rf"(?<![\w.-])osml ({'|'.join(OLD)})(?![\w-])")
TEXTS = {".html", ".js", ".json", ".md", ".service", ".tpl", ".txt", ".yaml", ".yml"}


def read_by_users() -> list[Path]:
    """Notes are left out: they say what was typed on their day. So is what others wrote (`vendor`)."""
    folders = ("docs", "deploy", "serving/osml_serving/static")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    kept = [
        path for path in found
        if {"notes", "results", "vendor"}.isdisjoint(path.parts) and (path.suffix in TEXTS or not path.suffix)
    ]  # fmt: skip
    dockerfiles = [path for path in found if path.name.startswith("Containerfile")]
    return sorted({*ROOT.glob("*.md"), ROOT / "mkdocs.yml", *kept, *dockerfiles})


def hidden_names(text: str) -> list[str]:
    """What is typed with a hidden name, and what to write."""
    return [f"'{found[0]}', expected 'osml {OLD[found[1]]}'" for found in HIDDEN.finditer(text)]


def test_no_file_that_users_read_has_a_hidden_name() -> None:
    files = read_by_users()
    assert {"README.md", "cli.md", "osml-server.service", "index.html", "agent.yaml"} <= {file.name for file in files}
    found = [f"{file.relative_to(ROOT)}: {one}" for file in files for one in hidden_names(file.read_text("utf-8"))]
    assert found == []


def test_no_message_of_the_code_quotes_a_hidden_name() -> None:
    """Only names in backticks: other texts have words after `osml` that mean no command."""
    sources = [path for folder in ("osml", "serving", "training") for path in (ROOT / folder).rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {one}"
        for path in sources
        for quoted in re.findall(r"`osml [^`]*`", path.read_text("utf-8"))
        for one in hidden_names(quoted)
    ]
    assert found == []


def test_programs_of_data_sets_are_shown_commands_and_older_data_sets_name_the_same() -> None:
    assert [found for program in PROGRAMS for found in hidden_names(program)] == []
    assert current_program("osml data sweep") == SWEEP_LIVE
    assert current_program("osml live 0.1.0") == f"{RUN_LIVE} 0.1.0"
    assert [current_program(program) for program in PROGRAMS] == list(PROGRAMS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ExecStart=/opt/osml/bin/osml serve", ["'osml serve', expected 'osml run serve'"]),
        ("`osml advise day.jsonl`", ["'osml advise', expected 'osml look advise'"]),
        ("$ osml run serve && osml-agent replay x", []),
        ("osml live-lab, osml-models, the osml dashboard", []),
    ],
)
def test_a_hidden_name_is_found_and_nothing_else(text: str, found: list[str]) -> None:
    assert hidden_names(text) == found
