"""What papers say of their policies, beside runs: the rules, the lines of each paper, and facts without a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.lab.bench.episode import Row
from osml.lab.bench.papers.document import SUITES, document, rows, runs_of
from osml.lab.bench.papers.line import between, near, order, points, times
from osml.lab.bench.published import published
from osml.lab.bench.report import entropies, equivalence
from osml.lab.bench.results import Results
from osml.lab.bench.run import Settings, run
from osml.lab.bench.suites import SUITES as ALL
from osml.lab.bench.suites import suite
from osml.lab.bench.suites.ahq_constant import part_of
from osml.lab.bench.workers import in_this_process
from osml.lab.commands.bench import app
from osml.simulator.calibration.measured.policy_facts import published_value as value
from osml.simulator.calibration.measured.policy_facts import shipped_policy_facts


def test_a_time_holds_within_a_factor_of_two() -> None:
    assert times("x", "", 10.0, 5.0).holds
    assert times("x", "", 10.0, 20.0).holds
    assert not times("x", "", 10.0, 20.1).holds
    assert not times("x", "", 10.0, 0.0).holds
    assert times("x", "", 10.0, None).holds is None
    never = times("x", "", 10.0, None, never=True)
    assert (never.holds, never.ours) == (False, "never")


def test_shares_counts_and_ranges_have_limits() -> None:
    assert points("x", "", 58.0, 48.1).holds
    assert not points("x", "", 58.0, 47.0).holds
    assert points("x", "", 58.0, math.nan).holds is None
    assert near("x", "", 34.0, 36.0, 2.0).holds
    assert not near("x", "", 34.0, 36.1, 2.0).holds
    assert between("x", "", (10.0, 30.0), 10.0).holds
    assert not between("x", "", (10.0, 30.0), 31.0).holds


def test_an_order_needs_both_names_of_a_pair() -> None:
    pairs = (("a", "b"), ("b", "c"))
    assert order("x", "", pairs, {"a": 3.0, "b": 2.0, "c": 1.0}).holds
    assert not order("x", "", pairs, {"a": 3.0, "b": 3.0, "c": 1.0}).holds
    assert order("x", "", pairs, {"a": 3.0, "b": 2.0}).holds
    assert order("x", "", pairs, {"a": 3.0}).holds is None


def _mixes() -> Iterator[Row]:
    """Ten mixes: `osml` has a result for nine, PARTIES for the five lightest, CLITE for the two lightest."""
    for case in range(10):
        for policy, seconds, most in (("osml", 10.0, 9), ("parties", 30.0, 5), ("clite", 80.0, 2)):
            done = case < most
            yield {
                "suite": "osml-302", "part": "mixes", "case": case, "mix": f"m{case}", "seed": 0, "policy": policy,
                "load": 0.5 + case / 10,
                "converged": done, "convergence_s": seconds + case if done else None, "cores_used": 34.0,
                "ways_used": 12.0, "feasible_oracle": True,
            }  # fmt: skip


def _found() -> dict[tuple[str, str], Any]:
    metadata = {"policies": ["osml", "parties", "clite"], "mixes": 302, "seeds": 1, "commit": "0" * 40}
    found = document({"osml-302": Results(list(_mixes()), [], metadata)})
    assert json.loads(json.dumps(found)) == found
    return {(line["fact"], line["of"]): line for line in found["lines"]}


def test_times_are_of_the_mixes_on_which_all_converge() -> None:
    found = _found()
    line = found["osml.conv.parties.mean", "parties, mean s, where all converge"]
    assert (line["published"], line["ours"], line["holds"]) == ("32.7", "30.5", True)
    assert found["osml.conv.clite.range", "clite, most s, where all converge"]["ours"] == "81"
    assert found["osml.resources.osml", "osml, ways where all converge"]["holds"] is False


def test_shares_are_of_all_mixes_and_of_those_as_easy_as_the_papers() -> None:
    found = _found()
    assert found["osml.converged.osml", "osml, all mixes"]["ours"] == "90 %"
    assert found["osml.converged.clite", "clite, all mixes"]["holds"] is False
    # The nine lightest all converge under osml; five and two of these under the others.
    assert found["osml.converged.parties", "parties, the 9 lightest runs"]["ours"] == "55.6 %"
    assert found["osml.emu.order", "largest sum of loads with a result"]["holds"]


def test_each_fact_is_compared_or_has_a_reason() -> None:
    facts = shipped_policy_facts().facts
    assert set(SUITES) <= set(ALL)
    left = {one["fact"]: one["reason"] for one in document({})["not_compared"]}
    assert set(left) == {fact.id for fact in facts}
    assert sum(reason == "not run" for reason in left.values()) == 36


def test_reports_and_facts_have_the_same_numbers() -> None:
    osml, parties, ahq = (published()[paper] for paper in ("osml", "parties", "ahq"))
    for policy in ("osml", "parties", "clite"):
        times_of = osml["convergence_s"][policy]
        assert times_of["mean"] == value(f"osml.conv.{policy}.mean")
        assert [times_of["min"], times_of["max"]] == value(f"osml.conv.{policy}.range")
        assert osml["converged"][policy] == value(f"osml.converged.{policy}")
        assert [*osml["resources"][policy].values()] == value(f"osml.resources.{policy}")
    for key in ("seconds", "actions"):
        assert osml["case_a"][key] == value(f"osml.case_a.{key}")
    assert osml["higher_load_cells_pct"] == value("osml.fig10.higher")
    assert osml["unseen_s"] == value("osml.unseen")
    assert parties["emu_gain_over_heracles_pct"] == {n: value(f"parties.emu.gain{n}") for n in (2, 6)}
    assert parties["convergence_s"]["max"] == value("parties.conv.range")["most"]
    assert parties["convergence_s"]["growth_2_to_6"] == value("parties.conv.growth")
    assert ahq["tail_reduction_pct"] == value("ahq.fig16b.tails")
    assert ahq["be_ipc_gain_pct"] == value("ahq.fig16b.ipc")
    assert {policy: ahq["violations"][policy] for policy in ("arq", "parties")} == value("ahq.fig17.violations")
    assert ahq["es_grid"] == value("ahq.fig11")
    assert ahq["cores_at_es_0.25"] == value("ahq.fig12a")


def _cuts(ways: int) -> Results:
    mix = "xapian=0.2,moses=0.2,img-dnn=0.2,be:fluidanimate"
    rows = [
        {"suite": "ahq-equivalence", "part": "figure-11", "case": cores, "mix": f"{mix}@{cores}c{ways}w", "seed": 0,
         "policy": "unmanaged", "e_s_ipc": 1.2 - cores / 10}
        for cores in range(4, 11)
    ]  # fmt: skip
    return Results(rows, [], {"policies": ["unmanaged"], "mixes": 49, "seeds": 1, "commit": "0" * 40})


@pytest.mark.parametrize("ways", [4, 20])
def test_figures_of_all_ways_are_compared_with_runs_of_all_ways(ways: int) -> None:
    found = document({"ahq-equivalence": _cuts(ways)})["lines"]
    of_all = [line for line in found if line["fact"] in ("ahq.table2", "ahq.fig12a")]
    assert of_all
    assert any(line["fact"] == "ahq.fig12a" for line in of_all) == (ways == 20)
    assert all((line["holds"] is not None) == (ways == 20) for line in of_all)
    [table] = equivalence.lines(_cuts(ways)).tables
    [[policy, _, paper, ratio]] = table.rows
    assert policy == "unmanaged"
    assert ((paper, ratio) == ("-", "-")) == (ways != 20)


def test_a_policy_that_never_answers_is_not_better_for_it() -> None:
    rows = [
        {"suite": "ahq-constant", "part": part_of(0.4), "case": case, "mix": f"xapian={case / 10}", "seed": 0,
         "policy": policy, "tail_over_target": tail, "be_speed": 0.5, "e_s_ipc": 0.1}
        for policy, tails in (("unmanaged", (2.0, 2.0, math.inf)), ("arq", (1.0, math.inf, 1.0)))
        for case, tail in enumerate(tails, start=1)
    ]  # fmt: skip
    results = Results(rows, [], {"policies": ["unmanaged", "arq"], "mixes": 3, "seeds": 1, "commit": "0" * 40})
    told = {line["of"]: line["ours"] for line in document({"ahq-constant": results})["lines"]}
    assert told["tails of arq below unmanaged (without 2 runs of no finite tail)"] == "50 %"
    section = entropies.gains(results, part_of(0.4))
    assert "2 runs of arq are left out: their tail, or that of unmanaged, is not finite." in section.text
    assert section.tables[0].rows[1][1] == "50.0"


def _run(name: str, out: Path, policies: tuple[str, ...], limit: int) -> None:
    settings = Settings(suite(name), policies, 1, out, limit=limit)
    run(settings, in_this_process, Console(quiet=True))


def test_real_runs_are_compared(tmp_path: Path) -> None:
    _run("osml-unseen", tmp_path / "unseen", ("osml", "parties"), 3)
    result = CliRunner().invoke(app, ["papers", str(tmp_path / "unseen"), "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["facts_compared"] == 1
    assert found["lines_compared"] == len(rows(found)) == 6
    assert found["runs"]["osml-unseen"]["mixes"] == 3
    assert "lines hold" in CliRunner().invoke(app, ["papers", str(tmp_path / "unseen")]).stdout


def test_folders_of_other_suites_are_refused(tmp_path: Path) -> None:
    _run("osml-jobs", tmp_path / "jobs", ("unmanaged",), 1)
    with pytest.raises(InputError, match="suite osml-jobs, expected one of osml-302"):
        runs_of([tmp_path / "jobs"])
    _run("osml-unseen", tmp_path / "unseen", ("unmanaged",), 1)
    with pytest.raises(InputError, match=r"has the part 'group-\d' of a suite"):
        runs_of([tmp_path / "unseen", tmp_path / "unseen"])


def test_parts_of_a_suite_may_be_in_folders_of_their_own(tmp_path: Path) -> None:
    for part in ("group-1", "group-2"):
        settings = Settings(suite("osml-unseen"), ("unmanaged",), 1, tmp_path / part, limit=1, part=part)
        run(settings, in_this_process, Console(quiet=True))
    found = runs_of([tmp_path / "group-1", tmp_path / "group-2"])["osml-unseen"]
    assert found.parts == ["group-1", "group-2"]
    assert document({"osml-unseen": found})["runs"]["osml-unseen"]["mixes"] == 2
    metadata = tmp_path / "group-2" / "metadata.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"code": "another"}))
    with pytest.raises(InputError, match="has code 'another', another folder of its suite has"):
        runs_of([tmp_path / "group-1", tmp_path / "group-2"])
