"""The commands whose output the figures are read from. Each runs once, whatever reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow.parquet

from osml.base.failure import Failure
from osml.lab.bench.suites.osml_changes import ALONE, BESIDE, FRESH_PARTS, MACHINES

WORK = Path("out/results")
"""What the commands write; made anew in each run."""


class Step(NamedTuple):
    """Arguments of `osml`, and the file that holds the document, JSON or Parquet (None: JSON on standard output)."""

    arguments: tuple[str, ...]
    document: Path | None = None
    module: str = "osml"

    @property
    def text(self) -> str:
        """The command as a person would type it."""
        name = "osml" if self.module == "osml" else f"python -m {self.module}"
        return " ".join((name, *self.arguments))


_FARM = ("lab", "dispatch", "solve", "--servers", "2", "--mu-high", "50", "--mu-low", "1", "--json")
_CHANGES = "unmanaged,staffing,staffing:climb,parties,arq,osml:formula,osml"
_MIXES = ("unmanaged", "even", "staffing:climb", "parties", "clite", "arq", "osml:formula", "osml", "oracle")

STEPS: dict[str, tuple[Step, ...]] = {
    "facts": (Step(("lab", "simulator", "validate", "--json")),),
    "crosscheck": (Step(("lab", "simulator", "crosscheck", "--json")),),
    "mixes": (
        Step((
            "lab", "bench", "run", "osml-302", "--part", "fresh", "--policies", ",".join(_MIXES),
            "--seeds", "1",
            "--workers", "2", "--out", str(WORK / "osml-302"), "--json",
        ), WORK / "osml-302" / "results.parquet"),
    ),
    "changes": tuple(
        Step((
            "lab", "bench", "run", "osml-changes", "--part", part, "--policies", _CHANGES, "--seeds", "1",
            "--workers", "2", "--out", str(WORK / part), "--json",
        ), WORK / part / "results.parquet")
        for part in (FRESH_PARTS + ALONE, FRESH_PARTS + BESIDE, FRESH_PARTS + MACHINES)
    ),
    "fluctuating": (
        Step((
            "lab", "bench", "run", "ahq-fluctuating", "--policies", "lc_first,parties,arq,osml", "--seeds", "3",
            "--workers", "2", "--out", str(WORK / "ahq-fluctuating"), "--json",
        )),
        Step(("lab", "bench", "report", str(WORK / "ahq-fluctuating"), "--json")),
    ),
    "equivalence": (Step(("lab", "theory", "equivalence", "--seeds", "3", "--workers", "2", "--json")),),
    "ombm": (Step(("lab", "ombm", "accuracy", "--json")),),
    "assurance": (Step(("lab", "ombm", "assurance", "--json")),),
    "dispatch": (Step((*_FARM, "--arrival", "5", "--alpha-high", "0.3", "--alpha-low", "0.3")),),
    "dispatch-often": (Step((*_FARM, "--arrival", "10", "--alpha-high", "4.754679577", "--alpha-low", "4.754679577")),),
    "decision": (Step(("osml_decision",), Path("out/bench/osml_decision_cpu_median.json"), "osml.lab.benchmarks"),),
    "demo": (Step(("run", "demo", "--json", "--out", str(WORK / "demo"))),),
}  # fmt: skip


def documents(names: set[str]) -> Generator[tuple[str, Any]]:
    """Name and document of these steps, each as soon as it is there. Failure where a command fails.

    The rows of several tables are one; else the last document counts.
    """
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in sorted(names):
        made: list[Any] = []
        for step in STEPS[name]:
            print(f"{name}: {step.text}", file=sys.stderr, flush=True)
            made.append(_run(step))
        tables = [cast(list[Any], one) for one in made if isinstance(one, list)]
        yield name, list(chain.from_iterable(tables)) if tables else made[-1]


def _run(step: Step) -> Any:
    done = subprocess.run([sys.executable, "-m", step.module, *step.arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Failure(f"'{step.text}' ended with exit code {done.returncode}")
    if step.document is None:
        return json.loads(done.stdout)
    if step.document.suffix == ".parquet":
        return cast(Any, pyarrow.parquet).read_table(step.document).to_pylist()
    return json.loads(step.document.read_bytes())
