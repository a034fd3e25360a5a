"""A card names the sources that made the model: their commit, and whether they differ from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

sources = pytest.importorskip("osml_training.export.commit")


def _git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    return subprocess.run(["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose file code/own.py stands for these sources, with a model and a file that git ignores."""
    for name, text in (("code/own.py", "1"), ("models/a/card.md", "card"), (".gitignore", "out/\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-q", "-m", "first")
    monkeypatch.setattr(sources, "_OWN", tmp_path / "code/own.py")
    return tmp_path


def test_a_changed_source_makes_the_tree_dirty_a_model_or_a_result_does_not(tree: Path) -> None:
    head = _git(tree, "rev-parse", "HEAD").strip()
    assert sources.commit() == head
    (tree / "models/a/card.md").write_text("trained anew", "utf-8")
    (tree / "out").mkdir()
    (tree / "out/data").write_text("rows", "utf-8")
    assert sources.commit() == head
    (tree / "code/own.py").write_text("2", "utf-8")
    assert sources.commit() == f"{head}-dirty"
    assert sources.short(f"{head}-dirty") == f"{head[:12]}-dirty"


def test_sources_installed_in_another_repository_do_not_take_its_commit(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "out").mkdir()
    (tree / "out/own.py").write_text("1", "utf-8")
    monkeypatch.setattr(sources, "_OWN", tree / "out/own.py")
    assert sources.commit() == "unknown"


def test_a_folder_outside_of_git_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text("1", "utf-8")
    monkeypatch.setattr(sources, "_OWN", tmp_path / "own.py")
    assert sources.commit() == "unknown"
