"""The parts of the study: hidden nodes and cases one by one, and the document of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from osml.lab.twins import score_blame, score_check, score_whatif
from osml.lab.twins.hidden import hidden, record_of
from osml.twin.check import PREDICTORS, score
from osml.twin.make import made

FINAL = 5000
SECONDS, FITTED = 1800, 1200
MEMBERS, BLAME_MEMBERS = 48, 48
POLICIES = (None, "parties", None, "osml:formula")
"""Under which a record is made, in turn; None: the agent only watches."""

Node = dict[str, Any]


def node(condition: str, seed: int) -> Node:
    """Parts (a) and (b) on one hidden node."""
    policy = POLICIES[seed % len(POLICIES)]
    one = hidden(condition, seed, beside_job=seed % 3 > 0, seconds=SECONDS)
    record = record_of(one, SECONDS, policy)
    twin = made(record.part(0, FITTED), seed=seed, members=MEMBERS)
    errors = score_check.errors_of(twin, record.part(FITTED, SECONDS))
    rows = score_whatif.rows_of(one, record, twin, seed)
    return {"seed": seed, "policy": policy or "watched", "errors": errors, "whatif": rows}


def blame(condition: str, seed: int) -> Node | None:
    """Part (c): one case."""
    return score_blame.case(condition, seed, BLAME_MEMBERS)


def _grouped(rows: Sequence[Node], key: str, summary: Any) -> dict[str, Any]:
    return {str(value): summary([row for row in rows if row[key] == value]) for value in sorted({r[key] for r in rows})}


def document(
    nodes: Sequence[Node],
    cases: Sequence[Node | None],
    condition: str,
    command: str,
    dates: tuple[str, str],
    development: bool,
) -> dict[str, Any]:
    """All figures of a run. `dates` are the last days on which nodes and cases were measured."""
    rows = [row for one in nodes for row in one["whatif"]]
    services = [row for row in rows if row["class"] == "lc"]
    found = [one for one in cases if one is not None]
    return {
        "name": "twin", "kind": "simulated", "command": command, "date": dates[0],
        "blame_date": dates[1], "development": development, "condition": condition, "nodes": len(nodes),
        "check": {
            name: {"knows": text} | score([row for one in nodes for row in one["errors"][name]])
            for name, text in PREDICTORS.items()
        },
        "check_by_record": {
            kind: {
                name: score([row for one in nodes if one["policy"] == kind for row in one["errors"][name]])
                for name in PREDICTORS
            }
            for kind in sorted({one["policy"] for one in nodes})
        },
        "whatif": {
            "services": score_whatif.summary(services),
            "jobs": score_whatif.summary([row for row in rows if row["class"] == "be"]),
            "by_experiment": _grouped(services, "experiment", score_whatif.summary),
        },
        "blame": score_blame.summary(found) | {"not_found": len(cases) - len(found)},
        "cases": found,
    }  # fmt: skip
