"""The shipped Model-C as a node loads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from osml.domain import Counters, Latency, Observation, Partition, Platform, Region, Service
from osml.failure import InputError
from osml.predictors import (
    FEATURES,
    ManifestEntry,
    QFunction,
    feature_rows,
    find_model,
    load_manifest,
    load_predictor,
    load_q_function,
    models_folder,
    read_metadata,
)
from osml.predictors.actions import ACTION_NAMES, N_ACTIONS, NO_CHANGE, action_of, legal_actions

pytest.importorskip("onnxruntime")

ENTRIES = [entry for entry in load_manifest(models_folder()).models if entry.kind == "c"]
shipped = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def _opened() -> QFunction:
    return load_q_function(find_model(models_folder(), "c", "e5-2697v4"))


def _observation(latency_ms: float, cpus: float, cores: int, ways: int) -> Observation:
    platform = Platform("e5-2697v4", 36, "0-35", ways=20, way_mib=2.25, bandwidth_gbps=76.8, frequency_ghz=2.3)
    moses = Service(
        "moses", "lc", target_ms=10.0,
        latency=Latency(mean_ms=latency_ms / 3, p50_ms=latency_ms / 4, p99_ms=latency_ms, requests_per_s=1000.0),
        counters=Counters(
            cpu_usage_cores=cpus, ipc=0.9, llc_misses=2e7, bandwidth_gbps=2.0, frequency_ghz=2.6, llc_occupancy_mib=9.0
        ),
    )  # fmt: skip
    return Observation(
        "n", 0, 0.0, 1.0, platform, [moses], partition=Partition([Region(["moses"], cores, ways)])
    )  # fmt: skip


def test_a_model_c_is_shipped_for_the_papers_platform() -> None:
    assert "e5-2697v4" in {entry.platform for entry in ENTRIES}


def test_actions_have_names_in_their_order() -> None:
    assert len(ACTION_NAMES) == len(set(ACTION_NAMES)) == N_ACTIONS
    assert (ACTION_NAMES[0], ACTION_NAMES[NO_CHANGE], ACTION_NAMES[48]) == ("<-3,-3>", "<0,0>", "<3,3>")


@shipped
def test_its_inputs_can_be_observed_and_its_outputs_are_the_actions(entry: ManifestEntry) -> None:
    opened = load_q_function(models_folder() / entry.name)
    assert opened.metadata.answers == ACTION_NAMES
    assert set(opened.metadata.inputs) <= set(FEATURES)
    assert opened.metadata.platforms == [entry.platform]


@shipped
def test_it_bears_any_input(entry: ManifestEntry) -> None:
    opened = load_q_function(models_folder() / entry.name)
    wild = np.array([np.nan, np.inf, -np.inf, 0, -1, 3e38, 1e-38], np.float32)
    found = opened.q(np.repeat(wild[:, None], len(opened.metadata.features), axis=1))
    assert found.shape == (7, N_ACTIONS)
    assert np.isfinite(found).all()


def test_it_gives_to_who_suffers_and_takes_from_who_has_far_too_much() -> None:
    opened = _opened()
    names = opened.metadata.inputs
    rich = feature_rows(_observation(latency_ms=2.0, cpus=3.0, cores=30, ways=16), ["moses"], names)
    poor = feature_rows(_observation(latency_ms=300.0, cpus=2.99, cores=3, ways=2), ["moses"], names)
    less = action_of(int(opened.best(rich, legal_actions(30, 16, 6, 4)[None])[0]))
    more = action_of(int(opened.best(poor, legal_actions(3, 2, 33, 18)[None])[0]))
    assert min(less) < 0 >= max(less)
    assert more[0] > 0  # whoever has no core idle


def test_best_is_legal_and_no_mask_may_be_empty() -> None:
    opened = _opened()
    rows = np.random.default_rng(0).uniform(0, 10, (200, len(opened.metadata.features))).astype(np.float32)
    masks = (np.random.default_rng(1).random((200, N_ACTIONS)) < 0.1).astype(np.int8)
    masks[:, NO_CHANGE] = 1
    chosen = opened.best(rows, masks)
    assert (masks[np.arange(200), chosen] == 1).all()
    gain = opened.q(rows)[np.arange(200), chosen] - opened.q(rows)[:, NO_CHANGE]
    bar = float(np.median(gain))
    held = opened.best(rows, masks, margin=bar)
    np.testing.assert_array_equal(held, np.where(gain > bar, chosen, NO_CHANGE))
    assert 0 < (held == NO_CHANGE).mean() < 1
    masks[:, NO_CHANGE] = 0
    masks[:, 0] = 1
    assert (opened.best(rows, masks, margin=1e9) != NO_CHANGE).all()  # nothing else is legal
    with pytest.raises(InputError, match="at least one legal action"):
        opened.best(rows[:1], np.zeros((1, N_ACTIONS), np.int8))
    with pytest.raises(InputError, match=r"masks have shape \(2, 49\)"):
        opened.best(rows[:1], masks[:2])


def test_rows_of_another_width_and_models_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"features have shape \(1, 3\)"):
        _opened().q(np.zeros((1, 3), np.float32))
    with pytest.raises(InputError, match=r"outputs are .*'points'"):
        load_q_function(find_model(models_folder(), "a", "e5-2697v4"))
    folder = find_model(models_folder(), "c", "e5-2697v4")
    with pytest.raises(InputError, match=r"outputs are \[\('q', 49\)\]"):
        load_predictor(folder)
    copy = Path(shutil.copytree(folder, tmp_path / "c"))
    metadata = read_metadata(copy)
    swapped = msgspec.structs.replace(metadata, outputs=metadata.outputs[::-1])
    (copy / "metadata.json").write_bytes(msgspec.json.encode(swapped))
    with pytest.raises(InputError, match="outputs are not the 49 actions of Model-C"):
        load_q_function(copy)
