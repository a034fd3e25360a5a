"""All variants of chosen constants, with a file of finished rows from which a run goes on."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from osml.base.failure import Failure
from osml.predictors.manifest import models_folder
from osml.simulator.calibration.sensitivity import variant
from osml.simulator.calibration.sensitivity.assumed import AS_IS, COMPILED, Constant
from osml.simulator.calibration.sensitivity.variant import Job, Row

FACTORS = (0.7, 1.3)


def sources_state() -> str:
    """What the rows of a file hold for: the package, its catalogs and the models as they are."""
    package = Path(__file__).parents[3]
    state = hashlib.sha256()
    for folder, pattern in ((package, "**/*.py"), (package, "simulator/catalog/*.*"), (models_folder(), "**/*.*")):
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                state.update(path.read_bytes())
    return state.hexdigest()[:16]


def known_rows(file: Path, state: str, *, facts_only: bool) -> dict[tuple[str, float], Row]:
    """Rows of an earlier run that still hold; a torn last line is none."""
    found: dict[tuple[str, float], Row] = {}
    with suppress(FileNotFoundError):
        for line in file.read_text("utf-8").splitlines():
            with suppress(msgspec.DecodeError):
                row = msgspec.json.decode(line, type=Row)
                if row.state == state and (facts_only or row.missed is not None):
                    found[row.constant, row.factor] = row
    return found


def _run(constant: Constant, factor: float, state: str, facts_only: bool, facts: tuple[str, ...]) -> Row:
    """One variant in a process of its own, with machine code of its own where a compiled constant changes."""
    job = Job(constant, factor, state, facts_only, facts)
    with tempfile.TemporaryDirectory(prefix="osml-sensitivity-") as folder:
        own = {"NUMBA_CACHE_DIR": folder} if constant.place in COMPILED else {}
        done = subprocess.run(
            [sys.executable, "-m", variant.__name__], input=msgspec.json.encode(job), capture_output=True, check=False,
            env=os.environ | own,
        )  # fmt: skip
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise Failure(f"{constant.id} times {factor:g}: {last[-1]}")
    return msgspec.json.decode(done.stdout, type=Row)


def sweep(
    chosen: list[Constant],
    file: Path,
    *,
    facts_only: bool,
    facts: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda line: None,
) -> dict[tuple[str, float], Row]:
    """All variants of these constants, and none: rows that the file has are not run again, new ones are added to it."""
    state = sources_state() + "".join(f" {part}" for part in facts)
    rows = known_rows(file, state, facts_only=facts_only)
    wanted = [(AS_IS, 1.0), *((constant, factor) for constant in chosen for factor in FACTORS)]
    file.parent.mkdir(parents=True, exist_ok=True)
    for number, (constant, factor) in enumerate(wanted, start=1):
        if (constant.id, factor) in rows:
            continue
        say(f"{number} of {len(wanted)}: {constant.id} times {factor:g}")
        row = _run(constant, factor, state, facts_only, facts)
        with file.open("ab") as out:
            out.write(msgspec.json.encode(row) + b"\n")
        rows[constant.id, factor] = row
    return rows
