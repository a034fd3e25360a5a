"""Puts a report together: `report.md`, `report.html`, `summary.json` and the pictures, in the results folder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from osml.base.failure import Failure, InputError
from osml.lab.bench.contenders import levers_text
from osml.lab.bench.published import published
from osml.lab.bench.report.document import Section, markdown, page
from osml.lab.bench.report.statistics import Estimate
from osml.lab.bench.report.tables import METRICS, differences, estimate, faults, faulty, overview
from osml.lab.bench.results import Results
from osml.lab.bench.store import Store
from osml.lab.bench.suites import suite as suite_of


def build(folder: Path) -> dict[str, Any]:
    """Write the report of a results folder; returns the summary. InputError where the folder holds no results,
    Failure where it can't be written.
    """
    store = Store(folder)
    metadata = store.metadata()
    results = Results(store.results(), store.timelines(), metadata)
    if not results.rows:
        raise InputError(f"{folder} has no results; create them with `osml lab bench run`")
    suite = suite_of(str(metadata["suite"]))
    title = f"{suite.name}: {suite.title} (simulated)"
    wrong = faults(results)
    sections = [_about(results, suite.source), *suite.sections(results), overview(results), differences(results)]
    if wrong is not None:
        sections.append(wrong)
    summary = _summary(results)
    try:
        for section in sections:
            for picture in section.pictures:
                picture.draw(folder / picture.name)
        (folder / "report.md").write_text(markdown(title, sections), "utf-8")
        (folder / "report.html").write_text(page(title, sections), "utf-8")
        (folder / "summary.json").write_text(json.dumps(summary, indent=2), "utf-8")
    except OSError as error:
        raise Failure(f"{folder}: the report can't be written ({error.strerror or error})") from None
    return summary


def _about(results: Results, source: str) -> Section:
    said = results.metadata
    cases = len({row["case"] for row in results.rows})
    text = [
        f"Source: {source}. Everything here is simulated on the virtual node; the papers' numbers were measured on "
        "real hardware.",
        f"{cases} of {said['mixes']} mixes, policies {', '.join(results.policies)}, {said['seeds']} seeds, version "
        f"{said['version']}, commit {said['commit'] or 'unknown'}, {said.get('wall_s', 0.0):.0f} s on "
        f"{said['machine']['cpus']} CPUs.",
    ]
    levers = levers_text(said["levers"], results.policies)
    text.append(
        f"Besides cores, ways and MBA policies set {levers}."
        if levers
        else "Policies set cores, ways and MBA (where the platform has it), as the agent does."
    )
    failures: dict[str, str] = said.get("failures") or {}
    if failures:
        first = "; ".join(list(failures)[:5])
        text.append(f"Mixes that failed, so that rows of a policy are missing: {len(failures)}, first {first}.")
    return Section("About", text)


def _summary(results: Results) -> dict[str, Any]:
    """Per policy and part: medians and means with intervals; besides of feasible and infeasible mixes apart."""
    suite = str(results.metadata["suite"])
    groups = {"feasible": True, "infeasible": False}
    apart = {
        name: Results([row for row in results.rows if row["feasible_oracle"] is said], [], results.metadata)
        for name, said in groups.items()
    }
    return {
        "suite": suite,
        "simulated": True,
        "policies": _by_policy(results),
        "by_feasibility": {name: _by_policy(group) for name, group in apart.items() if group.rows},
        "mixes": {name: results.mixes(said) for name, said in (*groups.items(), ("undecided", None))},
        "published": published().get(suite_of(suite).paper, {}),
        "faulty": faulty(results),
        "metadata": results.metadata,
    }


def _by_policy(results: Results) -> dict[str, Any]:
    return {
        policy: {
            part: {
                metric.column: _json(estimate(results.of(part, policy), metric)) | {"average": metric.average}
                for metric in METRICS
            }
            for part in results.parts
        }
        for policy in results.policies
    }


def _json(found: Estimate) -> dict[str, Any]:
    def plain(value: float) -> float | None:
        return None if math.isnan(value) else value

    return {"value": plain(found.value), "low": plain(found.low), "high": plain(found.high), "n": found.n}
