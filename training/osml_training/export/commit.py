"""Which sources a model was made by."""

from __future__ import annotations

import subprocess
from pathlib import Path

DIRTY = "-dirty"

_OWN = Path(__file__)


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=_OWN.parent, capture_output=True, text=True, check=True
    ).stdout.strip()


def commit() -> str:
    """The commit of these sources, with `-dirty` where tracked files differ from it; `unknown` outside of git.

    Models are no sources: one that was just trained into `models/` makes the next one's tree no dirtier.
    """
    try:
        _git("ls-files", "--error-unmatch", _OWN.name)  # installed in somebody else's repository: not its commit
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", ":(top,exclude)models")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + (DIRTY if changed else "")


def short(commit: str) -> str:
    """A commit as cards name it: twelve digits, and whether the tree was dirty."""
    return commit.removesuffix(DIRTY)[:12] + (DIRTY if commit.endswith(DIRTY) else "")
