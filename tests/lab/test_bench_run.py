"""A run of the bench from its settings to the files of its report, on a small suite."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec import Struct
from rich.console import Console
from typer.testing import CliRunner

from osml.allocation.policy import Plan
from osml.bandwidth.library import usual_library
from osml.base.failure import Failure, InputError
from osml.decide import decide, registry
from osml.domain import Observation, Partition, Reason, Region
from osml.lab.bench import contenders
from osml.lab.bench import run as runs
from osml.lab.bench import store as stores
from osml.lab.bench.report import build as reports
from osml.lab.bench.report.document import Section, Table, markdown, page
from osml.lab.bench.run import Settings, run, spread
from osml.lab.bench.scenario import Scenario, Search
from osml.lab.bench.store import Store
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites import SUITES, suite
from osml.lab.bench.suites.osml_mismatch import scenario
from osml.lab.bench.unit import Done, run_unit
from osml.lab.bench.workers import Task, in_this_process, processes
from osml.lab.commands import bench
from osml.policies.osml.answers.models import shipped_models
from osml.predictors.manifest import models_folder
from osml.simulator.load_traces import Churn, Constant, Stay
from osml.simulator.mix import Mix, parse_mix

EASY, HOPELESS = parse_mix("moses=0.3,xapian=0.3,be:stream"), parse_mix("specjbb=1,sphinx=1")


def short(part: str, mix: Mix, **more: object) -> Scenario:
    return Scenario("small", part, mix, "e5-2697v4", limit_s=12.0, tail_s=3.0, hold_s=5.0, **more)


SMALL = Suite(
    "small",
    "A suite for tests",
    "none",
    "osml",
    ("even", "oracle"),
    lambda: [
        short("easy", EASY),
        short("hopeless", HOPELESS),
        short("searched", Mix({"moses": 0.2}), search=Search("xapian", (0.2, 0.6, 1.0))),
    ],
    lambda _: [Section("Own", ["of the suite"])],
    ask_oracle=True,
)


class BadState(Struct, frozen=True):
    decisions: int = 0


class Bad:
    """Raises, then asks for more than there is, then is sensible."""

    name, version, State = "bad", 1, BadState

    def initial(self, observation: Observation, seed: int) -> BadState:
        if observation.seq == 0:
            raise RuntimeError("not in the mood")
        return BadState()

    def decide(self, observation: Observation, state: BadState) -> tuple[Plan, BadState]:
        cores = 99 if observation.seq == 1 else 36
        names = [service.name for service in observation.services]
        return Plan(Partition([Region(names, cores, 20)]), [Reason(text="all")]), BadState(state.decisions + 1)


@pytest.fixture
def bad_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> object:
        return Bad() if name == "bad" else registry.load_policy(name)

    monkeypatch.setattr(decide, "load_policy", load)
    monkeypatch.setattr(runs, "load_policy", load)
    monkeypatch.setattr(contenders, "policy_names", lambda: [*registry.policy_names(), "bad"])


def settings(out: Path, policies: str = "even,oracle", **more: object) -> Settings:
    return Settings(SMALL, policies.split(","), 1, out, **more)


def quiet() -> Console:
    return Console(stderr=True, quiet=True)


def comparable(rows: Sequence[dict]) -> list[dict]:
    kept = [{key: value for key, value in row.items() if key != "wall_s"} for row in rows]
    return sorted(kept, key=lambda row: (row["case"], row["policy"], row["seed"]))


def test_a_run_makes_one_row_a_mix_policy_and_seed_with_its_metadata(tmp_path: Path) -> None:
    metadata = run(settings(tmp_path / "out"), in_this_process, quiet())
    rows = Store(tmp_path / "out").results()
    assert [(row["part"], row["policy"]) for row in rows] == [
        (part, policy) for part in ("easy", "hopeless", "searched") for policy in ("even", "oracle")
    ]
    by = {(row["part"], row["policy"]): row for row in rows}
    assert by["easy", "oracle"]["feasible_oracle"] is True
    assert by["easy", "oracle"]["converged"] is True
    assert by["easy", "oracle"]["emu"] == pytest.approx(0.6)
    assert by["hopeless", "oracle"]["feasible_oracle"] is False
    assert by["hopeless", "oracle"]["infeasible_reported"] is True
    assert (by["hopeless", "even"]["converged"], by["hopeless", "even"]["emu"]) == (False, 0.0)
    assert by["searched", "oracle"]["searched_load"] in (0.6, 1.0)
    assert by["searched", "oracle"]["emu"] == pytest.approx(0.2 + by["searched", "oracle"]["searched_load"])
    note = json.loads(pq.read_schema(tmp_path / "out" / "results.parquet").metadata[b"osml.bench"])
    assert (note["suite"], note["seeds"], note["simulated"]) == ("small", 1, True)
    assert metadata["failures"] == {}


def test_the_same_seed_gives_the_same_rows_in_processes_too(tmp_path: Path) -> None:
    run(settings(tmp_path / "a"), in_this_process, quiet())
    run(settings(tmp_path / "b"), processes(2), quiet())
    assert comparable(Store(tmp_path / "a").results()) == comparable(Store(tmp_path / "b").results())


def test_resume_runs_only_what_is_missing(tmp_path: Path) -> None:
    run(settings(tmp_path / "out", "even"), in_this_process, quiet())
    asked: list[Task] = []

    def watched(tasks: Sequence[Task]) -> Iterator[Done]:
        asked.extend(tasks)
        yield from in_this_process(tasks)

    run(settings(tmp_path / "out", "even,random", resume=True), watched, quiet())
    assert [task.cases for task in asked] == [[("random", 0)]] * 3
    assert {row["policy"] for row in Store(tmp_path / "out").results()} == {"even", "random"}


def test_the_metadata_speaks_of_all_calls(tmp_path: Path) -> None:
    one = settings(tmp_path / "out", "even", limit=1)
    first = run(replace(one, seeds=2), in_this_process, quiet())
    again = run(replace(one, resume=True), in_this_process, quiet())
    assert (first["seeds"], again["seeds"]) == (2, 2)
    assert again["wall_s"] > first["wall_s"] > 0.0


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    def interrupted(tasks: Sequence[Task]) -> Iterator[Done]:
        yield run_unit(*tasks[0])
        raise KeyboardInterrupt

    with pytest.raises(Failure, match=r"1 of 6 runs are done and stored; continue with --resume"):
        run(settings(tmp_path / "out"), interrupted, quiet())
    assert [(row["part"], row["policy"]) for row in Store(tmp_path / "out").results()] == [("easy", "even")]
    run(settings(tmp_path / "out", resume=True), in_this_process, quiet())
    assert len(Store(tmp_path / "out").results()) == 6


def test_the_rows_of_a_run_that_was_killed_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(tasks: Sequence[Task]) -> Iterator[Done]:
        yield run_unit(*tasks[0])
        raise SystemExit  # whatever ends a process before it can write its tables

    drawn = replace(SMALL, scenarios=lambda: [short("easy", EASY, timeline=True), short("hopeless", HOPELESS)])
    one = Settings(drawn, ["even"], 1, tmp_path / "out")
    with pytest.raises(SystemExit):
        run(one, killed, quiet())
    store = Store(tmp_path / "out")
    assert [row["part"] for row in store.results()] == ["easy"]
    assert store.timelines()
    run(replace(one, resume=True), in_this_process, quiet())
    with pytest.raises(SystemExit):
        run(replace(one, resume=True, seeds=2), killed, quiet())
    assert (store.metadata()["seeds"], len(store.results())) == (2, 3)
    monkeypatch.setitem(SUITES, "small", drawn)
    assert reports.build(tmp_path / "out")["metadata"]["seeds"] == 2
    # A folder that is published has the tables alone.
    run(replace(one, resume=True, seeds=2), in_this_process, quiet())
    before = store.results(), store.timelines()
    shutil.rmtree(tmp_path / "out" / "parts")
    assert (store.results(), store.timelines()) == before


def test_rows_are_of_the_code_that_the_run_was_started_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edited(tasks: Sequence[Task]) -> Iterator[Done]:
        yield run_unit(*tasks[0])
        monkeypatch.setattr(stores, "code_fingerprint", lambda: "edited")
        raise KeyboardInterrupt

    monkeypatch.setattr(stores, "code_fingerprint", lambda: "first")
    told = io.StringIO()
    with pytest.raises(Failure, match="interrupted"):
        run(settings(tmp_path / "out", "even"), edited, Console(file=told, width=200))
    assert "code changed while the run went on, so rows may be of both; run again in a new folder" in told.getvalue()
    assert Store(tmp_path / "out").metadata()["code"] == "first"
    with pytest.raises(InputError, match="has code 'first', this run has 'edited'"):
        run(settings(tmp_path / "out", "even", resume=True), in_this_process, quiet())


def test_a_failed_mix_is_remembered_until_its_rows_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tasks: Sequence[Task]) -> Iterator[Done]:
        for task in tasks:
            yield run_unit(*task) if task.case else Done(0, failure="the worker ended")

    with pytest.raises(Failure, match="1 of 3 mixes failed"):
        run(settings(tmp_path / "out", "even"), broken, quiet())
    monkeypatch.setitem(SUITES, "small", SMALL)
    for policies, failures in (
        ("random", {f"{SMALL.scenarios()[0].key} under even": "the worker ended"}),
        ("even", {}),
    ):
        metadata = run(settings(tmp_path / "out", policies, resume=True), in_this_process, quiet())
        assert metadata["failures"] == failures
        reports.build(tmp_path / "out")
        said = (tmp_path / "out" / "report.md").read_text()
        assert ("Mixes that failed, so that rows of a policy are missing: 1, first easy:" in said) == bool(failures)


def test_a_second_run_in_a_folder_is_refused_and_counts_nothing_twice(tmp_path: Path) -> None:
    def beside(tasks: Sequence[Task]) -> Iterator[Done]:
        with pytest.raises(InputError, match=r"--out .*/out is in use by another run: wait for its end, or choose"):
            run(settings(tmp_path / "out", "even", resume=True), in_this_process, quiet())
        for done in in_this_process(tasks):
            yield done
            yield done  # as a second run would bring it

    run(settings(tmp_path / "out", "even"), beside, quiet())
    assert len(Store(tmp_path / "out").results()) == 3
    run(settings(tmp_path / "out", "even", resume=True), in_this_process, quiet())


def test_a_timeline_whose_rows_were_lost_is_replaced(tmp_path: Path) -> None:
    """A kill between the two files leaves the timeline alone: the case is run again, and its lines are there once."""
    drawn = replace(SMALL, scenarios=lambda: [short("easy", EASY, timeline=True)])
    run(Settings(drawn, ["even"], 1, tmp_path / "out"), in_this_process, quiet())
    before = Store(tmp_path / "out").timelines()
    (tmp_path / "out" / "parts" / "00000.parquet").unlink()
    run(Settings(drawn, ["even"], 1, tmp_path / "out", resume=True), in_this_process, quiet())
    assert before
    assert Store(tmp_path / "out").timelines() == before
    assert len(Store(tmp_path / "out").results()) == 1


def test_rows_are_written_after_their_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(stores, "_put", lambda path, _: written.append(path.name))
    line = {"policy": "even", "seed": 0}
    Store(tmp_path).add(Done(0, [line], [line]))
    assert written == ["timeline-00000.parquet", "00000.parquet"]


def test_ctrl_c_does_not_wait_for_what_is_under_way(tmp_path: Path) -> None:
    """A run of the slow policy takes far longer than the command may take to end."""
    command = ["lab", "bench", "run", "osml-302", "--policies", "clite", "--seeds", "1", "--limit", "40"]
    # Who runs the tests may ignore the signal, and what they start would, too.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "osml", *command, "--workers", "2",
         "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (tmp_path / "out/metadata.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(3)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert b"40 runs are done and stored; continue with --resume" in said
    assert process.returncode == 1


def test_a_mix_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    wrong = Suite(
        "small", "", "", "osml", (), lambda: [short("unknown", Mix({"nobody": 0.1})), short("easy", EASY)], lambda _: []
    )
    with pytest.raises(Failure, match=r"1 of 2 mixes failed, first unknown:nobody=0\.1"):
        run(Settings(wrong, ["even"], 1, tmp_path / "out"), in_this_process, quiet())
    assert [row["part"] for row in Store(tmp_path / "out").results()] == ["easy"]


@pytest.mark.usefixtures("bad_policy")
def test_faults_of_a_policy_count_against_it_and_the_node_goes_on(tmp_path: Path) -> None:
    run(settings(tmp_path / "out", "bad"), in_this_process, quiet())
    row = Store(tmp_path / "out").results()[0]
    assert row["faults"] == 2
    assert "not in the mood" in row["fault"]
    assert row["intervals"] > 2


@pytest.mark.usefixtures("bad_policy")
def test_the_terminal_says_that_a_policy_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "small", SMALL)
    out = str(tmp_path / "out")
    asked = ["run", "small", "--out", out, "--policies", "even,bad", "--limit", "1", "--seeds", "1", "--workers", "1"]
    CliRunner().invoke(bench.app, asked, catch_exceptions=False)
    [row] = [row for row in Store(Path(out)).results() if row["policy"] == "bad"]
    said = f"bad: 2 of {row['intervals']} decisions were faulty, the first: {row['fault']}; its rows show the last"
    for again in (["report", out], [*asked, "--resume"]):
        shown = CliRunner().invoke(bench.app, again, catch_exceptions=False)
        assert shown.exit_code == 0
        assert said in shown.stderr
        assert "even: " not in shown.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["faulty"] == {"bad": {"faults": 2, "decisions": row["intervals"], "first": row["fault"]}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"policies": ["magic"]}, "--policies: 'magic' is unknown; known are arq, "),
        ({"policies": []}, "--policies is empty"),
        ({"seeds": 0}, "--seeds is 0, expected 1 to"),
        ({"limit": 0}, "--limit is 0, expected at least 1"),
        (
            {"suite": SUITES["amd-ccx"], "policies": ["even", "oracle"]},
            r"--policies: 'oracle' searches nodes of one cache domain, the node of placed:.* has 8; leave it out",
        ),
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, change: dict, text: str) -> None:
    wanted = {"suite": SMALL, "policies": ["even"], "seeds": 1, "out": tmp_path / "out"} | change
    with pytest.raises(InputError, match=text):
        run(Settings(**wanted), in_this_process, quiet())
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_version_or_with_other_things_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(settings(out, "even"), in_this_process, quiet())
    with pytest.raises(InputError, match="has results already: add --resume"):
        run(settings(out), in_this_process, quiet())
    described = json.loads((out / "metadata.json").read_text())
    (out / "metadata.json").write_text(json.dumps(described | {"code": "0123"}))
    with pytest.raises(InputError, match="has code '0123'"):
        run(settings(out, resume=True), in_this_process, quiet())
    (out / "metadata.json").write_text(json.dumps(described | {"schema": "osml/bench/v0"}))
    with pytest.raises(InputError, match="schema is 'osml/bench/v0', expected 'osml/bench/v2'"):
        reports.build(out)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="is not empty and has no results"):
        run(settings(tmp_path / "other"), in_this_process, quiet())
    with pytest.raises(InputError, match="expected a folder of `osml lab bench run`"):
        reports.build(tmp_path / "other")


def test_rows_of_other_models_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = run(settings(tmp_path / "out", "even", limit=1), in_this_process, quiet())
    monkeypatch.setenv("OSML_MODELS", str(tmp_path / "none"))
    with pytest.raises(InputError, match=f"has models '{begun['models']}', this run has"):
        run(settings(tmp_path / "out", "even,osml", limit=1, resume=True), in_this_process, quiet())


def test_the_fingerprint_of_models_tells_folders_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [stores.models_fingerprint()]
    copy = tmp_path / "models"
    shutil.copytree(models_folder(), copy)
    monkeypatch.setenv("OSML_MODELS", str(copy))
    assert stores.models_fingerprint() == found[0]
    for change in (
        lambda: next(copy.glob("a2*/model.onnx")).write_bytes(b"other"),
        lambda: next(copy.glob("a2*/model.onnx")).unlink(),
        lambda: (copy / "manifest.json").write_text("no JSON"),
        lambda: shutil.rmtree(copy),
    ):
        change()
        found.append(stores.models_fingerprint())
    assert len(set(found)) == len(found)


def test_the_operators_profiles_are_part_of_what_rows_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_library.cache_clear()
    run(settings(tmp_path / "out", "even"), in_this_process, quiet())
    assert Store(tmp_path / "out").metadata()["profiles"] == ""
    monkeypatch.setenv("OSML_OMBM_PROFILES", str(tmp_path / "none"))
    usual_library.cache_clear()
    with pytest.raises(InputError, match=r"OSML_OMBM_PROFILES is '.*none', expected a folder of profiles"):
        run(settings(tmp_path / "other", "even"), in_this_process, quiet())
    (tmp_path / "none").mkdir()
    usual_library.cache_clear()
    with pytest.raises(InputError, match=r"has profiles '', this run has '[0-9a-f]{16}'"):
        run(settings(tmp_path / "out", "even", resume=True), in_this_process, quiet())
    usual_library.cache_clear()


@pytest.mark.parametrize("name", ["osml-302", "ahq-fluctuating", "ahq-equivalence", "ahq-constant"])
def test_a_report_of_one_part_or_of_few_mixes_has_the_sections_that_it_can_have(name: str, tmp_path: Path) -> None:
    whole = suite(name)
    parts = list(dict.fromkeys(one.part for one in whole.scenarios()))
    for part in parts:
        few = [one for one in whole.scenarios() if one.part == part][:2]
        short_ones = [replace(one, limit_s=12.0, settle_s=0.0, hold_s=3.0, tail_s=3.0, traces={}) for one in few]
        small = replace(whole, scenarios=lambda found=short_ones: found, ask_oracle=False)
        out = tmp_path / f"{name}-{parts.index(part)}"
        run(Settings(small, ["unmanaged"], 1, out), in_this_process, quiet())
        reports.build(out)
        assert (out / "report.md").read_text("utf-8")


def test_a_folder_that_can_not_be_made_or_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(InputError, match=f"--out {out} can't be created or read .*: choose another folder"):
            run(settings(out, "even"), in_this_process, quiet())


def test_damaged_results_say_which_file(tmp_path: Path) -> None:
    run(settings(tmp_path / "out", "even"), in_this_process, quiet())
    (tmp_path / "out" / "parts" / "00001.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"00001\.parquet: can't be read as Parquet"):
        run(settings(tmp_path / "out", "even", resume=True), in_this_process, quiet())


def test_a_process_that_dies_fails_the_mix_that_killed_it_and_no_other(tmp_path: Path) -> None:
    deadly = Task(0, Deadly("small", "x", EASY, "e5-2697v4"), [("even", 0)], False)
    easy = [Task(case, short("easy", EASY), [("even", 0)], False) for case in range(1, 7)]
    done = {one.index: one for one in processes(2)([deadly, *easy])}
    assert done[0].failure == "its worker process ended unexpectedly twice"
    assert [done[case].failure for case in range(1, 7)] == [None] * 6


class Deadly(Scenario):
    @property
    def node(self):
        import os

        os._exit(9)


def test_a_limit_spreads_over_the_suite() -> None:
    numbers = [index for index, _ in spread([short("easy", EASY)] * 100, 4)]
    assert numbers == [0, 25, 50, 75]


def test_the_report_has_the_overview_and_the_suites_own_sections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(settings(tmp_path / "out"), in_this_process, quiet())
    monkeypatch.setitem(SUITES, "small", SMALL)
    summary = reports.build(tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "(simulated)" in text.splitlines()[0]
    assert "## Own" in text
    assert "## Paired differences" in text
    assert summary["policies"]["oracle"]["easy"]["converged"]["value"] == 1.0
    assert summary["mixes"] == {"feasible": 1, "infeasible": 1, "undecided": 1}
    assert summary["by_feasibility"]["infeasible"]["even"]["hopeless"]["target_missed_share"]["value"] > 0.5
    assert "*easy, feasible (mixes: 1): " in text
    assert "<table>" in (tmp_path / "out" / "report.html").read_text()
    (tmp_path / "out" / "report.html").unlink()
    (tmp_path / "out" / "report.html").mkdir()
    with pytest.raises(Failure, match="the report can't be written"):
        reports.build(tmp_path / "out")


def test_cells_of_a_report_are_text_and_never_markup() -> None:
    section = Section("<b>", ["a < b"], [Table(["x|y"], [["<script>"]])])
    assert "<script>" not in page("t", [section])
    assert "x\\|y" in markdown("t", [section])


def test_the_page_of_the_bench_lists_every_suite_with_its_number_of_mixes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "bench.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d +]+) \|", page, re.MULTILINE)
    listed = {name: sum(int(number) for number in numbers.split("+")) for name, numbers in rows}
    assert listed == {name: len(one.scenarios()) for name, one in SUITES.items()}


def test_every_suite_lists_scenarios_with_names_of_their_own() -> None:
    for name in SUITES:
        scenarios = suite(name).scenarios()
        keys = [scenario.key for scenario in scenarios]
        assert len(set(keys)) == len(keys), name
        assert all(scenario.node for scenario in scenarios)
        assert [s.key for s in suite(name).scenarios()] == keys
    with pytest.raises(InputError, match="suite 'x' is unknown; known are osml-302"):
        suite("x")


def test_a_policy_has_only_the_levers_of_the_agent_and_of_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[bool, ...]] = set()

    class Spy(Bad):
        def initial(self, observation: Observation, seed: int) -> BadState:
            given = observation.platform
            knobs = (given.frequency_mhz, given.memory_mib, given.disk_iops, given.network_mbps)
            seen.add((given.realtime, *(knob is not None for knob in knobs)))
            return BadState()

    monkeypatch.setattr(decide, "load_policy", lambda _: Spy())
    for policy, levers, expected in (
        ("even", frozenset(), (False, False, False, False, False)),
        ("even", frozenset({"realtime", "disk"}), (True, False, False, True, False)),
        ("lc_first", frozenset(), (True, False, False, False, False)),
        ("arq", frozenset(), (True, False, False, False, False)),
    ):
        seen.clear()
        run_unit(0, short("easy", EASY, levers=levers), [(policy, 0)])
        assert seen == {expected}


def test_suites_have_the_levers_of_their_paper_and_no_others() -> None:
    found = {name: one.levers for name, one in SUITES.items() if one.levers}
    beside_others = [name for name, one in SUITES.items() if "arq" in one.policies and not name.startswith("ahq-")]
    assert {found.pop(name) for name in beside_others} == {"arq: realtime"}
    assert found == {
        "parties-emu": "frequency,memory,disk,network",
        "parties-diurnal": "frequency,memory,disk,network",
        "ahq-constant": "lc_first: realtime; arq: realtime",
        "ahq-fluctuating": "lc_first: realtime; arq: realtime",
        "ahq-equivalence": "arq: realtime",
        "ahq-dip": "round_robin: realtime",
    }


def test_levers_are_checked_recorded_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contenders.checked_levers("none") == frozenset()
    with pytest.raises(InputError, match=r"--levers: 'turbo' is unknown; give some of realtime,frequency,.*, or none"):
        contenders.checked_levers("realtime,turbo")
    levers = contenders.checked_levers("frequency, realtime")
    out = tmp_path / "out"
    metadata = run(settings(out, "even", limit=1, levers=levers), in_this_process, quiet())
    assert metadata["levers"] == ["frequency", "realtime"]
    monkeypatch.setitem(SUITES, "small", SMALL)
    reports.build(out)
    assert "MBA policies set realtime,frequency." in (out / "report.md").read_text()
    with pytest.raises(InputError, match=r"has levers '\['frequency', 'realtime'\]', this run has '\[\]'"):
        run(settings(out, "even", limit=1, resume=True), in_this_process, quiet())


def test_processes_end_with_the_parent_that_was_killed(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "osml",
        "bench",
        "run",
        "case-a",
        "--policies",
        "even,arq",
        "--seeds",
        "500",
        "--workers",
        "2",
        "--out",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        children: list[str] = []
        deadline = time.monotonic() + 60
        while not children and time.monotonic() < deadline:
            time.sleep(0.2)
            command = ["pgrep", "-P", str(parent.pid), "-f", "spawn_main"]
            children = subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()
        assert children
        parent.kill()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def test_the_oracle_names_only_services_that_are_there() -> None:
    script = Churn((Stay("moses", Constant(0.3), 0.0, 4.0), Stay("xapian", Constant(0.3), 2.0)))
    churn = Scenario("small", "churn", Mix({}), "e5-2697v4", limit_s=8.0, tail_s=2.0, whole=True, traces=script)
    [row] = run_unit(0, churn, [("oracle", 0)]).rows
    assert row["faults"] == 0
    assert row["emu"] is None  # nothing is held where loads come and go


def test_rows_of_another_version_of_a_policy_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(settings(tmp_path / "out", "even"), in_this_process, quiet())
    monkeypatch.setattr(runs, "policy_fingerprint", lambda _: "another")
    with pytest.raises(InputError, match="another version of policy 'even'"):
        run(settings(tmp_path / "out", "even", resume=True), in_this_process, quiet())


def test_whoever_compares_osml_without_its_models_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert contenders.without_models(["arq"], ["e5-2697v4"]) == []
    monkeypatch.setenv("OSML_MODELS", str(tmp_path))
    shipped_models.cache_clear()
    try:
        (note,) = contenders.without_models(["arq", "osml"], ["e5-2697v4", "e5-2697v4"])
    finally:
        shipped_models.cache_clear()
    assert note.startswith("on e5-2697v4 the policy osml uses square-root staffing: model a2: ")


def test_a_note_with_brackets_is_printed_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets are markup to rich: the extra of a command was lost, and what is left of it installs nothing."""
    monkeypatch.setitem(SUITES, "small", SMALL)
    monkeypatch.setattr(bench, "without_models", lambda *_: ["run `python -m pip install '.[models]'`"])
    out = tmp_path / "[a]"
    shown = CliRunner().invoke(
        bench.app, ["run", "small", "--out", str(out), "--policies", "even", "--limit", "1", "--workers", "1"],
        env={"COLUMNS": "400"},
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "run `python -m pip install '.[models]'`" in shown.stderr
    assert f"wrote {out}/results.parquet" in shown.stderr
    shown = CliRunner().invoke(bench.app, ["report", str(out)], env={"COLUMNS": "400"})
    assert f"wrote {out}/report.html" in shown.stdout


def test_runs_in_which_osml_has_no_model_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of 64 CPUs is larger than those of the training data; the platform's models can be opened all the same."""
    large = replace(scenario("machines", 0, beside_job=False), limit_s=4.0, settle_s=0.0, tail_s=2.0, hold_s=1.0)
    known = replace(large, part="known", variant=None, mix=EASY, platform="e5-2697v4")
    small = replace(SMALL, scenarios=lambda: [large, known], ask_oracle=False)
    run(Settings(small, ["osml", "even"], 1, tmp_path / "out"), in_this_process, quiet())
    found = {(row["part"], row["policy"]): row["unmodelled"] for row in Store(tmp_path / "out").results()}
    why = found.pop(("machines", "osml"))
    assert why.startswith("needs are those of square-root staffing, because model 'a2-masked-any' was not trained on a")
    assert set(found.values()) == {None}
    monkeypatch.setitem(SUITES, "small", small)
    reports.build(tmp_path / "out")
    assert f"In 1 of 2 runs osml had no model at the end, first: {why}." in (tmp_path / "out/report.md").read_text()


def test_the_help_names_the_suites_of_one_seed() -> None:
    shown = " ".join(CliRunner().invoke(bench.app, ["run", "--help"], env={"COLUMNS": "400"}).stdout.split())
    once = [one.name for one in SUITES.values() if one.seeds == 1]
    assert len(once) > 1
    assert f"default: 3; 1 for {', '.join(once)}." in shown
