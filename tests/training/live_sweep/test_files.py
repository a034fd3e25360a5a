"""Journal, configuration of the agent, decisions: what a sweep reads, keeps and answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from osml.base.failure import Failure, InputError, MachineError
from osml.datasets.dataset import DatasetDescription, write_description
from osml.datasets.description import Provenance
from osml.domain import CacheDomain, Observation, Platform, Service
from osml.domain.platform import MbaRange

journals = pytest.importorskip("osml_training.live_sweep.journal")
agent_file = pytest.importorskip("osml_training.live_sweep.agent_file")
walking = pytest.importorskip("osml_training.live_sweep.walk")
decisions = pytest.importorskip("osml_training.live_sweep.decisions")
running = pytest.importorskip("osml_training.live_sweep.run")
command = pytest.importorskip("osml_training.cli.data.sweep")
design = pytest.importorskip("osml_training.live_sweep.design")
room = pytest.importorskip("osml_training.live_sweep.room")

ABOUT = journals.Swept("web", "vm", 20, 0.1, None, 10.0, "p99", ["job"])


def cell(units: int) -> Any:
    return journals.FinishedCell((units, 1), "met", journals.Condition(), 100.0, 2.5)


def test_cells_stay_and_half_a_line_is_forgotten(tmp_path: Path) -> None:
    journal = journals.Journal(tmp_path / "set", ABOUT)
    journal.add(cell(3))
    journal.add(cell(4))
    journal.close()
    file = tmp_path / "set/sweep.jsonl"
    file.write_bytes(file.read_bytes() + b'{"cell":[5,1],"sta')
    again = journals.Journal(tmp_path / "set", ABOUT)
    assert [one.cell[0] for one in again.cells] == [3, 4]
    again.add(cell(6))
    again.close()
    assert [one.cell[0] for one in journals.read(tmp_path / "set")[1]] == [3, 4, 6]


def test_another_sweep_needs_another_folder(tmp_path: Path) -> None:
    journals.Journal(tmp_path, ABOUT).close()
    with pytest.raises(InputError, match=r"is a sweep with target_ms 10\.0, now it is 12.0: use another folder"):
        journals.Journal(tmp_path, msgspec.structs.replace(ABOUT, target_ms=12.0))
    (tmp_path / "sweep.jsonl").write_text('{"something": "else"}\n')
    with pytest.raises(InputError, match="is not the journal of a sweep"):
        journals.Journal(tmp_path, ABOUT)


CONFIG: dict[str, Any] = {
    "node": "n",
    "server": {"url": "https://decide.example", "ca_file": "ca.pem"},
    "on_exit": "leave",
    "state_dir": "state",
    "services": [
        {"name": "web", "class": "lc", "target_ms": 10, "match": {"pid_file": "web.pid"}, "latency": {"file": "l"}},
        {"name": "job", "class": "be", "match": {"cgroup": "be/job"}},
    ],
}


def written(folder: Path, document: dict[str, Any]) -> Path:
    (folder / "agent.yaml").write_text(yaml.safe_dump(document))
    return folder / "agent.yaml"


def test_the_agent_gives_everything_back_whatever_its_file_says(tmp_path: Path) -> None:
    document = agent_file.read_agent_file(written(tmp_path, CONFIG))
    found = yaml.safe_load(agent_file.for_sweep(document, "http://127.0.0.1:1", tmp_path / "token"))
    assert (found["on_exit"], found["fallback"], found["policy"]) == ("restore", "release", "sweep")
    assert found["server"] == {
        "url": "http://127.0.0.1:1", "timeout_s": 2.0, "token_file": str(tmp_path / "token"), "experiences": "off",
    }  # fmt: skip
    assert found["state_dir"] == str(tmp_path / "state")
    assert found["services"][0]["match"]["pid_file"] == str(tmp_path / "web.pid")
    assert found["services"][0]["latency"]["file"] == str(tmp_path / "l")
    assert found["services"][1]["match"] == {"cgroup": "be/job"}


def test_every_path_of_the_configuration_becomes_absolute(tmp_path: Path) -> None:
    """The agent gets a copy in another folder, where relative paths would lead elsewhere."""
    sources = Path(__file__).parents[3] / "actuator/src/config"
    places = {"config": (), "discover": ("kubelet", "discover"), "source": ("latency",), "service": ("counters",)}
    found = [
        (*places.get(section, (section,)), key)
        for source in sorted(sources.glob("*.cpp"))
        for section, key in re.findall(r'(\w+)\.\w+ = \w+\.file\("(\w+)", base\)', source.read_text())
        if section != "server"  # the sweep's own
    ]
    assert len(found) > 15
    document: dict[str, Any] = {"services": [{}]}
    for path in found:
        _at(document, path)[path[-1]] = "some/where"
    read = agent_file.read_agent_file(written(tmp_path, document))
    assert {_at(read, path)[path[-1]] for path in found} == {str(tmp_path / "some/where")}


def _at(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    at = document["services"][0] if path[0] in ("match", "latency", "counters") else document
    for key in path[:-1]:
        at = at.setdefault(key, {})
    return at


def test_services_that_cannot_be_swept_are_refused(tmp_path: Path) -> None:
    document = agent_file.read_agent_file(written(tmp_path, CONFIG))
    with pytest.raises(InputError, match="--service is 'none', expected one of the configuration: job, web"):
        agent_file.service_entry(document, "none")
    with pytest.raises(InputError, match="--service job has class be, expected lc"):
        agent_file.service_entry(document, "job")
    document["services"][1]["limits"] = {"max_core_step": 2}
    with pytest.raises(InputError, match=r"limits\.max_core_step of 'job' allows small steps only"):
        agent_file.service_entry(document, "web")
    for text, words in (("[", "is not YAML"), ("a: 1", "has no list 'services'")):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(InputError, match=words):
            agent_file.read_agent_file(tmp_path / "bad.yaml")


@pytest.mark.parametrize("given", ["0.5", "33.9", "20,1e-3"])
def test_throttles_are_whole_numbers(given: str) -> None:
    with pytest.raises(InputError, match=rf"--mba is '{given}', expected whole numbers"):
        command._whole_numbers(given, "--mba")
    assert command._whole_numbers("20,100", "--mba") == [20, 100]


def test_a_throttle_that_the_node_does_not_have_is_refused_before_the_first_cell() -> None:
    conditions = [journals.Condition(), journals.Condition(mba=20), journals.Condition(mba=5)]
    command._check_throttles(conditions[:2], MbaRange(10, 100, 10))
    command._check_throttles(conditions[:1], None)
    with pytest.raises(InputError, match=r"--mba has 5, expected 10 to 100 \(percent\)"):
        command._check_throttles(conditions, MbaRange(10, 100, 10))
    with pytest.raises(MachineError, match="this node cannot throttle memory bandwidth"):
        command._check_throttles(conditions, None)


def test_only_the_agent_with_the_token_gets_decisions() -> None:
    walk = walking.Walk(
        "web", frozenset(), walking.Rails(), [journals.Condition()], [], lambda _: None, design=design.next_cell
    )
    seen = Observation("n", 1, 1.0, 1.0, Platform(id="vm", cores=2, cpus="0-1"), [Service("web", "lc", target_ms=10.0)])
    with decisions.Decisions(walk, "secret") as server:
        url, body = f"{server.url}/v1/decisions", msgspec.json.encode(seen)
        assert httpx.post(url, content=body).status_code == 401
        mine = {"authorization": "Bearer secret"}
        assert httpx.post(url, content=b"{}", headers=mine).status_code == 422
        assert httpx.post(f"{server.url}/other", content=body, headers=mine).status_code == 404
        answer = httpx.post(url, content=body, headers=mine)
        assert answer.status_code == 200
        assert answer.json()["policy"] == "sweep"
        assert answer.json()["partition"]["regions"] == [{"owners": ["web"], "cores": 2, "ways": 0}]


VM = Platform(id="vm", cores=20, cpus="0-1", core_quantum=0.1)
SEEN = Observation("n", 1, 1.0, 1.0, VM, [Service("web", "lc", target_ms=10.0)])


def of_another_program(folder: Path) -> Path:
    folder.mkdir()
    write_description(folder, DatasetDescription("set", Provenance("virtual", "osml data collect"), []))
    return folder


@pytest.mark.parametrize(
    ("platform", "words"), [("vm", "contains another collection"), ("../x", "platform is '../x', expected 1 to 63")]
)
def test_a_sweep_that_could_not_be_kept_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, words: str
) -> None:
    folder = of_another_program(tmp_path / "set") if platform == "vm" else tmp_path / "set"
    seen = msgspec.structs.replace(SEEN, platform=msgspec.structs.replace(SEEN.platform, id=platform))
    monkeypatch.setattr("osml.lab.trials.children.interrupt_on_signals", lambda: None)
    monkeypatch.setattr(running, "look", lambda *_: [seen])
    monkeypatch.setattr(running, "sweep", lambda *_: pytest.fail("it began"))
    setup = running.Setup(Path("osml-agent"), {}, "web", frozenset())
    with pytest.raises(InputError, match=words):
        command._run(setup, folder, simulated=True, dry_run=False, yes=True, json=False)


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        (Platform(id="vm", cores=2, cpus="0-1"), r"web can have 2 different allocations here, expected at least 4"),
        (
            Platform(
                id="epyc", cores=16, cpus="0-15", ways=16,
                domains=[CacheDomain(0, "0-7"), CacheDomain(1, "8-15")],
            ),
            r"the agent uses 2 cache domains, expected one: .*; set cpu\.cpus of the agent to the CPUs of one cache",
        ),
    ],
)  # fmt: skip
def test_a_sweep_that_could_give_no_label_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: Platform, words: str
) -> None:
    seen = msgspec.structs.replace(SEEN, platform=platform)
    monkeypatch.setattr("osml.lab.trials.children.interrupt_on_signals", lambda: None)
    monkeypatch.setattr(running, "look", lambda *_: [seen])
    setup = running.Setup(Path("osml-agent"), {}, "web", frozenset())
    with pytest.raises(MachineError, match=words):
        command._run(setup, tmp_path / "set", simulated=True, dry_run=True, yes=False, json=False)


def test_a_node_of_several_caches_is_swept_on_one_of_them() -> None:
    platform = Platform(
        id="epyc", cores=8, cpus="0-7", ways=16, domains=[CacheDomain(0, "0-7"), CacheDomain(1, "8-15")]
    )
    room.check_room(room.room_of([msgspec.structs.replace(SEEN, platform=platform)], "web"), platform)


def test_rows_that_cannot_be_kept_are_an_error_and_no_rows_are_none(tmp_path: Path) -> None:
    journal = journals.Journal(of_another_program(tmp_path / "set"), ABOUT)
    with pytest.raises(InputError, match="contains another collection"):
        command._write(tmp_path / "set", None, simulated=True)
    journal.close()
    journals.Journal(tmp_path / "empty", ABOUT).close()
    assert command._write(tmp_path / "empty", None, simulated=True) == 0
    assert command._write(tmp_path / "nowhere", None, simulated=True) == 0


def test_the_sweep_of_another_machine_is_refused_before_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    journals.Journal(folder, msgspec.structs.replace(ABOUT, platform="other")).close()
    monkeypatch.setattr("osml.lab.trials.children.interrupt_on_signals", lambda: None)
    monkeypatch.setattr(running, "look", lambda *_: [SEEN])
    monkeypatch.setattr(running, "sweep", lambda *_: pytest.fail("it began"))
    monkeypatch.setattr(command, "_write", lambda *_, **__: pytest.fail("it wrote traces"))
    setup = running.Setup(Path("osml-agent"), {}, "web", frozenset())
    with pytest.raises(InputError, match="is a sweep with platform 'other', now it is 'vm': use another folder"):
        command._run(setup, folder, simulated=True, dry_run=True, yes=True, json=False)


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_a_killed_sweep_left_is_given_back_whatever_the_next_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    done: list[str] = []
    folder = of_another_program(tmp_path / "set")
    (folder / running.RUNNING).touch()
    monkeypatch.setattr("osml.lab.trials.children.interrupt_on_signals", lambda: None)
    monkeypatch.setattr(running, "restore_before", lambda _: done.append("restored"))
    monkeypatch.setattr(running, "look", lambda *_: [SEEN])
    setup = running.Setup(Path("osml-agent"), {}, "web", frozenset())
    with pytest.raises(InputError, match="contains another collection"):
        command._run(setup, folder, simulated=True, dry_run=dry_run, yes=True, json=False)
    assert done == ([] if dry_run else ["restored"])


def test_what_ended_a_sweep_is_said_whatever_becomes_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the node is not as before is not lost in what is wrong with the traces."""
    wrote: list[Path] = []

    def refuse(out: Path, *_: Any, **__: Any) -> int:
        wrote.append(out)
        raise InputError("the traces are of another machine")

    def fail(*_: Any) -> None:
        raise Failure("the node could not be restored: no; run it again")

    monkeypatch.setattr("osml.lab.trials.children.interrupt_on_signals", lambda: None)
    monkeypatch.setattr(running, "look", lambda *_: [SEEN])
    monkeypatch.setattr(running, "sweep", fail)
    monkeypatch.setattr(command, "_write", refuse)
    setup = running.Setup(Path("osml-agent"), {}, "web", frozenset())
    with pytest.raises(Failure, match="the node could not be restored"):
        command._run(setup, tmp_path / "set", simulated=True, dry_run=False, yes=True, json=False)
    assert wrote == [tmp_path / "set"]
