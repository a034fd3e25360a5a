"""The shipped Model-C as a node loads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from osml.base.failure import InputError
from osml.domain import Observation, Partition, Region
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
from osml.simulator import catalogs
from osml.simulator.closed_loop import describe, observed_service
from osml.simulator.engine import flows_of
from osml.simulator.measure import measure
from osml.simulator.node_platform import domain_platform
from osml.simulator.state import Grant, Node
from osml.simulator.steady import MEASURED_S, steady_rows

pytest.importorskip("onnxruntime")

ENTRIES = [entry for entry in load_manifest(models_folder()).models if entry.kind == "c"]
shipped = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def _opened() -> QFunction:
    return load_q_function(find_model(models_folder(), "c", "e5-2697v4"))


def _observation(name: str, load: float, cores: int, ways: int) -> Observation:
    """A service alone on the virtual node, settled on so many cores and ways."""
    platform = catalogs.platform("e5-2697v4")
    node = Node(platform, (catalogs.service(name, platform.id),))
    grant = Grant(frozenset(platform.cpu_order()[:cores]), (1 << ways) - 1)
    flows = flows_of(node, steady_rows(node, [grant], {name: load}), MEASURED_S)
    seen = observed_service(describe(node, {name: load})[0], measure(flows, np.random.default_rng(0)))
    parted = Partition([Region([name], cores, ways)])
    return Observation("n", 0, 0.0, 1.0, domain_platform(platform), [seen], partition=parted)


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


@pytest.mark.parametrize("name", ["moses", "xapian", "img-dnn", "nginx"])
def test_it_gives_to_who_suffers_and_takes_from_who_has_far_too_much(name: str) -> None:
    opened = _opened()

    def chosen(load: float, cores: int, ways: int) -> tuple[int, int]:
        rows = feature_rows(_observation(name, load, cores, ways), [name], opened.metadata.inputs)
        return action_of(int(opened.best(rows, legal_actions(cores, ways, 36 - cores, 20 - ways)[None])[0]))

    rich, poor = chosen(0.1, 30, 16), chosen(0.5, 2, 2)  # the shipped one was trained where 0.2 was little
    assert rich[0] / 36 + rich[1] / 20 < -0.05
    assert poor[0] > 0 <= poor[1]


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
