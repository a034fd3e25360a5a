"""Hours of nodes that differ from the catalog: with and without Model-C', and with one that learns on the node.

Simulated. Each finished run of a node under a contender is kept in FILE; the command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import as_completed
from itertools import islice
from pathlib import Path

from osml.base.worker_processes import worker_pool
from osml.lab.bench.episode import Row
from osml.lab.bench.store import code_fingerprint, models_fingerprint
from osml.lab.kept_runs import KeptRuns
from osml.lab.studies.day.nodes import feasible_nodes
from osml.lab.studies.day.report import draw, table, whole_runs
from osml.lab.studies.day.run import CONTENDERS, WITHOUT, whole_run
from osml.simulator.variation.draw import Variant


def _key(variant: Variant, contender: str, noise: int) -> tuple[int, int, str]:
    return (variant.seed, noise, contender)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(prog="python -m osml.lab.studies.day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10, help="number of nodes (default 10)")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each node with other noise (default 1)")
    parser.add_argument("--hours", type=int, default=24, help="simulated hours of a run (default 24)")
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), help="policies")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default 2)")
    parser.add_argument("--out", type=Path, default=Path("out/day/rows.jsonl"), metavar="FILE", help="finished runs")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="picture by hour (PNG)")
    told = parser.parse_args(arguments)
    variants = list(islice(feasible_nodes(), told.nodes))
    wanted = [
        (variant, contender, noise, told.hours)
        for noise in range(told.seeds)
        for variant in variants
        for contender in told.contenders
    ]
    with (
        KeptRuns(told.out, {"hours": told.hours, "code": code_fingerprint(), "models": models_fingerprint()}) as runs,
        worker_pool(told.workers) as pool,
    ):
        missing = {pool.submit(whole_run, *task): key for task in wanted if (key := _key(*task[:3])) not in runs.found}
        for future in as_completed(missing):
            runs.add(missing[future], future.result())
        rows: list[Row] = [row for run in runs.found.values() for row in run]
    asked = {(variant.seed, noise) for variant in variants for noise in range(told.seeds)}
    rows = [row for row in rows if (row["seed"], row["noise"]) in asked]
    chosen = whole_runs(rows, [*dict.fromkeys((*told.contenders, WITHOUT))])
    if not chosen:
        print(f"no node has runs of all contenders and of {WITHOUT}: run {WITHOUT}, too")
        return
    print(table(chosen, told.hours))
    if told.picture is not None:
        draw(chosen, told.picture)


if __name__ == "__main__":
    main()
