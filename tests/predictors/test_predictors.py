"""Feature vectors out of observations, and the shipped models as a node loads them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

from osml.base.failure import InputError
from osml.base.json_file import MissingFileError, read_json
from osml.domain import Assignment, CacheDomain, Counters, Latency, Observation, Partition, Platform, Region, Service
from osml.predictors import (
    FEATURES,
    ManifestEntry,
    feature_row,
    feature_rows,
    find_model,
    load_manifest,
    load_predictor,
    models_folder,
    read_metadata,
)

PLATFORM = Platform(
    "e5-2697v4", 36, "0-35", ways=20, way_mib=2.25, bandwidth_gbps=76.8, frequency_ghz=2.3, siblings=[[0, 18], [1, 19]]
)
MOSES = Service(
    "moses",
    "lc",
    target_ms=10.0,
    latency=Latency(mean_ms=2.0, p50_ms=1.5, p99_ms=5.0, requests_per_s=1000.0),
    counters=Counters(
        cpu_usage_cores=4.0, instructions=2e9, cycles=4e9, llc_misses=3e6, bandwidth_gbps=2.0, rss_mib=100.0, threads=36
    ),
)
XAPIAN = Service("xapian", "lc", target_ms=10.0, counters=Counters(bandwidth_gbps=1.5))
STREAM = Service("stream", "be", counters=Counters(bandwidth_gbps=20.0))


def _observation(*services: Service, **more: object) -> Observation:
    return Observation("node", 0, 0.0, 0.5, PLATFORM, list(services), **more)  # type: ignore[arg-type]


def _get(observation: Observation, name: str, service: str = "moses") -> float:
    return float(feature_row(observation, service, [name])[0])


PARTED = Partition([Region(["moses"], 8, 5), Region(["xapian", "stream"], 10, 4), Region(["moses", "xapian"], 2, 1)])


def test_counters_become_rates_and_ratios() -> None:
    observation = _observation(MOSES)
    assert _get(observation, "ipc") == 0.5
    assert _get(observation, "llc_misses_per_s") == pytest.approx(6e6)  # 3e6 in half a second
    assert _get(observation, "latency_over_target") == 0.5


def test_what_was_not_measured_is_nan_and_never_0() -> None:
    observation = _observation(Service("bare", "lc"))
    known = {"cores", "cache_mib", "ways", "neighbours", "neighbour_cores", "neighbour_cache_mib", "neighbour_ways"}
    known |= {"neighbour_bandwidth_gbps", "platform_cores", "platform_ways", "way_mib", "platform_bandwidth_gbps"}
    known |= {"base_ghz", "smt"}
    for name in FEATURES:
        assert np.isnan(_get(observation, name, "bare")) == (name not in known), name


def test_allocations_come_from_the_partition_and_shared_regions_count_once_among_neighbours() -> None:
    observation = _observation(MOSES, XAPIAN, STREAM, partition=PARTED)
    assert (_get(observation, "cores"), _get(observation, "ways")) == (10, 6)
    assert _get(observation, "cache_mib") == 6 * 2.25
    assert (_get(observation, "neighbour_cores"), _get(observation, "neighbour_ways")) == (12, 5)
    assert _get(observation, "neighbour_bandwidth_gbps") == 21.5


def test_without_a_partition_the_assignments_tell_and_without_these_it_is_the_whole_machine() -> None:
    told = [Assignment("moses", cpus="0-3,8", way_mask="3f"), Assignment("xapian", cpus="4-7", way_mask="f0")]
    observation = _observation(MOSES, XAPIAN, assignments=told)
    assert (_get(observation, "cores"), _get(observation, "ways")) == (5, 6)
    assert (_get(observation, "neighbour_cores"), _get(observation, "neighbour_ways")) == (4, 4)
    assert (_get(_observation(MOSES), "cores"), _get(_observation(MOSES), "ways")) == (36, 20)


def test_what_was_read_back_counts_shared_cpus_once_and_ways_in_the_same_cache_only() -> None:
    told = [
        Assignment("moses", cpus="0-3", way_mask="f"),
        Assignment("xapian", cpus="4-7", cpu_quota=1.5, way_mask="f0"),
        Assignment("stream", cpus="4-7", way_mask="f0"),
    ]
    observation = _observation(MOSES, XAPIAN, STREAM, assignments=told)
    assert (_get(observation, "neighbour_cores"), _get(observation, "neighbour_ways")) == (4, 4)
    assert _get(observation, "cores", "xapian") == 1.5
    elsewhere = [told[0], told[1], Assignment("stream", cpus="18-20", way_mask="fff")]
    node = msgspec.structs.replace(PLATFORM, domains=[CacheDomain(0, "0-17"), CacheDomain(1, "18-35")])
    two = msgspec.structs.replace(observation, platform=node, assignments=elsewhere)
    assert (_get(two, "neighbour_cores"), _get(two, "neighbour_ways")) == (4.5, 4)
    assert (_get(two, "neighbour_cores", "stream"), _get(two, "neighbour_ways", "stream")) == (5.5, 0)


def test_one_unmeasured_neighbour_makes_their_bandwidth_unknown() -> None:
    observation = _observation(MOSES, XAPIAN, Service("dark", "be"))
    assert np.isnan(_get(observation, "neighbour_bandwidth_gbps"))


def test_quantum_turns_units_into_cpus() -> None:
    platform = msgspec.structs.replace(PLATFORM, cores=360, core_quantum=0.1)
    observation = Observation("n", 0, 0.0, 1.0, platform, [MOSES], partition=Partition([Region(["moses"], 25, 2)]))
    assert _get(observation, "cores") == pytest.approx(2.5)
    assert _get(observation, "platform_cores") == pytest.approx(36)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="feature 'slowdown' is not in an observation; give it as a parameter"):
        feature_row(_observation(MOSES), "moses", ["slowdown"])
    assert feature_row(_observation(MOSES), "moses", ["slowdown"], {"slowdown": 0.1})[0] == np.float32(0.1)
    with pytest.raises(InputError, match="service is 'nobody'"):
        feature_row(_observation(MOSES), "nobody", ["ipc"])


_ALL = load_manifest(models_folder()).models
shipped = pytest.mark.parametrize("entry", [e for e in _ALL if e.kind != "c"], ids=lambda entry: entry.name)


@shipped
def test_shipped_models_answer_an_observation(entry: ManifestEntry) -> None:
    pytest.importorskip("onnxruntime")
    predictor = load_predictor(find_model(models_folder(), entry.kind, entry.platform))
    if entry.kind == "c2":
        pytest.skip("its inputs are of several intervals: tests/policy_osml/test_ahead.py")
    observation = _observation(MOSES, XAPIAN, STREAM, partition=PARTED)
    asked = {"slowdown": 0.1, "expected_cores": 6.0, "expected_cache_mib": 9.0}
    names = predictor.metadata.inputs
    found = predictor.predict(feature_rows(observation, ["moses", "xapian"], names, asked))
    assert found.points.shape == (2, len(predictor.metadata.outputs))
    assert np.isfinite(found.points).all()
    assert (found.spread > 0).all()
    assert (found.margin(0.95) >= found.margin(0.9)).all()
    assert set(names) <= {*FEATURES, *asked}


@shipped
def test_shipped_models_bear_any_input(entry: ManifestEntry) -> None:
    pytest.importorskip("onnxruntime")
    predictor = load_predictor(models_folder() / entry.name)
    wild = np.array([np.nan, np.inf, -np.inf, 0, -1, 3e38, 1e-38], np.float32)
    rows = np.repeat(wild[:, None], len(predictor.metadata.features), axis=1)
    found = predictor.predict(rows)
    assert np.isfinite(found.points).all()
    assert np.isfinite(found.spread).all()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the first shipped model."""
    pytest.importorskip("onnxruntime")
    entry = load_manifest(models_folder()).models[0]
    shutil.copytree(models_folder() / entry.name, tmp_path / entry.name)
    shutil.copy(models_folder() / "manifest.json", tmp_path)
    return tmp_path / entry.name


