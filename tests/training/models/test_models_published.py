"""Published weights in our form: units, quirks, layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from osml_training.collect import published_units
from osml_training.published.convert import import_published
from osml_training.published.weights import INPUTS, in_their_units, read_published

from osml.base.failure import InputError
from osml.predictors import load_manifest, load_predictor

NAMES = (
    "CPU_Utilization",
    "Frequency",
    "IPC",
    "Misses",
    "MBL",
    "Virt_Memory",
    "Res_Memory",
    "Allocated_Cache",
    "Allocated_Core",
)
HIGHEST = (3600.0, 3791.0, 9.17, 645360.0, 1.759e14, 2.7e11, 1.05e11, 45.0, 36.0)


def _written(folder: Path, **changes: Any) -> Path:
    sizes = [9, 5, 4]
    rng = np.random.default_rng(0)
    arrays = {f"layer{k}_weight": rng.normal(0, 1, sizes[k : k + 2]).astype(np.float32) for k in range(2)}
    arrays |= {f"layer{k}_bias": rng.normal(0, 1, sizes[k + 1]).astype(np.float32) for k in range(2)}
    document: dict[str, Any] = {
        "name": "osml-e5-2697v4-model-a", "weights_file": "m.npz", "platform": "E5-2697 v4", "role": "OAA and RCliff",
        "inputs": [{"name": n, "unit": "u", "min": 0.0, "max": h} for n, h in zip(NAMES, HIGHEST, strict=True)],
        "outputs": [{"name": n, "unit": "u"} for n in ("RCliff_Cache", "RCliff_Core", "OAA_Cache", "OAA_Core")],
        "networks": {"net": {"sizes": sizes, "activations": ["relu", "linear"]}},
        "source": {"repository": "r", "licence": "GPL-3.0", "path": "p", "commit": "c"},
    }  # fmt: skip
    np.savez(folder / "m.npz", **arrays)
    (folder / "m.json").write_text(json.dumps(document | changes), "utf-8")
    return folder / "m.json"


def test_a_published_network_answers_in_cores_and_ways(tmp_path: Path) -> None:
    """Against the forward pass written out for one row of their numbers."""
    file = _written(tmp_path)
    predictor = load_predictor(import_published(file, tmp_path / "out"))
    theirs = np.array([1410.0, 2608.0, 0.83, 1694.0, 25273.8, 540603842560.0, 19596836864.0, 45.0, 36.0])
    ours = np.array([14.1, 2.608, 0.83, 1.694e7, 25.2738 * 1.048576, 5155600 / 1024, 186890 / 1024, 45.0, 36.0])
    found = np.load(tmp_path / "m.npz")
    hidden = np.maximum((theirs / HIGHEST) @ found["layer0_weight"] + found["layer0_bias"], 0)
    megabytes_and_cores = hidden @ found["layer1_weight"] + found["layer1_bias"]
    points = predictor.predict(ours[None].astype(np.float32)).points[0]
    np.testing.assert_allclose(points, megabytes_and_cores * [1 / 2.25, 1, 1 / 2.25, 1], rtol=2e-3)
    assert predictor.metadata.answers == ("rcliff_ways", "rcliff_cores", "oaa_ways", "oaa_cores")
    assert load_manifest(tmp_path / "out").models[0].variant == "published"


def test_units_are_the_inverse_of_those_that_traces_are_imported_by(tmp_path: Path) -> None:
    published = read_published(_written(tmp_path))
    ours = np.array([[14.1, 2.608, 0.83, 1.694e7, 20.0, 5000.0, 180.0, 45.0, 36.0]])
    theirs = in_their_units(published, ours)[0]
    back = (
        published_units.cpu_usage_cores(theirs[:1]), published_units.frequency_ghz(theirs[1:2]), theirs[2:3],
        published_units.llc_misses_per_s(theirs[3:4], 76.8), published_units.local_gbps(theirs[4:5], 76.8),
        published_units.memory_mib(theirs[5:6], 256), published_units.memory_mib(theirs[6:7], 256),
    )  # fmt: skip
    np.testing.assert_allclose(np.concatenate(back), ours[0, :7], rtol=1e-6)


def test_memory_of_many_gigabytes_is_read_as_their_parser_did() -> None:
    """VIRT 12.5 GiB was shown as 12.5g and became 12.5 x 2^20; 9.5 GiB as KiB and became about 1e12."""
    virt = INPUTS["Virt_Memory"]
    assert virt.limit < 12.5 * 1024
    assert 12.5 * 1024 * virt.beyond == pytest.approx(12.5 * 2**20)
    assert virt.limit > 9.5 * 1024
    assert 9.5 * 1024 * virt.factor == pytest.approx(1.04e12, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"networks": {"net": {"sizes": [9, 6, 4], "activations": ["relu", "linear"]}}}, "shapes are"),
        ({"networks": {"net": {"sizes": [9, 5, 4], "activations": ["tanh", "linear"]}}}, "activations are"),
        ({"networks": {}}, "is not a Model-A or B"),
        ({"inputs": [{"name": "Colour", "unit": "u", "min": 0, "max": 1}]}, "is not a Model-A or B"),
        ({"outputs": [{"name": "Colour", "unit": "u"}]}, "outputs are"),
        ({"weights_file": "nowhere.npz"}, r"nowhere\.npz"),
        ({"name": "vax"}, "contains no known platform"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    file = _written(tmp_path, **changes)
    with pytest.raises(InputError, match=text):
        import_published(file, tmp_path / "out")


def test_pickled_arrays_are_not_opened(tmp_path: Path) -> None:
    file = _written(tmp_path)
    np.savez(tmp_path / "m.npz", layer0_weight=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"m\.npz"):
        import_published(file, tmp_path / "out")
