"""The page of the papers' policy results beside ours: docs/reference/published-policies.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osml.lab.bench.papers.document import SUITES, rows

NAME = "published-policies"
PAGE = Path("docs/reference/published-policies.md")

_INTRO = """# Published results of policies

For researchers: each number or order that a paper prints of its policies, beside ours.
Each of ours comes from a run of the same experiment and is simulated. The papers measured on their machines.
A time is the mean of the runs that converge.
These runs differ by policy, unless a line says that all converge.
[Why some lines do not hold](../notes/2026-11-26-published-policies.md).
`docs/results/published-policies.json` has the data of this page.

"""

_HOW = """## How to repeat it

<!-- not run: hours; tests/lab/test_bench_papers.py runs it with three mixes -->
```sh
osml lab bench run SUITE --policies A,B,C --seeds 1 --out out/papers/SUITE   # osml-302: --part mixes, then figure-10
osml lab bench papers out/papers/*                 # the table
osml lab bench papers out/papers/* --json > docs/results/published-policies.json
make results ARGS=--render                         # this page
```

`osml lab bench papers` takes folders of these suites: {suites}.
Parts of a suite may be in folders of their own. The last table has the policies.
The facts are in `osml/simulator/catalog/policy_facts.yaml`.

"""


def page(document: dict[str, Any]) -> str:
    """The page."""
    parts = [_INTRO, _summary(document)]
    lines = rows(document)
    for paper in dict.fromkeys(source.split(" ")[0] for source, *_ in lines):
        parts.append(f"## {paper}\n\n| source | what | published | ours | rule | holds |\n|---|---|---|---|---|---|\n")
        parts += [f"| {' | '.join(line)} |\n" for line in lines if line[0].startswith(paper)]
        parts.append("\n")
    parts.append(_left(document))
    parts.append(_HOW.format(suites=", ".join(f"`{name}`" for name in SUITES)))
    parts.append(_runs(document))
    return "".join(parts)


def _summary(document: dict[str, Any]) -> str:
    return (
        f"- Facts: {document['facts']}. Facts with a line: {document['facts_compared']}.\n"
        f"- Lines: {document['lines_compared']}. Lines that hold: {document['lines_held']}.\n\n"
    )


def _left(document: dict[str, Any]) -> str:
    """Facts without a line, by reason."""
    by_reason: dict[str, list[str]] = {}
    for one in document["not_compared"]:
        by_reason.setdefault(one["reason"], []).append(f"`{one['fact']}`")
    lines = [f"| {reason} | {', '.join(facts)} |\n" for reason, facts in by_reason.items()]
    return "".join(["## Not compared\n\n| reason | facts |\n|---|---|\n", *lines, "\n"])


def _runs(document: dict[str, Any]) -> str:
    """What was run of each suite."""
    lines = [
        f"| `{suite}` | {run['mixes']} | {run['seeds']} | {', '.join(run['policies'])} | {run['commit'][:8]} |\n"
        for suite, run in document["runs"].items()
    ]
    head = "## What was run\n\n| suite | mixes | seeds | policies | commit |\n|---|---|---|---|---|\n"
    return "".join([head, *lines])
