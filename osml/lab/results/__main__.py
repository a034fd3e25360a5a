"""`python -m osml.lab.results [NAME...]`: makes figures again; `--check` says which pages are stale, `--render` writes.

It runs in the root of a checkout: `make results`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from osml.base.failure import Failure
from osml.lab.results import render
from osml.lab.results.commands import STEPS, documents
from osml.lab.results.figures import FIGURES, Figure


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def described(figure: Figure, document: Any) -> dict[str, Any]:
    """The file of a figure."""
    rows = [row._asdict() for row in figure.read(document)]
    command = " ; ".join(step.text for step in STEPS[figure.step]) if figure.step else "the shipped models"
    return {
        "name": figure.name, "title": figure.title, "unit": figure.unit, "note": figure.note,
        "kind": figure.kind, "source": figure.source,
        "mixes": figure.mixes(document) if figure.mixes else None, "command": command, "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpus": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()},
        "rows": rows,
    }  # fmt: skip


def _make(wanted: Sequence[Figure]) -> None:
    """Write the files of figures, each as soon as its command is done: a later command that fails costs none."""
    render.FOLDER.mkdir(parents=True, exist_ok=True)
    read = [("", None)] if any(figure.step is None for figure in wanted) else []
    for name, document in chain(read, documents({figure.step for figure in wanted if figure.step})):
        for figure in wanted:
            if (figure.step or "") == name:
                text = json.dumps(described(figure, document), indent=1)
                (render.FOLDER / f"{figure.name}.json").write_text(text + "\n", "utf-8")


def main() -> None:
    """Make the figures that are named, all by default, and the pages that show them."""
    parser = argparse.ArgumentParser(prog="osml.lab.results", description=__doc__)
    parser.add_argument("name", nargs="*", help="figures to make; default: all")
    parser.add_argument("--check", action="store_true", help="only say which pages are stale; exit code 1 then")
    parser.add_argument("--render", action="store_true", help="only write the pages from the files that are there")
    given = parser.parse_args()
    if given.check:
        found = render.stale()
        sys.exit("".join(f"{path} is stale: run `make results ARGS=--render`\n" for path in found).strip() or 0)
    if not given.render:
        known = {figure.name: figure for figure in FIGURES}
        unknown = [name for name in given.name if name not in known]
        if unknown:
            sys.exit(f"figure '{unknown[0]}' is unknown; known are {', '.join(known)}")
        wanted = [known[name] for name in given.name or known]
        try:
            _make(wanted)
        except Failure as failure:
            render.write()
            sys.exit(str(failure))
    render.write()


if __name__ == "__main__":
    main()