def test_a_changed_file_is_refused(copy: Path) -> None:
    entry = load_manifest(copy.parent).models[0]
    card = copy / "card.md"
    card.write_text(card.read_text("utf-8") + "x", "utf-8")
    with pytest.raises(InputError, match=r"card\.md has sha256 .*, the manifest says"):
        find_model(copy.parent, entry.kind, entry.platform)


def test_a_model_of_another_feature_set_is_refused(copy: Path) -> None:
    metadata = read_metadata(copy)
    one, other, *rest = metadata.features
    renamed = msgspec.structs.replace(one, name="ipc_of_others")
    for features, said in (
        ([other, one, *rest], f"feature 1 is '{one.name}', metadata.json says '{other.name}'"),
        ([renamed, other, *rest], f"only model.onnx has {one.name}; only metadata.json has ipc_of_others"),
        ([other, *rest], f"only model.onnx has {one.name}"),
        ([one, other, *rest, rest[-1]], f"feature {len(rest) + 3} is '', metadata.json says '{rest[-1].name}'"),
    ):
        (copy / "metadata.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(metadata, features=features)))
        with pytest.raises(InputError, match=re.escape(said)):
            load_predictor(copy)


def test_a_cut_off_model_is_refused(copy: Path) -> None:
    file = copy / "model.onnx"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InputError, match="is not a model that onnxruntime can run"):
        load_predictor(copy)


def test_rows_of_another_width_are_refused(copy: Path) -> None:
    predictor = load_predictor(copy)
    with pytest.raises(InputError, match=r"features have shape \(3, 2\)"):
        predictor.predict(np.zeros((3, 2), np.float32))
    with pytest.raises(InputError, match=r"coverage is 0\.5, expected one that the model was calibrated for"):
        predictor.predict(np.zeros((1, len(predictor.metadata.features)), np.float32)).margin(0.5)


