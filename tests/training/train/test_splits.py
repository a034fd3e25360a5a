"""Who is held out: never rows of one run on both sides, nor one load with other threads."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")

from hypothesis import given, settings
from hypothesis import strategies as st
from osml_training.tables.runs import RunKey
from osml_training.train.config import CONFIGS, Split, read_config, shipped_config
from osml_training.train.groups import HIDDEN_IN_CLOUDS, hidden, membership
from osml_training.train.splits import for_data, part_of, split_for
from osml_training.transfer.trace_shares import share_of_runs

from osml.base.failure import InputError


def _key(
    service: str = "moses", load: float | None = 0.5, threads: int = 36, run: str = "r", neighbours: int = 0
) -> RunKey:
    return RunKey("e5-2697v4", service, run, load, threads, neighbours)


@settings(deadline=None)  # a busy machine is no failure
@given(st.floats(0.05, 1), st.integers(1, 64), st.integers(1, 64))
def test_all_threads_of_one_load_are_on_one_side(load: float, threads: int, others: int) -> None:
    split = Split()
    assert part_of(_key(load=load, threads=threads, run="x"), split) == part_of(
        _key(load=load, threads=others, run="y"), split
    )


def test_unseen_services_are_never_in_training() -> None:
    for service in ("silo", "shore", "mysql", "redis", "nodejs"):
        parts = {part_of(_key(service, load / 100, run=str(load)), Split()) for load in range(100)}
        assert parts == {"unseen"}


def test_shares_are_as_asked() -> None:
    keys = [_key(f"s{i}", run=f"{i}-{k}", neighbours=2) for i in range(20) for k in range(200)]
    parts = [part_of(key, Split()) for key in keys]
    for name, share in (("test", 0.3), ("calibration", 0.15), ("validation", 0.05), ("train", 0.5)):
        assert parts.count(name) / len(parts) == pytest.approx(share, abs=0.03)


def test_another_seed_is_another_split() -> None:
    keys = [_key(load=load / 100) for load in range(5, 100)]
    assert [part_of(k, Split()) for k in keys] != [part_of(k, Split(seed=1)) for k in keys]


def test_a_larger_share_of_traces_has_the_smaller_in_it_and_some_of_every_service() -> None:
    keys = [_key(f"s{i}", load=k / 100, run=f"{i}-{k}") for i in range(5) for k in range(10, 100)]
    split = Split(unseen=())
    few, many = (share_of_runs(keys, share, split) for share in (0.02, 0.3))
    training = [key for key in keys if part_of(key, split) == "train"]
    assert {key.service for key in training if few(key)} == {f"s{i}" for i in range(5)}
    assert {key.run for key in keys if few(key)} < {key.run for key in keys if many(key)}
    assert sum(map(many, training)) == pytest.approx(0.3 * len(training), rel=0.1)
    assert not any(many(key) for key in keys if part_of(key, split) == "test")


@pytest.mark.parametrize("model", ["a", "a2", "b", "b2"])
@pytest.mark.parametrize("variant", ["paper", "masked"])
def test_shipped_configs_are_whole(model: str, variant: str) -> None:
    config = shipped_config(model, variant)
    assert (config.model, config.variant) == (model, variant)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dropout": 2}, "dropout is 2.0, expected 0 to 0.95"),
        ({"head_weight_decay": -1}, "head_weight_decay is -1.0, expected 0 to 10"),
        ({"hidden_learning_rate": -1}, "hidden_learning_rate is -1.0, expected 1e-08 to 10"),
        ({"context": ["colour"]}, "context or leave_out has 'colour'"),
        ({"colour": 1}, "unknown field `colour`"),
        ({"hidden": []}, "hidden is"),
        ({"split": {"test": 0.6, "calibration": 0.4}}, "split holds out 1.05"),
        ({"epochs": "many"}, "Expected `int`"),
    ],
)
def test_a_wrong_config_names_field_and_value(changes: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        read_config(CONFIGS / "a-masked.yaml", changes)


def test_hiding_counters_touches_these_only() -> None:
    inputs = ("ipc", "cores", "bandwidth_gbps", "llc_misses_per_s")
    x = np.ones((3, 4), np.float32)
    found = hidden(x, inputs, HIDDEN_IN_CLOUDS)
    assert np.isnan(found).tolist() == [[True, False, True, True]] * 3
    assert not np.isnan(x).any()
    assert membership(inputs).sum() == 3


def test_variants_are_for_training_and_those_of_unseen_services_are_strangers() -> None:
    assert {part_of(_key("moses~3", k / 100, run=str(k)), Split()) for k in range(100)} == {"train"}
    assert {part_of(_key("silo~1", k / 100, run=str(k)), Split()) for k in range(100)} == {"strangers"}
    keys = [_key("moses", k / 100, run=str(k))._replace(platform="e5-2697v4~2") for k in range(100)]
    assert {part_of(key, Split()) for key in keys} == {"train"}
    assert part_of(_key("silo", 0.5)._replace(platform="e5-2697v4~2"), Split()) == "none"


@settings(deadline=None)
@given(st.integers(4, 12), st.integers(0, 5))
def test_few_runs_have_one_in_each_part(count: int, seed: int) -> None:
    keys = [_key(load=k / count, run=str(k)) for k in range(1, count + 1)]
    split = split_for(keys, Split(seed=seed))
    assert {part_of(key, split) for key in keys} == {"train", "validation", "calibration", "test"}
    assert split == split_for(reversed(keys), Split(seed=seed))


def test_runs_of_a_live_sweep_whose_share_of_the_load_nobody_knows_have_one_in_each_part() -> None:
    keys = [_key(load=None, run=str(k)) for k in range(1, 7)]
    split = split_for(keys, Split())
    assert {part_of(key, split) for key in keys} == {"train", "validation", "calibration", "test"}


def test_loads_of_one_band_are_one_and_what_to_measure_is_said() -> None:
    close = [_key(load=None, run=str(rate))._replace(rate=rate) for rate in (920.0, 1000.0, 1050.0, 1100.0)]
    with pytest.raises(InputError, match=r"has 1 runs .* measure more loads, each 25% above the one before"):
        split_for(close, Split())
    apart = [_key(load=None, run=str(k))._replace(rate=100 * 1.3**k) for k in range(6)]
    split = split_for(apart, Split())
    assert split.rate_band == 0.25
    assert {part_of(key, split) for key in apart} == {"train", "validation", "calibration", "test"}


def test_models_of_older_versions_keep_their_parts() -> None:
    """What they learned from must not come into their test with an upgrade."""
    keys = [_key(load=None, run=str(rate))._replace(rate=float(rate)) for rate in range(900, 1100)]
    old = msgspec.convert({"band": 0.02, "seed": 3}, Split)
    assert len({part_of(key, old) for key in keys}) > 1
    wide = Split(seed=3, rate_band=0.02)
    assert [part_of(key, old) for key in keys] == [part_of(key, wide) for key in keys]


def test_many_runs_have_the_split_that_was_asked_for() -> None:
    keys = [_key(f"s{i}", load=k / 50, run=f"{i}-{k}") for i in range(4) for k in range(1, 51)]
    assert split_for(keys, Split(seed=3)) == Split(seed=3)


def test_a_held_out_service_is_trained_on_where_it_is_all_there_is() -> None:
    keys = [_key("redis", load=k / 10, run=str(k)) for k in range(1, 7)]
    assert {part_of(key, split_for(keys, Split())) for key in keys} >= {"train", "test"}
    both = [*keys, *(_key("moses", load=k / 50, run=f"m{k}") for k in range(1, 51))]
    assert split_for(both, Split()) == Split()


def test_too_few_loads_are_said_with_what_is_needed() -> None:
    keys = [_key(load=0.5, threads=threads, run=str(threads)) for threads in range(1, 9)]
    with pytest.raises(InputError, match=r"has 1 runs of other loads .* expected at least 4: .* measure more loads"):
        split_for(keys, Split())


def test_the_users_own_services_are_trained_on_whatever_they_are_called() -> None:
    assert for_data(Split(), real=True).unseen == ()
    assert for_data(Split(), real=False) == Split()
    own = Split(unseen=("redis",))
    assert for_data(own, real=True) == own


def test_the_same_record_in_two_files_is_in_one_part() -> None:
    """Each file numbers its runs in its own way; nobody knows the load of a live node as a share."""
    split = Split()
    for rate in np.geomspace(10, 10_000, 50).tolist():
        for neighbours in (0, 3):
            one, other = (_key(load=None, run=run, neighbours=neighbours)._replace(rate=rate) for run in ("x", "y"))
            assert part_of(one, split) == part_of(other, split)
    parts = {part_of(_key(load=None)._replace(rate=rate), split) for rate in np.geomspace(10, 10_000, 50).tolist()}
    assert parts == {"train", "validation", "calibration", "test"}
    unknown = {part_of(_key(load=None, run=str(k)), split) for k in range(100)}
    assert len(unknown) == 4
