"""`make check`: everything that says within 90 seconds whether a change is sound. Exit code 1 where a part fails.

The type check takes one core, all other parts one after the other the second one. `--no-tests` leaves out the unit
tests. HYPOTHESIS_PROFILE=ci, as in `make test`, takes all examples of the property tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Part(NamedTuple):
    """One check: what it is called in the report, and its command."""

    name: str
    command: tuple[str, ...]


class Done(NamedTuple):
    """How a part went: its seconds, whether all is well, and what it printed."""

    part: Part
    seconds: float
    well: bool
    output: str


def _tracked(*patterns: str) -> tuple[str, ...]:
    found = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(found.stdout.split())


def lanes(*, tests: bool) -> tuple[tuple[Part, ...], ...]:
    """What runs side by side; within a lane one after the other. `tests`: with the unit tests."""
    types = (Part("types", ("basedpyright",)),)
    rest = (
        Part("lint", ("ruff", "check", ".")),
        Part("format", ("ruff", "format", "--check", ".")),
        Part("format C++", ("clang-format", "--dry-run", "--Werror", *_tracked("actuator/*.h", "actuator/*.cpp"))),
        Part("imports", ("lint-imports",)),
        Part("imports C++", (sys.executable, "scripts/check_cpp_layers.py")),
        Part("folders", (sys.executable, "scripts/check_folders.py")),
        Part("chart", (sys.executable, "scripts/chart_schema.py", "--check")),
        Part("pages", (sys.executable, "docs/generate_reference.py", "--check")),
        Part("figures", (sys.executable, "-m", "osml.lab.results", "--check")),
    )
    if not tests:
        return types, rest
    pytest = ("pytest", "-q", "-m", "unit and not slow", "-n", "2", "--dist", "loadfile", *unit_files())
    return types, (*rest, Part("unit tests", pytest))


def unit_files() -> tuple[str, ...]:
    """Test files of the kind `unit`: the others are not even imported, for numba takes seconds."""
    sys.path.insert(0, str(ROOT))
    from tests.conftest import kind_of  # noqa: PLC0415

    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(str(file.relative_to(ROOT)) for file in files if kind_of(file) == "unit")


def run(part: Part) -> Done:
    """Run a part to its end."""
    began = time.monotonic()
    environment = {"HYPOTHESIS_PROFILE": "quick"} | os.environ
    done = subprocess.run(part.command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return Done(part, time.monotonic() - began, done.returncode == 0, done.stdout + done.stderr)


def run_lane(lane: tuple[Part, ...]) -> list[Done]:
    """Run the parts of a lane; a part that fails does not stop the next."""
    found: list[Done] = []
    for part in lane:
        found.append(run(part))
        print(f"{'ok  ' if found[-1].well else 'FAIL'} {part.name:<12} {found[-1].seconds:5.1f} s", flush=True)
    return found


def main() -> int:
    """Run all lanes, and print what failed."""
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        done = [one for lane in pool.map(run_lane, lanes(tests="--no-tests" not in sys.argv[1:])) for one in lane]
    failed = [one for one in done if not one.well]
    for one in failed:
        print(f"\n--- {one.part.name}: {' '.join(one.part.command)[:200]}\n{one.output}")
    print(f"check: {len(failed)} of {len(done)} parts failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
