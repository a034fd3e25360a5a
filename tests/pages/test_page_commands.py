"""Every command of README and docs is run by a test, or the page says above it why not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.kit.pages import COMMANDS, ROOT, blocks_of

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    *sorted((ROOT / "docs/explanation").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]
WALKED = [page for page in PAGES if page.parent.name not in ("explanation", "reference")]
"""Pages of which most commands are run; the others show forms of commands."""
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
            if not (test.is_file() and reads(test, page.name)):
                found.append(f"{at} is run by {block.test}, which does not read {page.name}")
        elif block.reason is not None:
            if len(block.reason.split()) < 2:
                found.append(f"{at} says '{block.reason}', expected why no test runs it")
            missing = [name for name in NAMED.findall(block.reason) if not (ROOT / name).exists()]
            found += [f"{at} names {name}, which does not exist" for name in missing]
        if not block.commands:
            found.append(f"{at} has no command: lines of console begin with $ or #")
    return found


def reads(test: Path, name: str) -> bool:
    """Whether the code of a test, or of a test that it imports from, names a page in a string that is no docstring."""
    tree = ast.parse(test.read_text("utf-8"))
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    others = [ROOT / f"{name.replace('.', '/')}.py" for name in modules if ".test_" in name]
    if any(reads(other, name) for other in others):
        return True
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(name in str(node.value) for node in strings if id(node) not in told)


def test_a_page_that_only_a_docstring_names_is_not_read(tmp_path: Path) -> None:
    test = tmp_path / "test_page.py"
    test.write_text('"""As page.md has it."""\n\n\ndef f():\n    "page.md, too"  # page.md\n')
    assert not reads(test, "page.md")
    test.write_text('PAGE = ROOT / "docs/page.md"\n')
    assert reads(test, "page.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    assert complaints(page) == []


def test_most_commands_outside_a_cluster_are_run() -> None:
    typed = [block for page in WALKED for block in blocks_of(page) if block.language in COMMANDS]
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
