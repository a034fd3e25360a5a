"""The folder of a trial: only what an earlier trial wrote is deleted, and only in a folder of trials."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from osml.base.failure import InputError

MARK = ".osml-trial"
STORE = "experiences.db"
"""What a trial taught stays in its folder."""
_ONLY_OF_TRIALS = ("node-unmanaged", "telemetry")
"""Folders that each trial makes first, and nobody else has beside its logs and a store."""


def begin_folder(out: Path, own: Sequence[str]) -> None:
    """Make the folder, or take what earlier trials wrote out of it; `own` are patterns of names.

    Raises InputError for a folder with files of somebody else: a trial often runs as root.
    """
    out.mkdir(parents=True, exist_ok=True)
    if not (out / MARK).exists():
        if any(out.iterdir()) and not (_has_a_summary(out) or _was_cut_short(out, own)):
            raise InputError(f"--out {out} has files that no trial wrote: choose a new folder, or an empty one")
        (out / MARK).touch()
    for path in [path for pattern in own for path in out.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _was_cut_short(out: Path, own: Sequence[str]) -> bool:
    """Whether a trial of an earlier version, which left no mark, ended early here: it has nothing but its files."""
    names = [path.name for path in out.iterdir()]
    known = all(any(fnmatch(name, pattern) for pattern in own) or name == "timeline.png" for name in names)
    return known and any(name in names for name in _ONLY_OF_TRIALS)


def _has_a_summary(out: Path) -> bool:
    """Whether a trial of an earlier version wrote its summary here."""
    try:
        found = json.loads((out / "summary.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"phases", "simulated"} <= found.keys()
