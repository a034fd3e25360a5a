"""`osml look report`: a record of the agent on one page, and what it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.cli.main import application
from osml.cli.record_day import summarise
from osml.cli.record_report import _ms
from osml.domain import (
    DRY_RUN,
    Decision,
    Latency,
    Observation,
    Outcome,
    Partition,
    Platform,
    Reason,
    Region,
    Service,
)
from osml.records import Line, read

Status = Literal["applied", "unchanged", "refused", "rolled_back", "failed", "dry_run"]
PLATFORM = Platform(id="xeon", cores=8, cpus="0-7", ways=10)


def line(seq: int, p99_ms: float | None, cores: int, dry: bool = True, answered: bool = True) -> bytes:
    return msgspec.json.encode(told(seq, p99_ms, cores, dry, answered)) + b"\n"


def told(seq: int, p99_ms: float | None, cores: int, dry: bool = True, answered: bool = True) -> Line:
    latency = None if p99_ms is None else Latency(p99_ms=p99_ms, samples=100)
    services = [Service("web", "lc", target_ms=10.0, latency=latency), Service("job", "be")]
    missing = {"mba": "no MBA"} | ({DRY_RUN: "nothing is applied"} if dry else {})
    seen = Observation("n1", seq, 10.0 * seq, 1.0, PLATFORM, services, missing=missing)
    partition = Partition([Region(["web"], cores, 4), Region(["job"], 8 - cores, 6)])
    decision = Decision("n1", seq, "osml", partition, [], reasons=[Reason("because")]) if answered else None
    return Line(seen, decision)


def after(status: Status, line: Line) -> bytes:
    """The line, with what became of the decision before it."""
    seen = msgspec.structs.replace(line.observation, outcome=Outcome(line.observation.seq - 1, status))
    return msgspec.json.encode(msgspec.structs.replace(line, observation=seen)) + b"\n"


def page(file: Path) -> str:
    found = CliRunner().invoke(application(), ["look", "report", str(file)], env={"COLUMNS": "160"})
    assert found.exit_code == 0, found.output
    return found.stdout


def record(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def test_a_day_is_summed_up(tmp_path: Path) -> None:
    lines = (line(1, 5.0, 2), line(2, 12.0, 2), line(3, 20.0, 3), line(4, None, 3), line(5, 4.0, 2, answered=False))
    day = summarise(read(record(tmp_path / "r", *lines)), tmp_path / "r")
    assert (day.intervals, day.decisions, day.changes, day.dry_run) == (5, 4, 2, True)
    web = day.services[0]
    assert (web.measured, web.missed, web.worst_ms) == (4, 2, 20.0)
    assert web.cells == [(2.0, 4, 0.5), (3.0, 4, 0.5)]
    assert (day.free_cpus, day.free_cpus_least, day.free_ways) == (5.5, 5.0, 6)
    assert any("nothing was applied" in text for text in day.not_known)
    assert "mba: no MBA" in day.not_known
    assert "decisions of 1 intervals: the server did not answer" in day.not_known


def test_what_the_agent_refused_was_not_given(tmp_path: Path) -> None:
    refused = [line(1, 5.0, 4, dry=False), *(after("refused", told(n, 5.0, 4, dry=False)) for n in (2, 3, 4))]
    refused.append(after("rolled_back", told(5, 5.0, 4, dry=False, answered=False)))
    file = record(tmp_path / "r", *refused)
    day = summarise(read(file), file)
    assert (day.decisions, day.changes, day.free_cpus, day.services[0].cells) == (0, 0, None, [])
    assert day.not_applied == {"refused": 3, "rolled_back": 1}
    assert "decisions of 1 intervals: the server did not answer" in day.not_known
    said = page(file)
    assert "none of the decisions was applied" in said
    assert "osml: 0 decisions" in said
    assert "4 more decisions were not applied: 3 refused, 1 rolled back" in said
    assert "nothing, without an applied decision" in said
    assert "free for jobs" not in said


def test_what_the_agent_refused_for_a_while_does_not_count_as_given(tmp_path: Path) -> None:
    lines = (
        line(1, 5.0, 2, dry=False),
        after("applied", told(2, 5.0, 4, dry=False)),
        after("refused", told(3, 5.0, 2, dry=False)),
    )
    file = record(tmp_path / "r", *lines)
    day = summarise(read(file), file)
    assert (day.decisions, day.changes, day.free_cpus) == (2, 1, 6.0)
    assert (day.services[0].cells, day.not_applied) == ([(2.0, 4, 1.0)], {"refused": 1})
    assert "some of the decisions were applied" in page(file)
    assert "1 more decisions were not applied: 1 refused" in page(file)


def test_another_run_says_nothing_of_decisions_before_it(tmp_path: Path) -> None:
    file = record(tmp_path / "r", line(1, 5.0, 2, dry=False), after("refused", told(1, 5.0, 2, dry=False)))
    assert (summarise(read(file), file).decisions, summarise(read(file), file).restarts) == (2, 1)
    # With a line lost between them, the outcome is of the decision that was lost.
    file = record(tmp_path / "r", line(1, 5.0, 2, dry=False), after("refused", told(3, 5.0, 2, dry=False)))
    assert summarise(read(file), file).decisions == 2


def test_a_dry_run_tells_which_decisions_the_agent_would_have_refused(tmp_path: Path) -> None:
    file = record(tmp_path / "r", line(1, 5.0, 4), after("refused", told(2, 5.0, 2)))
    assert summarise(read(file), file).services[0].cells == [(2.0, 4, 1.0)]
    assert "1 more decisions would not have been applied: 1 refused" in page(file)


def test_a_record_without_decisions_says_so(tmp_path: Path) -> None:
    said = page(record(tmp_path / "r", line(1, 5.0, 2, dry=False, answered=False)))
    assert "there were no decisions" in said


def test_what_was_missing_for_a_while_is_not_measured(tmp_path: Path) -> None:
    told_of = [told(n, 5.0 if n in (1, 10) else None, 2, dry=False) for n in range(1, 11)]
    for one in told_of:
        del one.observation.missing["mba"]
        if 1 < one.observation.seq < 10:
            one.observation.missing["latency.web"] = f"no answer {one.observation.seq}"
    file = record(tmp_path / "r", *(msgspec.json.encode(one) + b"\n" for one in told_of))
    assert summarise(read(file), file).not_known == [
        "web: it had no latency in 8 of 10 intervals",
        "latency.web: no answer 9 (in 8 of 10 intervals)",
    ]
    assert "everything was measured" not in page(file)


def test_a_record_in_which_everything_was_measured_says_so(tmp_path: Path) -> None:
    one = told(1, 5.0, 2, dry=False)
    del one.observation.missing["mba"]
    assert "everything was measured" in page(record(tmp_path / "r", msgspec.json.encode(one) + b"\n"))


@pytest.mark.parametrize(
    ("was", "other", "words"),
    [
        (b'"node":"n1"', b'"node":"n2"', "line 3 is of node 'n2', those before of 'n1'; give records of one machine"),
        (b'"cpus":"0-7"', b'"cpus":"8-15"', "line 3 has CPUs 8-15 and 10 ways, those before 0-7 and 10"),
    ],
)
def test_records_of_two_machines_are_refused(tmp_path: Path, was: bytes, other: bytes, words: str) -> None:
    file = record(tmp_path / "r", line(1, 5.0, 2), line(2, 5.0, 2), line(1, 5.0, 2).replace(was, other))
    with pytest.raises(InputError, match=words):
        summarise(read(file), file)


@pytest.mark.parametrize("dry_first", [True, False])
def test_a_record_that_was_a_dry_run_for_a_while_says_for_how_long(tmp_path: Path, dry_first: bool) -> None:
    dry = [dry_first if n < 4 else not dry_first for n in range(1, 6)]
    lines = [line(n, 5.0, 2 if is_dry else 3, dry=is_dry) for n, is_dry in enumerate(dry, start=1)]
    day = summarise(read(record(tmp_path / "r", *lines)), tmp_path / "r")
    many = 3 if dry_first else 2
    assert (day.dry_run, day.only_watched) == (False, many)
    assert any(f"nothing was applied in {many} of 5 intervals" in text for text in day.not_known)
    # What was only supposed is not said to have been given.
    assert (day.decisions, day.services[0].cells, day.free_cpus) == (5 - many, [(3.0, 4, 1.0)], 5.0)
    assert any("all that is said of allocations is of the others" in text for text in day.not_known)
    assert not any("the server did not answer" in text for text in day.not_known)


@pytest.mark.parametrize(("value", "shown"), [(1234.5, "1,234"), (999.7, "1,000"), (12.345, "12.3"), (None, "-")])
def test_milliseconds_are_written_out(value: float | None, shown: str) -> None:
    assert _ms(value) == shown


def test_a_first_decision_for_what_is_in_force_changes_nothing(tmp_path: Path) -> None:
    one = msgspec.json.decode(line(1, 5.0, 2))
    one["observation"]["partition"] = one["decision"]["partition"]
    day = summarise(read(record(tmp_path / "r", msgspec.json.encode(one) + b"\n", line(2, 5.0, 2))), tmp_path / "r")
    assert (day.decisions, day.changes) == (2, 0)


def test_a_service_of_annotations_is_marked(tmp_path: Path) -> None:
    file = record(tmp_path / "r", *(line(n, 9.0, 4) for n in range(3)))
    assert [one.source for one in summarise(read(file), file).services] == [None]
    asked = [line(n, 9.0, 4).replace(b'"source":null', b'"source":"pod shop/web-0"', 1) for n in range(3)]
    file.write_bytes(b"".join(asked))
    assert [one.source for one in summarise(read(file), file).services] == ["pod shop/web-0"]
    said = CliRunner().invoke(application(), ["look", "report", str(file)])
    assert "asked for by pods or LatencyTargets: web (pod shop/web-0)" in said.stdout


def test_a_service_that_is_away_has_no_cell(tmp_path: Path) -> None:
    away = msgspec.json.decode(line(2, 5.0, 2))
    away["observation"]["services"] = [one for one in away["observation"]["services"] if one["name"] != "web"]
    away["decision"]["partition"] = {"regions": [{"owners": ["job"], "cores": 8, "ways": 10}]}
    lines = (line(1, 5.0, 2), msgspec.json.encode(away) + b"\n", msgspec.json.encode(away) + b"\n")
    day = summarise(read(record(tmp_path / "r", *lines)), tmp_path / "r")
    assert day.services[0].cells == [(2.0, 4, 1.0)]


def test_the_ways_of_all_cache_domains_are_counted(tmp_path: Path) -> None:
    parted = msgspec.json.decode(line(1, 5.0, 2))
    parted["observation"]["platform"]["domains"] = [{"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "4-7"}]
    for domain, region in enumerate(parted["decision"]["partition"]["regions"]):
        region |= {"cores": 2, "ways": 9, "domain": domain}
    day = summarise(read(record(tmp_path / "r", msgspec.json.encode(parted) + b"\n")), tmp_path / "r")
    assert (day.free_ways, day.ways) == (11, 20)


def test_the_agent_marks_a_dry_run_by_the_same_key() -> None:
    loop = Path(__file__).parents[2] / "actuator/src/daemon/loop.cpp"
    assert f'missing.emplace("{DRY_RUN}"' in loop.read_text()


def test_a_day_with_a_restart_is_as_long_as_its_runs(tmp_path: Path) -> None:
    runs = [*(line(seq, 5.0, 2) for seq in (1, 2, 3)), *(line(seq, 5.0, 2) for seq in (1, 2))]
    day = summarise(read(record(tmp_path / "r", *runs)), tmp_path / "r")
    assert (day.seconds, day.restarts) == (20.0 + 1.0 + 10.0, 1)  # the clock of the second run begins anew
    assert "restarts of the agent: 1" in page(tmp_path / "r")


def test_half_a_line_of_a_power_cut_is_left_out_and_said(tmp_path: Path) -> None:
    file = record(tmp_path / "r", line(1, 5.0, 2), line(2, 5.0, 2)[:-30] + b"\n", line(3, 5.0, 2))
    day = summarise(read(file), file)
    assert day.intervals == 2
    assert "1 lines are damaged, and were left out" in day.not_known


def test_the_name_of_a_policy_is_no_picture(tmp_path: Path) -> None:
    file = record(tmp_path / "r", line(1, 5.0, 2).replace(b'"policy":"osml"', b'"policy":"osml:ab"'))
    assert "osml:ab: 1 decisions" in CliRunner().invoke(application(), ["look", "report", str(file)]).stdout


def test_the_page_says_what_would_have_been(tmp_path: Path) -> None:
    file = record(tmp_path / "r", line(1, 5.0, 2), line(2, 12.0, 2), line(3, 5.0, 3)[:-30])
    found = CliRunner().invoke(application(), ["look", "report", str(file)], env={"COLUMNS": "160"})
    assert found.exit_code == 0, found.output
    assert "2 intervals" in found.stdout  # the third line is still being written
    assert "dry run, nothing was applied" in found.stdout
    assert "what it would have been given" in found.stdout
    assert "50.0% of 2" in found.stdout
    assert "6 of 8 CPUs" in found.stdout
    real = record(tmp_path / "s", line(1, 5.0, 2, dry=False))
    found = CliRunner().invoke(application(), ["look", "report", str(real), "--json"])
    assert json.loads(found.stdout)["dry_run"] is False


@pytest.mark.parametrize(("content", "words"), [(b"", "has no whole line"), (b'{"a": 1}\n', "line 1 is not a line of")])
def test_other_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    file = record(tmp_path / "r", content)
    with pytest.raises(InputError, match=words):
        summarise(read(file), file)
    with pytest.raises(InputError, match="can't be read"):
        summarise(read(tmp_path / "nowhere"), tmp_path / "nowhere")
