"""All facts of the papers' policies beside ours: as a document, and as lines of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from osml.base.failure import InputError
from osml.lab.bench.papers import ahq, osml, parties
from osml.lab.bench.papers.line import Line, RunsOf
from osml.lab.bench.results import Results
from osml.lab.bench.store import Store
from osml.simulator.calibration.measured.policy_facts import shipped_policy_facts

SUITES = (
    *("osml-302", "case-a", "osml-unseen", "osml-launched"),
    *("parties-emu", "ahq-equivalence", "ahq-constant", "ahq-fluctuating"),
)
"""Suites whose runs are compared."""


def runs_of(folders: Sequence[Path]) -> dict[str, Results]:
    """Results by suite; InputError for a folder without results, of another suite, or of a run that came before.

    Parts of a suite may be in folders of their own.
    """
    found: dict[str, Results] = {}
    for folder in folders:
        store = Store(folder)
        metadata = store.metadata()
        suite = str(metadata["suite"])
        if suite not in SUITES:
            raise InputError(f"{folder} has results of the suite {suite}, expected one of {', '.join(SUITES)}")
        results = Results(store.results(), store.timelines(), metadata)
        if not results.rows:
            raise InputError(f"{folder} has no finished results; go on with `osml lab bench run {suite} --resume`")
        known = found.get(suite)
        found[suite] = results if known is None else _joined(known, results, folder)
    return found


def _joined(known: Results, more: Results, folder: Path) -> Results:
    """Results of two folders of one suite. The metadata are those of the first.

    Raises InputError where they were made by other code, models, profiles or levers: their rows can't be compared.
    """
    for key in ("code", "models", "profiles", "levers"):
        if known.metadata.get(key) != more.metadata.get(key):
            raise InputError(
                f"{folder} has {key} '{more.metadata.get(key)}', another folder of its suite has "
                f"'{known.metadata.get(key)}': run one of them again"
            )
    same = set(known.parts).intersection(more.parts)
    if same:
        raise InputError(f"{folder} has the part '{sorted(same)[0]}' of a suite, as another folder has; give it once")
    return Results([*known.rows, *more.rows], [*known.timelines, *more.timelines], known.metadata)


def document(runs: RunsOf) -> dict[str, Any]:
    """`lines`, facts that are `not_compared` with the reason, and what was run of each suite."""
    lines = [*chain(osml.lines(runs), parties.lines(runs), ahq.lines(runs))]
    facts = shipped_policy_facts().facts
    shown = {line.fact for line in lines if line.holds is not None}
    left = [{"fact": fact.id, "reason": fact.not_compared or "not run"} for fact in facts if fact.id not in shown]
    held = [line for line in lines if line.holds is not None]
    return {
        "simulated": True,
        "facts": len(facts),
        "facts_compared": len(shown),
        "lines_compared": len(held),
        "lines_held": sum(bool(line.holds) for line in held),
        "lines": [line._asdict() for line in lines],
        "not_compared": left,
        "runs": {suite: _what(results) for suite, results in runs.items()},
    }


def _what(results: Results) -> dict[str, Any]:
    said = results.metadata
    cases = len({(row["part"], row["mix"]) for row in results.rows})
    return {"mixes": cases, "seeds": said["seeds"], "policies": results.policies, "commit": said["commit"]}


def rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Source, what, published, ours, rule and verdict of each line that says something."""
    sources = {fact.id: fact.source for fact in shipped_policy_facts().facts}
    lines = [Line(**line) for line in found["lines"]]
    return [
        (sources[line.fact], line.of, line.published, line.ours, line.rule, "yes" if line.holds else "no")
        for line in lines
        if line.holds is not None
    ]