def test_margins_for_unknown_services_are_never_those_for_known_ones(copy: Path) -> None:
    metadata = msgspec.json.decode((copy / "metadata.json").read_bytes())
    (copy / "metadata.json").write_bytes(msgspec.json.encode(metadata | {"margins_unseen": {}}))
    predictor = load_predictor(copy)
    found = predictor.predict(np.zeros((1, len(predictor.metadata.features)), np.float32))
    assert found.upper(0.9).shape == (1, len(predictor.metadata.outputs))
    with pytest.raises(InputError, match="calibrated for on services outside of its training: none"):
        found.upper(0.9, seen=False)


def test_answers_of_small_batches_stay_and_are_those_of_a_large_one(copy: Path) -> None:
    """Small batches run in memory that is used again: neither later answers nor other threads may show in earlier."""
    predictor = load_predictor(copy)
    features = predictor.metadata.features
    low, high = (np.array([getattr(feature, side) for feature in features]) for side in ("low", "high"))
    rows = np.random.default_rng(0).uniform(low, high, (5000, len(features))).astype(np.float32)
    whole = predictor.predict(rows)  # too large a batch for memory of its own
    rows = rows[-600:]

    def in_parts(size: int) -> tuple[np.ndarray, np.ndarray]:
        parts = [predictor.predict(rows[at : at + size]) for at in range(0, len(rows), size)]
        return np.concatenate([part.points for part in parts]), np.concatenate([part.spread for part in parts])

    with ThreadPoolExecutor(4) as pool:
        for points, spread in pool.map(in_parts, [1, 3, 3, 8, 8, 8, 64, 100]):
            assert points == pytest.approx(whole.points[-600:], rel=1e-5)
            assert spread == pytest.approx(whole.spread[-600:], rel=1e-5)
    assert predictor.predict(rows[:0]).points.shape == (0, len(predictor.metadata.outputs))


def test_a_manifest_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    entry = {
        "name": "../secret",
        "version": "1",
        "kind": "a",
        "variant": "masked",
        "platform": "p",
        "sha256": {},
        "dataset_fingerprint": "",
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"models": [entry]}), "utf-8")
    with pytest.raises(InputError, match="not a plain name"):
        load_manifest(tmp_path)


class Named(msgspec.Struct):
    name: str
    more: dict[str, object] = {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"name": 1}', b'{"name": "\xff"}', b'{"name": "a", "more": {"b": ' + b"[" * 100_000]
)
def test_what_is_wrong_with_a_json_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "manifest.json"
    with pytest.raises(MissingFileError, match=r"manifest.json can't be read \(No such file .*\), expected a model"):
        read_json(file, Named, "a model")
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"manifest\.json: ."):
        read_json(file, Named)
    with pytest.raises(InputError, match=r"manifest\.json: ."):
        load_manifest(tmp_path)


def test_no_model_for_a_platform_says_which_there_are() -> None:
    with pytest.raises(InputError, match="no model a for platform 'vax'"):
        find_model(models_folder(), "a", "vax")


def test_a_platform_without_a_model_gets_the_one_that_learned_from_many(tmp_path: Path) -> None:
    entry = {"version": "1", "variant": "masked", "sha256": {}, "dataset_fingerprint": ""}
    models = [
        entry | {"name": name, "kind": kind, "platform": platform}
        for name, kind, platform in (("many", "a2", "any"), ("own", "a2", "p"), ("alone", "a", "p"))
    ]
    (tmp_path / "manifest.json").write_text(json.dumps({"models": models}), "utf-8")
    assert find_model(tmp_path, "a2", "p").name == "own"
    assert find_model(tmp_path, "a2", "vax").name == "many"
    with pytest.raises(InputError, match="no model a for platform 'vax'"):
        find_model(tmp_path, "a", "vax")


@pytest.mark.parametrize(
    ("learned_from", "answers_for"),
    [(["p"], "p"), (["p", "p@8x11", "p@4x6"], "p"), (["p", "q"], "any"), (["p", "p~1", "p~2"], "any")],
)
def test_parts_are_of_one_machine_and_made_up_ones_are_others(learned_from: list[str], answers_for: str) -> None:
    known = read_metadata(models_folder() / _ALL[0].name)
    assert msgspec.structs.replace(known, platforms=learned_from).platform == answers_for


def test_models_load_without_torch() -> None:
    pytest.importorskip("onnxruntime")
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['onnx'] = None\n"
        "from osml.predictors import *\nfolder = models_folder()\n"
        "load_predictor(folder / load_manifest(folder).models[0].name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_model_that_is_opened_reports_to_nobody(tmp_path: Path) -> None:
    """onnxruntime leaves files for its reports below the home directory, unless they are switched off."""
    pytest.importorskip("onnxruntime")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ORT_", "XDG_"))}
    code = (
        "import os; from osml.predictors import *\nfolder = models_folder()\n"
        "load_predictor(folder / load_manifest(folder).models[0].name)\n"
        "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'\n"
    )
    environment |= {"HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []
