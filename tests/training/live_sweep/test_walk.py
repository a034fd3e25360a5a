"""The walk on a node in closed form, and on the virtual node (simulated): rails, rests, resuming, labels."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from osml.datasets.surfaces import surfaces_of
from osml.domain import Counters, Latency, Observation, Outcome, Platform, Service
from osml.frontier import label
from osml.lab.bench.scenario import Scenario
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import parse_mix

walking = pytest.importorskip("osml_training.live_sweep.walk")
journals = pytest.importorskip("osml_training.live_sweep.journal")
design = pytest.importorskip("osml_training.live_sweep.design")
running = pytest.importorskip("osml_training.live_sweep.run")
live = pytest.importorskip("osml_training.collect.live")

Condition, Rails, Walk = journals.Condition, walking.Rails, walking.Walk


class Toy:
    """Twenty tenths of a CPU: web needs 4 of them, db needs `db` ones, the job takes the rest. No noise."""

    def __init__(self, db: int = 3, unit: float = 0.1) -> None:
        self.platform = Platform(id="toy", cores=20, cpus="0-1", core_quantum=unit)
        self.db, self.seq = db, 0
        self.partition: Any = None
        self.outcome: Outcome | None = None
        self.history: list[int | None] = []
        self.silent = False
        self.every = 1  # intervals from one new latency to the next
        self.written: Latency | None = None
        self.written_at = self.since = 0
        self.mute = False  # with too little it answers 4 times more, then no more
        self.rate: float | None = 100.0
        self.late = 0  # with too little its queue takes so many intervals to grow
        self.before: Any = None

    def service(self, name: str, need: int, used: float) -> Service:
        units = None if self.partition is None else self.partition.cores_of(name)
        ms = 2.0 if units is None or units >= need else 200.0 if units < need - 1 else 20.0
        if name == "web" and self.late and ms > 2.0:
            ms = 2.0 if self.since <= self.late else 51.0
        latency = Latency(p99_ms=ms, samples=100 + self.seq, requests_per_s=self.rate)
        if name == "web":
            quiet = self.mute and units is not None and units < need
            if quiet:
                latency = msgspec.structs.replace(latency, p99_ms=2.0)
            due = self.written is None or self.seq - self.written_at >= self.every
            if due and not (quiet and self.since > 4):
                self.written, self.written_at = latency, self.seq
            assert self.written is not None
            latency = msgspec.structs.replace(self.written, age_s=float(self.seq - self.written_at))
        return Service(name, "lc", target_ms=10.0, latency=latency, counters=Counters(cpu_usage_cores=used))

    def observe(self) -> Observation:
        self.seq += 1
        self.since = self.since + 1 if self.partition == self.before else 1
        self.before = self.partition
        services = [self.service("web", 4, 0.3), self.service("db", self.db, 0.1), Service("job", "be")]
        if self.silent and self.partition is not None and self.partition.cores_of("web") < 4:
            services[0] = msgspec.structs.replace(services[0], latency=None)
        return Observation(
            "toy", self.seq, float(self.seq), 1.0, self.platform, services,
            partition=self.partition, outcome=self.outcome,
        )  # fmt: skip

    def run(self, walk: Any, most: int = 600) -> None:
        for _ in range(most):
            self.partition, _ = walk.turn(self.observe())
            self.history.append(self.partition.cores_of("web"))
            if walk.ended is not None:
                return
        raise AssertionError("the walk does not end")


def made(cells: list[Any], finished: tuple[Any, ...] = (), protected: str = "db", **rails: Any) -> Any:
    return Walk(
        "web", frozenset([protected]), Rails(**rails), [Condition()], list(finished), cells.append,
        design=design.next_cell,
    )  # fmt: skip


def test_a_node_without_ways_takes_few_cells_and_finds_the_edge() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    toy.run(walk)
    assert walk.complete
    met = {cell.cell[0] for cell in cells if cell.state == "met"}
    missed = {cell.cell[0] for cell in cells if cell.state == "missed"}
    assert min(met) == 4
    assert max(missed) == 3
    assert len(cells) <= 8  # of 16
    assert all(len(cell.intervals) == 5 for cell in cells if cell.state == "met")
    assert toy.partition.cores_of("web") == 20  # everybody shares again


def test_a_full_sweep_measures_every_cell_that_may_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def decided(_: Any, walk: Any, *__: Any) -> Generator[tuple[Any, Any]]:
        Toy().run(walk)
        yield SimpleNamespace(seen=[], error=None), SimpleNamespace(check=lambda: None)

    monkeypatch.setattr(running, "_decided", decided)
    about = journals.Swept("web", "toy", 20, 0.1, None, 10.0, "p99", ["db", "job"])
    setup = running.Setup(Path("osml-agent"), {}, "web", frozenset(["db"]), design=design.every_cell)
    walk, cells = running.sweep(setup, tmp_path / "set", about, lambda *_: None)
    assert walk.complete
    assert len({cell.cell for cell in cells}) == len(cells) == int(walk.room.allowed().sum())
    assert walk.progress() == (len(cells), len(cells))


def test_a_service_far_beyond_its_target_ends_the_cell_at_once() -> None:
    cells: list[Any] = []
    toy = Toy()
    toy.run(made(cells))
    far = [cell for cell in cells if "far beyond" in cell.why]
    assert far
    assert all(len(cell.intervals) == 1 and cell.latency_ms == 200.0 for cell in far)


def test_a_service_that_does_not_answer_misses_its_target() -> None:
    cells: list[Any] = []
    toy = Toy()
    toy.silent = True
    toy.run(made(cells))
    dead = [cell for cell in cells if cell.state == "silent"]
    assert dead
    assert all(cell.latency_ms is None and cell.why == "no answer" for cell in dead)
    assert {cell.cell[0] for cell in cells if cell.state == "met"} >= {4}


def test_a_service_that_falls_silent_does_not_meet_its_target_by_an_old_latency() -> None:
    """After two samples of 2 ms in a cell nothing new comes, and the agent repeats the last one."""
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    toy.mute = True
    toy.run(walk)
    assert walk.complete
    silent = [cell for cell in cells if cell.state == "silent"]
    assert silent
    assert all(cell.latency_ms is None and len(cell.intervals) == 3 for cell in silent)
    assert all(one.services[0].latency is None for cell in silent for one in cell.intervals)
    assert all(np.isinf(walk.surface()[cell.cell[0] - 1, 0]) for cell in silent)
    assert min(cell.cell[0] for cell in cells if cell.state == "met") == 4


def latencies_of_labels(cells: list[Any], folder: Path) -> Any:
    """(cores,) what the labels say of the cells of web."""
    journal = journals.Journal(folder, journals.Swept("web", "toy", 20, 0.1, None, 10.0, "p99", ["db", "job"]))
    for cell in cells:
        journal.add(cell)
    journal.close()
    live.take_over(folder, [folder / "sweep.jsonl"], simulated=True)
    [file] = folder.rglob("*.parquet")
    [surface] = surfaces_of(file)
    return surface.latency_ms[:, 0]


@pytest.mark.parametrize("rate", [5.0, 0.3])
def test_a_slow_service_that_falls_silent_is_a_miss_in_the_labels_too(tmp_path: Path, rate: float) -> None:
    """In one interval a service with 5 requests/s may have had none: the silence of several says more."""
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    toy.mute, toy.rate = True, rate
    toy.run(walk, most=3000)
    assert walk.complete
    silent = [cell.cell[0] for cell in cells if cell.state == "silent"]
    assert silent
    latency_ms = latencies_of_labels(cells, tmp_path / "set")
    assert np.isinf([latency_ms[units - 1] for units in silent]).all()


def test_a_silent_cell_of_an_unknown_load_says_that_labels_do_not_count_it() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    toy.mute, toy.rate = True, None
    toy.run(walk)
    silent = [cell for cell in cells if cell.state == "silent"]
    assert silent
    assert {cell.why for cell in silent} == {"no answer; labels do not count it, for the load is not known"}


def test_cells_of_older_versions_that_labels_do_not_know_are_measured_again() -> None:
    """They kept one interval of a silence: of 5 requests/s that is too little to say that nobody answered."""
    cells: list[Any] = []
    toy = Toy()
    toy.mute, toy.rate = True, 5.0
    toy.run(made(cells))
    whole = [cell for cell in cells if cell.state == "silent"]
    old = [msgspec.structs.replace(cell, intervals=cell.intervals[:1]) for cell in whole]
    for finished, again in ((whole, False), (old, True)):
        more: list[Any] = []
        fresh = Toy()
        fresh.mute, fresh.rate = True, 5.0
        fresh.run(made(more, tuple(finished)))
        assert bool({cell.cell for cell in more} & {cell.cell for cell in finished}) == again


def test_of_a_far_cell_of_an_older_version_the_last_interval_counts(tmp_path: Path) -> None:
    """It kept the quick ones before it, and their mean could meet the target."""
    cells: list[Any] = []
    toy = Toy()
    toy.late = 12
    toy.run(made(cells, samples=20), most=3000)
    quick = next(cell for cell in cells if cell.state == "met").intervals[0]
    far = [cell.cell[0] for cell in cells if "far beyond" in cell.why]
    assert far

    def before(cell: Any) -> list[Any]:
        return [msgspec.structs.replace(quick, partition=one.partition) for one in cell.intervals]

    old = [
        msgspec.structs.replace(cell, intervals=[*before(cell), *cell.intervals]) if cell.cell[0] in far else cell
        for cell in cells
    ]
    latency_ms = latencies_of_labels(old, tmp_path / "set")
    assert [latency_ms[units - 1] for units in far] == [51.0] * len(far)


def test_a_service_that_is_far_beyond_its_target_after_a_while_misses_it_in_the_labels_too(tmp_path: Path) -> None:
    """Ten intervals of 2 ms and one of 51 ms have a mean that meets 10 ms."""
    cells: list[Any] = []
    walk, toy = made(cells, samples=20), Toy()
    toy.late = 12
    toy.run(walk, most=3000)
    assert walk.complete
    far = [cell.cell[0] for cell in cells if "far beyond" in cell.why]
    assert far
    latency_ms = latencies_of_labels(cells, tmp_path / "set")
    assert [latency_ms[units - 1] for units in far] == [51.0] * len(far)


def test_a_source_that_is_slower_than_the_agent_is_waited_for() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    toy.every = 5
    toy.run(walk, most=3000)
    assert walk.complete
    assert not [cell for cell in cells if cell.state == "silent"]
    met = [cell for cell in cells if cell.state == "met"]
    assert min(cell.cell[0] for cell in met) == 4
    assert max(cell.cell[0] for cell in cells if cell.state == "missed") == 3
    assert all(len(cell.intervals) == 5 and cell.latency_ms == 2.0 for cell in met)


def test_a_source_that_is_too_slow_for_a_sweep_is_refused_before_anything_is_tried() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    toy.every = 25
    toy.run(walk)
    words = "the latency of 'web' was new 3 times in 51 intervals, expected at least once in 20"
    assert walk.ended == f"{words}: let its source write more often"
    assert cells == []


def test_a_protected_neighbour_gets_more_before_anything_is_measured() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy(db=7)
    toy.run(walk)
    assert walk.complete
    assert all(cell.state != "unsafe" for cell in cells)
    assert walk.room.least_cores["db"] >= 7
    assert max(cell.cell[0] for cell in cells) <= 20 - 7 - 1


def test_a_neighbour_that_misses_its_target_ends_the_cell_at_once() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    for _ in range(400):
        toy.partition, _ = walk.turn(toy.observe())
        # db has a hard time whenever web has exactly 8
        toy.db = 99 if toy.partition.cores_of("web") == 8 else 3
        if walk.ended is not None:
            break
    unsafe = [cell for cell in cells if cell.state == "unsafe"]
    assert walk.complete
    assert [cell.cell[0] for cell in unsafe] == [8, 8]  # a second chance: at 16 nobody missed anything
    assert all(cell.intervals == [] and cell.why == "db missed the target" for cell in unsafe)


def test_a_node_that_its_neighbours_need_as_a_whole_is_left_alone() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy(db=30)
    toy.run(walk)
    assert not walk.complete
    assert "the neighbours need the whole node" in walk.ended
    assert cells == []


def test_finished_cells_are_not_measured_again() -> None:
    cells: list[Any] = []
    Toy().run(made(cells))
    again: list[Any] = []
    walk, toy = made(again, tuple(cells)), Toy()
    toy.run(walk)
    assert walk.complete
    assert again == []
    half: list[Any] = []
    Toy().run(made(half, tuple(cells[:3])))
    assert {cell.cell for cell in half} == {cell.cell for cell in cells[3:]}


def test_a_cell_that_the_agent_refuses_is_left_out() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    for _ in range(600):
        wanted, _ = walk.turn(toy.observe())
        refused = wanted.cores_of("web") == 4
        toy.outcome = Outcome(toy.seq, "refused" if refused else "applied", "limits.min_cores is 5" if refused else "")
        toy.partition = toy.partition if refused else wanted
        if walk.ended is not None:
            break
    assert walk.complete
    assert [cell.why for cell in cells if cell.state == "refused"] == ["the agent: limits.min_cores is 5"]


def test_a_service_that_goes_ends_the_sweep_and_leaves_the_node_to_the_others() -> None:
    toy, walk = Toy(), made([])
    for _ in range(3):
        toy.partition, _ = walk.turn(toy.observe())
    seen = toy.observe()
    partition, why = walk.turn(msgspec.structs.replace(seen, services=seen.services[1:]))
    assert walk.ended == why == "service 'web' is not there any more"
    assert partition.cores_of("web") == 0
    assert partition.cores_of("db") > 0


def test_without_a_latency_nothing_begins() -> None:
    cells: list[Any] = []
    walk, toy = made(cells), Toy()
    for _ in range(walk.rails.patience):
        assert walk.ended is None
        seen = toy.observe()
        services = [msgspec.structs.replace(one, latency=None) for one in seen.services]
        seen = msgspec.structs.replace(seen, services=services, missing={"latency.web": "telemetry is stale"})
        toy.partition, _ = walk.turn(seen)
    assert walk.ended == "'web' has no latency: telemetry is stale"
    assert cells == []


@pytest.mark.simulation
def test_on_the_virtual_node_few_cells_give_labels_like_those_of_a_full_sweep() -> None:
    """Simulated, with the noise of five seconds a cell; the job uses the cache that the service leaves."""

    def swept(proposing: Any) -> tuple[Any, int]:
        scenario = Scenario("t", "t", parse_mix("xapian=0.2,be:stream"), "e5-2697v4")
        cells: list[Any] = []
        walk = Walk("xapian", frozenset(), Rails(settle=10), [Condition(load=1.0)], [], cells.append, design=proposing)
        loop = ClosedLoop(scenario.node, scenario.loads, walk, seed=5)
        while walk.ended is None:
            loop.step()
        return label(walk.surface(), scenario.node.services[0].target_ms, platform=(36, 20)), len(cells)

    few, n_few = swept(design.next_cell)
    full, n_full = swept(design.every_cell)
    assert (few.rcliff == full.rcliff).all()
    assert (few.oaa == full.oaa).all()
    assert n_full == 35 * 19
    assert n_few < 60
