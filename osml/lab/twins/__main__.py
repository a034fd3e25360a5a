"""`python -m osml.lab.twins`: how good twins are, on hidden nodes; simulated. Writes docs/results/twin.json.

Seeds from 0 on are for development (`--development`), those of the kept figures begin at `study.FINAL`. Each finished
node and case is kept in the file of `--rows`; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any

from osml.base.failure import Failure, InputError
from osml.base.worker_processes import worker_pool
from osml.lab.bench.store import code_fingerprint
from osml.lab.kept_runs import KeptRuns
from osml.lab.twins.page import page
from osml.lab.twins.study import FINAL, blame, document, node

OUT = Path("docs/results/twin.json")
PARTS: dict[str, Callable[[str, int], Any]] = {"node": node, "case": blame}


def _command(arguments: list[str]) -> str:
    """The command, without where its files went."""
    parts = iter(arguments)
    kept: list[str] = []
    for part in parts:
        if part in ("--rows", "--out", "--page", "--workers"):
            next(parts, None)
        else:
            kept.append(part)
    return " ".join(["python -m osml.lab.twins", *kept])


def _measure(pool: Executor, runs: KeptRuns, condition: str, wanted: list[tuple[str, int]]) -> None:
    """Run what is not in the file yet; each result is kept as soon as it is there."""
    asked = {
        pool.submit(PARTS[part], condition, seed): (part, seed)
        for part, seed in wanted
        if (part, seed) not in runs.found
    }
    for future in as_completed(asked):
        runs.add(asked[future], {"date": time.strftime("%Y-%m-%d"), "result": future.result()})


def _last_day(found: Mapping[Hashable, Any], keys: Sequence[Hashable]) -> str:
    return max(found[key]["date"] for key in keys)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(prog="python -m osml.lab.twins", description=__doc__)
    parser.add_argument("--nodes", type=int, default=24, help="hidden nodes of parts (a) and (b)")
    parser.add_argument("--cases", type=int, default=112, help="injected cases of part (c)")
    parser.add_argument("--condition", default="real", help="condition of the suite osml-mismatch")
    parser.add_argument("--development", action="store_true", help="seeds that were looked at; needs --out")
    parser.add_argument("--first", type=int, default=0, help="added to the first seed")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--out", type=Path, default=OUT, help="file of the figures")
    parser.add_argument("--page", type=Path, help="page to make from the file of the figures")
    parser.add_argument("--rows", type=Path, default=Path("out/twins/rows.jsonl"), help="file of all single results")
    given = parser.parse_args()
    if given.nodes < 1 or given.cases < 1:
        raise InputError("--nodes and --cases are at least 1")
    if given.development and given.out == OUT:
        raise InputError(f"--development needs --out: {OUT} holds figures of seeds that nobody looked at")
    first = given.first + (0 if given.development else FINAL)
    nodes = [("node", seed) for seed in range(first, first + given.nodes)]
    cases = [("case", seed) for seed in range(first, first + given.cases)]
    settings = {"condition": given.condition, "code": code_fingerprint()}
    with KeptRuns(given.rows, settings) as runs, worker_pool(given.workers) as pool:
        _measure(pool, runs, given.condition, [*nodes, *cases])
        found = dict(runs.found)
    figures = document(
        [found[key]["result"] for key in nodes],
        [found[key]["result"] for key in cases],
        given.condition,
        _command(sys.argv[1:]),
        dates=(_last_day(found, nodes), _last_day(found, cases)),
        development=given.development,
    )
    given.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    if given.page:
        given.page.write_text(page(figures), "utf-8")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(str(failure))
