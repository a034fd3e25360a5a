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
from datetime import UTC, datetime
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
            made = documents({figure.step for figure in wanted if figure.step})
        except Failure as failure:
            sys.exit(str(failure))
        render.FOLDER.mkdir(parents=True, exist_ok=True)
        for figure in wanted:
            text = json.dumps(described(figure, made.get(figure.step or "")), indent=1)
            (render.FOLDER / f"{figure.name}.json").write_text(text + "\n", "utf-8")
    render.write()


if __name__ == "__main__":
    main()
