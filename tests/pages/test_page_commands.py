"""Every command of README, tutorial and how-tos is run by a test, or the page says above it why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.pages import COMMANDS, ROOT, blocks_of

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
NAMED = re.compile(r"\btests/[\w/]+(?:\.py)?")


def complaints(page: Path) -> list[str]:
    """What is wrong with the command blocks of a page, one line each."""
    found: list[str] = []
    for block in blocks_of(page):
        at = f"{block.page}:{block.line}"
        if not block.language:
            found.append(f"{at} has no language: sh or console for commands, text for output")
        if block.language not in COMMANDS:
            continue
        if block.test is None and block.reason is None:
            found.append(f"{at} has no comment: `<!-- run by TEST -->`, or `<!-- not run: REASON -->`")
        elif block.test is not None:
            test = ROOT / block.test
            if not (test.is_file() and page.name in test.read_text("utf-8")):
                found.append(f"{at} is run by {block.test}, which does not read {page.name}")
        elif block.reason is not None:
            if len(block.reason.split()) < 2:
                found.append(f"{at} says '{block.reason}', expected why no test runs it")
            missing = [name for name in NAMED.findall(block.reason) if not (ROOT / name).exists()]
            found += [f"{at} names {name}, which does not exist" for name in missing]
        if not block.commands:
            found.append(f"{at} has no command: lines of console begin with $ or #")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    assert complaints(page) == []


def test_most_commands_outside_a_cluster_are_run() -> None:
    typed = [block for page in PAGES for block in blocks_of(page) if block.language in COMMANDS]
    blocks = [block for block in typed if not (block.reason or "").startswith("needs a Kubernetes cluster")]
    run = [block for block in blocks if block.test is not None]
    assert len(run) >= len(blocks) / 2, f"{len(run)} of {len(blocks)} blocks are run by a test"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```sh\nosml look doctor\n```\n", "new.md:1 has no comment"),
        ("```\nosml look doctor\n```\n", "new.md:1 has no language"),
        ("<!-- run by tests/nobody.py -->\n```sh\nls\n```\n", "new.md:2 is run by tests/nobody.py, which does not"),
        ("<!-- run by tests/conftest.py -->\n```sh\nls\n```\n", "tests/conftest.py, which does not read new.md"),
        ("<!-- not run: hours -->\n```sh\nls\n```\n", "says 'hours', expected why no test runs it"),
        ("<!-- not run: as in tests/nobody.py -->\n```sh\nls\n```\n", "names tests/nobody.py, which does not exist"),
        ("<!-- not run: needs a cluster -->\n\n```sh\nls\n```\n", "new.md:3 has no comment"),
        ("<!-- not run: needs a cluster -->\n```console\nls\n```\n", "new.md:2 has no command"),
    ],
)  # fmt: skip
def test_a_new_block_without_test_or_reason_is_named(tmp_path: Path, text: str, words: str) -> None:
    page = tmp_path / "new.md"
    page.write_text(text)
    [found] = complaints(page)
    assert words in found


def test_commands_are_what_is_typed(tmp_path: Path) -> None:
    page = tmp_path / "new.md"
    page.write_text("<!-- not run: needs a cluster -->\n```console\n$ one \\\n      two\n# three\noutput\n```\n")
    [block] = blocks_of(page)
    assert block.commands == ["one  two", "three"]
    page.write_text(
        "<!-- run by tests/a.py: beside the rest, until http://127.0.0.1:1/readyz -->\n```sh\n# no\nls\n```\n"
    )
    [block] = blocks_of(page)
    assert (block.test, block.until, block.commands) == ("tests/a.py", "http://127.0.0.1:1/readyz", ["ls"])
