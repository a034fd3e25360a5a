"""A twin is made from a record: deterministic, narrower with more data, honest about what it cannot know."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from osml.base.failure import InputError
from osml.base.whole_file import write_whole
from osml.domain import Counters, Observation
from osml.records import Line, Record
from osml.twin.check import checked, predictions
from osml.twin.document import Twin, is_twin, load, save
from osml.twin.fit import assimilated
from osml.twin.make import made, noise_of
from osml.twin.scenes import scenes_of
from osml.twin.trajectory import along
from tests.kit.twin_records import managed, watched


@pytest.fixture(scope="module")
def twin() -> Twin:
    return made(watched(), seed=1, members=16)


def _without(record: Record, change: dict[str, object]) -> Record:
    """The record with other services: what `change` says, in every interval."""
    lines: list[Line] = []
    for line in record.lines:
        services = [msgspec.structs.replace(one, **change) for one in line.observation.services]
        observation: Observation = msgspec.structs.replace(line.observation, services=services)
        lines.append(Line(observation, line.decision))
    return Record(lines)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(twin: Twin, tmp_path: Path) -> None:
    save(twin, tmp_path / "a.json")
    save(made(watched(), seed=1, members=16), tmp_path / "b.json")
    save(made(watched(), seed=2, members=16), tmp_path / "c.json")
    first, same, other = ((tmp_path / name).read_bytes() for name in ("a.json", "b.json", "c.json"))
    assert first == same
    assert first != other


def test_a_twin_comes_back_from_disk_as_it_was(twin: Twin, tmp_path: Path) -> None:
    file = tmp_path / "twin.json"
    save(twin, file)
    assert load(file) == twin
    assert is_twin(file)
    assert not is_twin(tmp_path / "nothing.json")


def test_a_twin_of_an_older_version_is_read(twin: Twin, tmp_path: Path) -> None:
    """Its tenants have two keys more that nobody read, and no limits of the operator."""
    file = tmp_path / "twin.json"
    save(twin, file)
    document = msgspec.json.decode(file.read_bytes())
    for one in document["tenants"]:
        for name in ("min_cores", "max_cores", "min_ways", "max_ways"):
            del one[name]
        one |= {"ideal_ms": 1.5, "speed_solo": None}
    file.write_bytes(msgspec.json.encode(document))
    assert load(file) == twin


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"osml/twin/v1"', b'"osml/twin/v9"', "is not a twin"),
        (b'"name": "cpi"', b'"name": "cpu"', "is unknown"),
        (b'"of": "service-1"', b'"of": "nobody"', "of 'nobody' is unknown"),
        (b'"logs": [', b'"logs": [0.5,', "members, expected one number"),
    ],
)
def test_a_damaged_twin_is_refused_in_one_sentence(
    twin: Twin, tmp_path: Path, old: bytes, new: bytes, said: str
) -> None:
    file = tmp_path / "twin.json"
    save(twin, file)
    file.write_bytes(file.read_bytes().replace(old, new, 1))
    with pytest.raises(InputError, match=said):
        load(file)


def test_what_a_record_did_not_change_is_said(twin: Twin) -> None:
    assert "service-1: the record never changed its ways" in twin.unknown
    assert any(text.startswith("hypervisor:") for text in twin.unknown)
    changed = made(managed(), seed=1, members=16)
    assert "service-1: the record never changed its ways" not in changed.unknown


def test_more_data_narrows_the_posterior() -> None:
    rng = np.random.default_rng(0)
    logs, errors = rng.standard_normal((400, 1)), np.full(40, 0.5)
    spreads: list[float] = []
    for count in (1, 5, 40):
        shows = np.repeat(logs, count, axis=1)
        moved = assimilated(logs, shows, np.full(count, 0.7), errors[:count], [np.arange(count)], 1.0, rng)
        spreads.append(float(moved.std()))
        exact = 1.0 / np.sqrt(1.0 + count / 0.25)
        assert moved.std() == pytest.approx(exact, rel=0.2)
    assert spreads[0] > spreads[1] > spreads[2]


def test_without_counters_a_twin_is_made_and_what_is_missing_is_said() -> None:
    bare = _without(watched(), {"counters": Counters()})
    blind = made(bare, seed=1, members=16)
    assert any("its CPU time was not measured" in text for text in blind.unknown)


def test_a_day_without_load_teaches_nothing_and_that_is_said() -> None:
    with pytest.raises(InputError, match="nothing can be learned"):
        made(_without(watched(), {"latency": None}), members=16)


def test_a_record_of_one_line_is_too_short() -> None:
    with pytest.raises(InputError, match="give a longer record"):
        made(watched().part(0, 1), members=16)


def test_more_services_than_a_virtual_node_has_are_refused_in_one_sentence() -> None:
    lines: list[Line] = []
    for line in watched().part(0, 20).lines:
        services = [msgspec.structs.replace(one, name=f"{one.name}-{copy}")
                    for copy in range(13) for one in line.observation.services]  # fmt: skip
        lines.append(Line(msgspec.structs.replace(line.observation, services=services), line.decision))
    with pytest.raises(InputError, match="has 52 services and jobs, a twin has at most 48; give a record"):
        made(Record(lines), members=16)


def test_it_predicts_what_it_was_not_fitted_to_better_than_by_chance() -> None:
    record = watched(240)
    found = checked(made(record.part(0, 180), seed=1, members=16), record.part(180, 240), members=8)
    score = found["overall"]["twin"]
    assert score["intervals"] > 100
    assert score["within_25pct"] > 0.3
    assert 0.6 < score["coverage_90"] <= 1.0
    assert set(found["overall"]) == {"twin", "twin_one_ahead", "last_interval", "mean_by_load"}


def test_a_record_of_another_machine_is_not_predicted(twin: Twin) -> None:
    lines = [Line(msgspec.structs.replace(line.observation, node="other"), line.decision) for line in watched().lines]
    with pytest.raises(InputError, match="the record is of node 'other', the twin of 'hidden'"):
        checked(twin, Record(lines))


def test_who_is_not_there_does_not_press_on_the_others() -> None:
    """A job that is gone in the second half no longer slows the services there."""
    whole, lines = watched(), list(watched().lines)
    for at, line in enumerate(lines[60:], start=60):
        left = [one for one in line.observation.services if one.name != "job-1"]
        lines[at] = Line(msgspec.structs.replace(line.observation, services=left), line.decision)
    ensemble = made(whole, seed=1, members=16).ensemble.some(2)
    full, half = along(ensemble, whole), along(ensemble, Record(lines))
    assert np.array_equal(full[:, :60], half[:, :60], equal_nan=True)
    assert np.nanmean(half[:, 70:] - full[:, 70:]) < -0.01


def test_who_stays_keeps_its_queue_and_cache_when_another_goes_and_comes() -> None:
    whole, lines = watched(), list(watched().lines)
    seen = lines[80].observation
    left = [one for one in seen.services if one.name != "job-1"]
    lines[80] = Line(msgspec.structs.replace(seen, services=left), lines[80].decision)
    ensemble = made(whole, seed=1, members=16).ensemble.some(2)
    full, half = along(ensemble, whole), along(ensemble, Record(lines))
    assert np.nanmax(np.abs(half[:, 82:86] - full[:, 82:86])) < 0.1


def test_what_was_applied_is_told_line_by_line() -> None:
    """A day of watching and then one of managing: allocations count where they were in force."""
    watching, applied = watched(), managed()
    both = Record([*watching.lines, *applied.lines], frozenset({len(watching.lines)}))
    assert not both.dry_run
    scenes = scenes_of(both)
    before = [scene for scene in scenes if scene.intervals[-1] < len(watching.lines)]
    after = [scene for scene in scenes if scene.intervals[0] >= len(watching.lines)]
    assert len(before) + len(after) == len(scenes)
    assert before
    assert after
    assert all(not scene.grants for scene in before)
    assert all(scene.grants for scene in after)


def _of_class(record: Record, name: str, kind: str, first: int) -> Record:
    """The record in which somebody has another class from a line on."""
    lines = list(record.lines)
    for at in range(first, len(lines)):
        seen = lines[at].observation
        services = [msgspec.structs.replace(one, kind=kind) if one.name == name else one for one in seen.services]
        lines[at] = Line(msgspec.structs.replace(seen, services=services), lines[at].decision)
    return Record(lines)


@pytest.mark.parametrize(("name", "kind"), [("job-1", "lc"), ("service-1", "be")])
def test_who_was_a_job_and_then_a_service_is_refused(twin: Twin, name: str, kind: str) -> None:
    """A target in the agent's file makes a service of a job: no number of a twin is for both."""
    before = "be" if kind == "lc" else "lc"
    with pytest.raises(InputError, match=f"'{name}' has class {kind} in line 61 and {before} before"):
        made(_of_class(watched(), name, kind, 60), seed=1, members=16)
    with pytest.raises(InputError, match=f"'{name}' has class {kind} in the record and {before} in the twin of node"):
        checked(twin, _of_class(watched(), name, kind, 0))


