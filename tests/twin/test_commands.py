"""The commands of docs/how-to/advise.md, as they stand there, on a record of a virtual node; and what they refuse."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.cli.main import application
from osml.decide.decide import PolicyError, RequestError
from osml.decide.replay import Replayed
from osml.domain import Partition, Region
from osml.records import Line, Record, gather
from osml.twin.commands.options import refused
from osml.twin.commands.replay import _row
from tests.kit.twin_records import managed, services_alone, watched, write

PAGE = Path(__file__).parents[2] / "docs/how-to/advise.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("advise")
    record = watched(240)
    write(record.part(0, 180), found / "day.jsonl")
    write(record.part(180, 240), found / "next.jsonl")
    write(services_alone(), found / "services.jsonl")
    write(managed(60), found / "managed.jsonl")
    small = [
        Line(replace(line.observation, platform=replace(line.observation.platform, cpus="0-3")), line.decision)
        for line in record.lines[:20]
    ]
    write(Record(small), found / "small.jsonl")
    return found


def _run(folder: Path, *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(application(), list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def _json(folder: Path, *arguments: str) -> Any:
    return json.loads(_run(folder, *arguments, "--json"))


def _commands() -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ osml ")]
    return [shlex.split(line)[1:] for line in lines]


def test_the_commands_of_the_page_work_one_after_the_other(folder: Path) -> None:
    commands = _commands()
    assert {tuple(command[:2]) for command in commands} == {("look", "advise"), ("look", "twin"), ("look", "replay")}
    for command in commands:
        assert _run(folder, *command)
    page = (folder / "advice.html").read_text("utf-8")
    assert "does it need partitioning?" in page
    assert "<script" not in page


def test_advice_keeps_its_contract(folder: Path) -> None:
    found = _json(folder, "advise", "services.jsonl")
    assert found["needs_partitioning"] in (True, False, None)
    assert found["answer"]
    record = gather([folder / "services.jsonl"])
    for service in found["services"]:
        slacks = [one.slack for line in record.lines for one in line.observation.services
                  if one.name == service["name"] and one.slack is not None]  # fmt: skip
        assert service["missed_share"] == sum(slack < 0 for slack in slacks) / len(slacks)
    for service in found["services"]:
        assert {"name", "suffers_ms", "from", "levers"} <= set(service)
        assert all({"culprit", "resource", "ms", "confidence"} <= set(cause) for cause in service["from"])
        assert all(lever["low"] <= lever["gain"] <= lever["high"] for lever in service["levers"])
        assert sum(cause["ms"] for cause in service["from"]) == pytest.approx(service["suffers_ms"], rel=1e-3)


def test_a_replay_has_a_decision_an_interval(folder: Path) -> None:
    found = _json(folder, "replay", "managed.jsonl", "--policy", "parties")
    assert (len(found["intervals"]), found["loop"], found["recorded_policies"]) == (60, "open", ["parties"])
    assert all(row["decision"] and row["recorded"] for row in found["intervals"])
    assert found["cannot_show"]


def test_who_left_before_the_end_is_in_the_table_of_a_replay(folder: Path) -> None:
    record = gather([folder / "managed.jsonl"])
    last = record.lines[-1].observation
    gone = last.services[0].name
    left = replace(last, services=last.services[1:], assignments=last.assignments[1:], partition=None)
    write(Record([*record.lines[:-1], Line(left, None)]), folder / "left.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        shown = _run(folder, "replay", "left.jsonl", "--policy", "even")
    assert f"{gone}: CPUs, ways (record)" in shown


def test_a_replay_on_a_twin_predicts_differences(folder: Path) -> None:
    _run(folder, "twin", "fit", "managed.jsonl", "--out", "managed.json", "--members", "16")
    found = _json(folder, "replay", "managed.jsonl", "--policy", "even", "--twin", "managed.json", "--members", "2")
    assert found["loop"] == "closed"
    last = found["intervals"][-1]["predicted"]
    assert set(last["services"]) == {"service-1", "service-2", "service-3"}
    assert last["e_s"]["low"] <= last["e_s"]["difference"] <= last["e_s"]["high"]
    again = _json(folder, "replay", "managed.jsonl", "--policy", "even", "--twin", "managed.json", "--members", "2")
    assert found == again


def test_who_was_away_is_not_decided_otherwise() -> None:
    """On a twin the policy decides for all that the twin knows."""
    platform = watched().lines[0].observation.platform
    both = Partition([Region(["web"], 8, 4), Region(["batch"], 8, 4)])
    alone = Partition([Region(["web"], 8, 4)])
    one = Replayed(1, 1.0, both, alone, platform, infeasible=False)
    assert _row(one, ["web"])["difference"] == {"web": {"cpus": 0.0, "ways": 0}}
    assert set(_row(one)["difference"]) == {"web", "batch"}


def test_a_tenant_moves_to_another_twin(folder: Path) -> None:
    _run(folder, "twin", "fit", "day.jsonl", "--out", "one.json", "--members", "16")
    found = _json(folder, "twin", "whatif", "one.json", "--move", "job-1=one.json", "--remove", "service-3")
    names = {row["name"]: row for row in found["tenants"]}
    assert names["job-1"]["after"] is None
    assert names["service-3"]["after"] is None
    assert names["service-1"]["ratio"] > 0


def test_equal_changes_are_all_made_and_who_moves_to_one_machine_comes_together(folder: Path) -> None:
    _run(folder, "twin", "fit", "day.jsonl", "--out", "one.json", "--members", "16")
    found = _json(folder, "twin", "whatif", "one.json", "--add-job", "stream", "--add-job", "stream")
    assert found["changes"] == ["with stream", "with stream"]
    assert {"stream", "stream-added"} < {row["name"] for row in found["tenants"]}
    moves = ("--move", "job-1=one.json", "--move", "service-3=./one.json")
    [there] = _json(folder, "twin", "whatif", "one.json", *moves)["elsewhere"]
    assert there["node"] == "hidden: job-1, service-3 come"
    assert {"job-1-added", "service-3-added"} < {row["name"] for row in there["tenants"]}


def test_a_tenant_that_was_there_for_a_part_of_the_time_can_be_asked_for(folder: Path) -> None:
    """Most of the record has no job; what is asked of the job is answered by the rest of it."""
    alone = [
        Line(replace(seen, services=[one for one in seen.services if one.kind == "lc"]), line.decision)
        for line in watched(240).lines
        for seen in [line.observation]
    ]
    write(Record(alone), folder / "alone.jsonl")
    write(watched(240).part(0, 30), folder / "beside.jsonl")
    _run(folder, "twin", "fit", "alone.jsonl", "beside.jsonl", "--out", "both.json", "--members", "16")
    found = {row["name"]: row for row in _json(folder, "twin", "whatif", "both.json", "--remove", "job-1")["tenants"]}
    assert found["job-1"]["before"] > 0
    assert found["job-1"]["after"] is None
    found = {row["name"]: row for row in _json(folder, "twin", "whatif", "both.json", "--own-cpus")["tenants"]}
    assert set(found) == {"service-1", "service-2", "service-3"}
    added = ("--add-job", "stream", "--weight", "stream=1")
    assert _json(folder, "twin", "whatif", "both.json", *added)["changes"] == ["with stream", "stream with weight 1"]


def test_a_quick_service_that_comes_is_a_service_and_a_job_is_a_job(folder: Path) -> None:
    _run(folder, "twin", "fit", "day.jsonl", "--out", "one.json", "--members", "16")
    comes = ("--add-service", "memcached=0.1", "--add-job", "stream")
    found = _json(folder, "twin", "whatif", "one.json", *comes)
    names = {row["name"]: row for row in found["tenants"]}
    assert names["memcached"]["after"] < 1.0
    assert (names["memcached"]["class"], names["memcached"]["unit"]) == ("lc", "ms")
    assert names["stream"]["class"] == "be"


@pytest.mark.parametrize("error", [PolicyError("no room"), RequestError("no room")])
def test_what_a_policy_refuses_is_said_in_one_sentence(error: Exception) -> None:
    with pytest.raises(InputError, match="no room"), refused():
        raise error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["twin", "whatif", "one.json"], "nothing was asked"),
        (["twin", "whatif", "one.json", "--remove", "nobody"], "'nobody' is not on the machine"),
        (["twin", "whatif", "one.json", "--ways", "service-1=99"], "ways of 'service-1' are 99, expected 1 to 20"),
        (["twin", "whatif", "one.json", "--quota", "service-1"], "expected NAME=VALUE"),
        (["twin", "whatif", "one.json", "--load", "service-1=-1"], "expected a number above 0"),
        (["twin", "whatif", "one.json", "--add-job", "nothing"], "is not in the catalog; known are"),
        (["twin", "whatif", "day.jsonl", "--cat"], "is not a twin"),
        (["twin", "whatif", "one.json", "--policy", "nosuch"], "policy 'nosuch' is unknown; known are arq, "),
        (["twin", "whatif", "one.json", "--load", "job-1=2"], "'job-1' is a job, which has no load"),
        (["twin", "whatif", "one.json", "--cpus", "service-1=4", "--own-cpus"], "--cpus was given with --own-cpus"),
        (["twin", "whatif", "one.json", "--ways", "service-1=2", "--cat"], "--ways was given with --cat, which sets"),
        (["twin", "whatif", "one.json", "--bandwidth", "job-1=10", "--mba", "50"], "--bandwidth was given with --mba"),
        (["twin", "whatif", "one.json", "--remove", "job-1", "--mba", "50"], "there is no job whose memory bandwidth"),
        (["twin", "fit", "day.jsonl", "--limit", "nobody=2"], "--limit names 'nobody'"),
        (["twin", "fit", "day.jsonl", "--out", "none/one.json"], "one.json can't be written: there is no folder none"),
        (["twin", "fit", "day.jsonl", "--out", "."], ". is a folder, expected a file to write"),
        (["advise", "day.jsonl", "--html", "none/page.html"], "page.html can't be written: there is no folder none"),
        (["advise", "day.jsonl", "--limit", "nobody=2"], "--limit names 'nobody'"),
        (["advise", "one.json", "--limit", "service-1=2"], "--limit was given with a twin"),
        (["twin", "check", "one.json", "small.jsonl"], "has CPUs 0-35 and 20 ways, the record has 0-3 and 20"),
        (["replay", "small.jsonl", "--policy", "even", "--twin", "one.json"], "the record has 0-3 and 20"),
        (["replay", "managed.jsonl", "--policy", "nothing"], "policy 'nothing' is unknown"),
        (["replay", "managed.jsonl", "--policy", "even", "--twin", "day.jsonl"], "is not a twin"),
    ],
)
def test_wrong_input_is_one_sentence(folder: Path, arguments: list[str], said: str) -> None:
    _run(folder, "twin", "fit", "day.jsonl", "--out", "one.json", "--members", "16") if not (
        folder / "one.json"
    ).exists() else None
    with pytest.raises(InputError, match=re.escape(said)):
        _run(folder, *arguments)
