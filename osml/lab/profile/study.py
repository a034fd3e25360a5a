"""`python -m osml.lab.profile.study`: profiles the lab's services and some jobs, and checks the loops. Goes on.

Each program's document is kept in the work folder; a program that is there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from osml import __version__
from osml.base.failure import Failure, InputError
from osml.lab.profile.caches import of_platform
from osml.lab.profile.document import document
from osml.lab.profile.known import compiled, known_loops, miss_ratios
from osml.lab.profile.program import Work, run_program
from osml.lab.profile.server import Asked, run_server
from osml.lab.trials.children import Interrupted
from osml.lab.trials.live import machine
from osml.lab.trials.live.jobs.compiler import SOURCE
from osml.lab.trials.live.services import services
from osml.simulator import catalogs

PLATFORM, L2_KIB, SAMPLE, SEED = "e5-2697v4", 256, 8, 0
SETTINGS = {"platform": PLATFORM, "l2_kib": L2_KIB, "sample": SAMPLE, "seed": SEED}
_TEXT_WORDS = 600_000


def _xz(folder: Path) -> Work:
    """Once xz over a few MB of words."""
    text = folder / "text"
    draw = np.random.default_rng(SEED)
    known = [draw.bytes(int(draw.integers(3, 12))) for _ in range(5000)]
    text.write_bytes(b" ".join(known[int(i)] for i in draw.integers(len(known), size=_TEXT_WORDS)))
    return Work(["xz", "-6", "--threads=1", "--keep", "--stdout", str(text)])


def _triad(folder: Path) -> Work:
    """The STREAM-like loop of the lab, for a while. Loading numpy takes long under instrumentation."""
    del folder
    return Work([sys.executable, "-m", "osml.lab.trials.live.jobs.triad", "1"], warm_s=60.0, seconds=20.0)


def _compiler(folder: Path) -> Work:
    """The first minute of the compiler proper of g++: g++ itself only starts it."""
    source = folder / "words.cpp"
    source.write_text(SOURCE)
    found = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True)
    command = [found.stdout.strip(), "-quiet", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE", "-std=c++20", "-O2"]
    return Work([*command, str(source), "-o", "/dev/null"], seconds=60.0)


JOBS: dict[str, Callable[[Path], Work]] = {"xz": _xz, "triad": _triad, "compiler": _compiler}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def profiled(name: str) -> dict[str, Any]:
    """The document of a service of the lab or of a job of this study."""
    caches = of_platform(catalogs.platform(PLATFORM), L2_KIB, SAMPLE, SEED)
    if name in JOBS:
        with tempfile.TemporaryDirectory(prefix="osml-study-") as folder:
            work = JOBS[name](Path(folder))
            outcome = run_program(work, caches)
        return _whole(name, document(name, PLATFORM, caches, outcome, [Path(work.command[0]).name]))
    service = services()[name]
    machine.require_programs([service])
    machine.prepare(service)
    outcome = run_server(service, caches, Asked(seed=SEED), _say)
    return _whole(name, document(name, PLATFORM, caches, outcome, [service.program]))


def _whole(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """The document; Interrupted where Ctrl-C cut the run short, so that nothing of it is kept."""
    if not found["complete"]:
        raise Interrupted(f"stopped at {name}")
    return found


def checked_loops() -> list[dict[str, Any]]:
    """Each loop: the ratio that its formula gives, the measured one, and how far they are apart at most."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="osml-study-") as folder:
        program = compiled(Path(folder))
        for loop in known_loops():
            found = miss_ratios(loop.run(program))
            rows.append({
                "name": loop.name, "expected": list(loop.expected), "measured": [round(float(x), 5) for x in found],
                "largest": round(float(np.abs(found - np.array(loop.expected)).max()), 5),
            })  # fmt: skip
    return rows


def _keep(file: Path, document: dict[str, Any]) -> None:
    """Whole or not at all: the next run reads what is there."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(document) + "\n")
    partial.replace(file)


def _check_same_study(file: Path) -> None:
    """Raise InputError where the folder has documents of other settings or of another version."""
    now = SETTINGS | {"version": __version__}
    if not file.exists():
        if any(file.parent.glob("*.json")):
            raise InputError(f"--work {file.parent} has documents of unknown settings: choose another folder")
        _keep(file, now)
    elif (before := json.loads(file.read_text())) != now:
        raise InputError(f"--work {file.parent} has documents of {before}, expected {now}: choose another folder")


def main() -> None:
    """Measure what is missing, then write the file."""
    parser = argparse.ArgumentParser(prog="osml.lab.profile.study", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("out/profiles"), help="folder of the documents")
    parser.add_argument("--out", type=Path, default=Path("docs/results/profiles.json"), help="the file")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    _check_same_study(given.work / "settings.json")
    found: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for name in [*services(), *JOBS]:
        kept: Path = given.work / f"{name}.json"
        try:
            if not kept.exists():
                _keep(kept, profiled(name))
            found.append(json.loads(kept.read_text()))
        except Interrupted:
            raise
        except Failure as failure:
            _say(f"{name}: {failure}")
            failed.append({"name": name, "why": str(failure)})
    whole = {
        "simulated": "caches simulated, programs and loads real",
        "settings": {key: SETTINGS[key] for key in ("l2_kib", "sample", "seed")},
        "cpus": os.cpu_count(), "command": "python -m osml.lab.profile.study", "programs": found, "failed": failed,
        "loops": checked_loops(),
    }  # fmt: skip
    given.out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(str(failure))