def test_a_record_is_checked_at_the_percentile_of_its_own_targets(twin: Twin) -> None:
    """A target of the twin's record for p99 says nothing of a record with a target for the mean."""
    record = _without(watched(), {"percentile": "mean"})
    known = [one.latency for line in record.lines for one in line.observation.services if one.name == "service-1"]
    means = {round(math.log(one.mean_ms), 9) for one in known if one is not None and one.mean_ms}
    rows = predictions(twin, record, 2)["last_interval"]["service-1"]
    assert {round(now, 9) for now, *_ in rows} <= means


def test_a_twin_that_can_not_be_written_leaves_the_old_one(
    twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server reads the folder of twins all the time: half a document would be none."""
    file = tmp_path / "twin.json"
    save(twin, file)
    file.chmod(0o640)
    before = file.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match=r"twin\.json can't be written: No space left on device"):
            save(msgspec.structs.replace(twin, node="other"), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    save(msgspec.structs.replace(twin, node="other"), file)
    assert load(file).node == "other"
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"page")
    assert os.read(reader, 10) == b"page"
    os.close(reader)
    assert pipe.is_fifo()


def test_what_was_before_a_gap_predicts_nothing_behind_it(twin: Twin) -> None:
    whole = watched()
    gap = Record(whole.lines, frozenset({60}))
    before, found = (predictions(twin, record, 2) for record in (whole, gap))
    for predictor in ("last_interval", "twin_one_ahead"):
        assert len(found[predictor]["service-1"]) == len(before[predictor]["service-1"]) - 1
    every = Record(whole.lines, frozenset(range(1, len(whole.lines))))
    assert noise_of(twin.ensemble, whole)
    assert noise_of(twin.ensemble, every) == {}
