"""One assumed number at a time: which there are, what replacing one changes, and how a run goes on."""

import msgspec
import pytest

from osml.simulator import catalogs
from osml.simulator.calibration.sensitivity import sweep as sweeps
from osml.simulator.calibration.sensitivity.assumed import AS_IS, Constant, assumed_in, constants, entries
from osml.simulator.calibration.sensitivity.sweep import known_rows, sweep
from osml.simulator.calibration.sensitivity.variant import Row, replaced_constant, replaced_field
from osml.simulator.models import PlatformModel
from osml.simulator.physics import cpu


def test_all_constants_exist_and_have_names_of_their_own():
    found = constants()
    assert len({one.id for one in found}) == len(found) > 50
    assert Constant("physics.cpu", "HABIT", cpu.HABIT) in found
    assert all(one.value is None or one.value > 0.0 for one in found)


def test_published_numbers_are_not_assumed():
    for parameters in entries("platforms").values():
        assert not any("published" in parameters[name] for name in assumed_in("platforms", parameters))
    assert any(assumed_in("platforms", parameters) for parameters in entries("platforms").values())


def test_a_field_is_scaled_where_it_is_assumed_and_nowhere_else(monkeypatch):
    before = {name: catalogs.platform(name) for name in catalogs.platform_names()}
    shipped = catalogs.shipped_entries("platforms.yaml", PlatformModel)
    for name, platform in before.items():
        monkeypatch.setitem(shipped, name, platform)  # puts the dictionary back afterwards
    replaced_field("platforms", "warmup_s", 1.3)
    for name, platform in before.items():
        assumed = "warmup_s" in assumed_in("platforms", entries("platforms")[name])
        assert catalogs.platform(name).warmup_s == pytest.approx(platform.warmup_s * (1.3 if assumed else 1.0))
        assert catalogs.platform(name).smt_speed == platform.smt_speed


def test_a_share_stays_a_share(monkeypatch):
    monkeypatch.setattr(cpu, "CALMED", 0.9)
    replaced_constant("physics.cpu", "CALMED", 1.3)
    assert cpu.CALMED == 1.0


def test_policies_change_places_where_that_is_more_than_a_tie():
    def row(**missed: float) -> Row:
        return Row("x", 0.7, "s", 3, 4, {"alone": missed})

    usual = row(a=0.1, b=0.2)
    assert row(a=0.2, b=0.2).changes_from(usual) == []
    assert row(a=0.205, b=0.2).changes_from(usual) == []
    assert row(a=0.3, b=0.2).changes_from(usual) == ["alone: b before a"]
    assert row(a=0.3, b=0.2).changes_from(row(a=0.195, b=0.2)) == [], "they were as good as each other"
    assert usual.order == {"alone": ["a", "b"]}


def test_rows_of_other_sources_and_torn_lines_are_no_rows(tmp_path):
    file = tmp_path / "rows.jsonl"
    assert known_rows(file, "now", facts_only=True) == {}
    rows = [
        Row("x", 0.7, "now", 3, 4),
        Row("x", 1.3, "before", 3, 4),
        Row("y", 0.7, "now", 3, 4, {"alone": {"arq": 0.1}}),
    ]
    file.write_bytes(b"\n".join(map(msgspec.json.encode, rows)) + b'\n{"constant": "z", "fac')
    assert set(known_rows(file, "now", facts_only=True)) == {("x", 0.7), ("y", 0.7)}
    assert set(known_rows(file, "now", facts_only=False)) == {("y", 0.7)}


def test_a_run_goes_on_where_the_last_one_ended(tmp_path, monkeypatch):
    ran = []

    def run(constant, factor, state, facts_only, facts):
        ran.append((constant.id, factor))
        return Row(constant.id, factor, state, 3, 4)

    monkeypatch.setattr(sweeps, "_run", run)
    file, constant = tmp_path / "new" / "rows.jsonl", constants()[0]
    first = sweep([constant], file, facts_only=True)
    assert ran == [(AS_IS.id, 1.0), (constant.id, 0.7), (constant.id, 1.3)]
    assert sweep([constant], file, facts_only=True) == first
    assert len(ran) == 3


def test_a_variant_of_one_fact_runs_in_a_process_of_its_own(tmp_path):
    fact = ("parties.table2.memcached.cpu_share",)
    rows = sweep([], tmp_path / "rows.jsonl", facts_only=True, facts=fact)
    assert rows[AS_IS.id, 1.0].total >= 1
