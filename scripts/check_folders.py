"""No folder has more than 20 modules: a reader should see at a glance what is in it. Exit code 1 where one has.

A C++ header and its source are one module.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

MOST = 20
ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("*.py", "actuator/src/*.h", "actuator/src/*.cpp")


def modules() -> dict[Path, set[str]]:
    """The modules of each folder."""
    found: dict[Path, set[str]] = defaultdict(set)
    listed = subprocess.run(["git", "ls-files", *PATTERNS], cwd=ROOT, capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        path = Path(line)
        if path.name not in ("__init__.py", "conftest.py"):
            found[path.parent].add(path.stem)
    return found


def main() -> int:
    """Say which folders have too many modules."""
    crowded = {folder: names for folder, names in modules().items() if len(names) > MOST}
    for folder, names in sorted(crowded.items()):
        print(f"{folder}: {len(names)} modules, expected at most {MOST}: divide it by what its modules are about")
    return 1 if crowded else 0


if __name__ == "__main__":
    sys.exit(main())
