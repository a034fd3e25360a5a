"""`python -m osml.lab.twins`: how good twins are, on hidden nodes; simulated. Writes docs/results/twin.json.

Seeds from 0 on are for development (`--development`), those of the kept figures begin at `study.FINAL`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from osml.lab.twins.page import page
from osml.lab.twins.study import FINAL, blame, document, node


def _command(arguments: list[str]) -> str:
    """The command, without where its files went."""
    parts = iter(arguments)
    kept: list[str] = []
    for part in parts:
        if part == "--resume":
            continue
        if part in ("--rows", "--out", "--page", "--workers"):
            next(parts, None)
        else:
            kept.append(part)
    return " ".join(["python -m osml.lab.twins", *kept])


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(prog="python -m osml.lab.twins", description=__doc__)
    parser.add_argument("--nodes", type=int, default=24, help="hidden nodes of parts (a) and (b)")
    parser.add_argument("--cases", type=int, default=112, help="injected cases of part (c)")
    parser.add_argument("--condition", default="real", help="condition of the suite osml-mismatch")
    parser.add_argument("--development", action="store_true", help="seeds that were looked at")
    parser.add_argument("--first", type=int, default=0, help="added to the first seed")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--out", type=Path, default=Path("docs/results/twin.json"), help="file of the figures")
    parser.add_argument("--page", type=Path, help="page to make from the file of the figures")
    parser.add_argument("--rows", type=Path, help="file for all single results")
    parser.add_argument("--resume", action="store_true", help="take what the file of --rows has already")
    given = parser.parse_args()
    first = given.first + (0 if given.development else FINAL)
    old: dict[str, list[Any]] = {"nodes": [], "cases": []}
    if given.resume and given.rows is not None and given.rows.exists():
        old = json.loads(given.rows.read_text("utf-8"))
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        here = range(first + len(old["nodes"]), first + given.nodes)
        nodes = [*old["nodes"][: given.nodes], *pool.map(partial(node, given.condition), here)]
        here = range(first + len(old["cases"]), first + given.cases)
        cases = [*old["cases"][: given.cases], *pool.map(partial(blame, given.condition), here)]
    found = document(nodes, cases, given.condition, _command(sys.argv[1:]))
    given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if given.page:
        given.page.write_text(page(found), "utf-8")
    if given.rows:
        given.rows.write_text(json.dumps({"nodes": nodes, "cases": cases}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
