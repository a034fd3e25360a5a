"""Files of models that open and can't be used: a fault that says why, and no exception."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osml.policies.osml.answers.models import load_models
from osml.predictors import models_folder


def _faults_with(folder: Path, change: Callable[[Path], None]) -> tuple[str, ...]:
    """Of the shipped models where A' was changed, and the manifest has the checksums of that."""
    shutil.copytree(models_folder(), folder)
    change(folder / "a2-masked-e5-2697v4")
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["models"]:
        for name in entry["sha256"]:
            entry["sha256"][name] = hashlib.sha256((folder / entry["name"] / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return load_models(folder, "e5-2697v4").faults


def test_a_model_that_opens_and_can_not_be_run_is_a_fault_and_raises_nothing(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    def change(folder: Path) -> None:
        model = onnx.load(str(folder / "model.onnx"))
        inputs = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
        shape = onnx.helper.make_tensor("seven_rows", onnx.TensorProto.INT64, [2], [7, inputs])
        model.graph.initializer.append(shape)
        for node in model.graph.node:
            node.input[:] = ["odd" if name == "features" else name for name in node.input]
        model.graph.node.insert(0, onnx.helper.make_node("Reshape", ["features", "seven_rows"], ["odd"]))
        onnx.save(model, str(folder / "model.onnx"))

    (fault,) = _faults_with(tmp_path / "models", change)
    assert fault.startswith("model a2: ")
    assert "can't be used (Fail: " in fault


@pytest.mark.parametrize(
    ("operator", "more"),
    [("Cast", {"to": 11}), ("Concat", {"axis": 0})],
    ids=["doubles", "twice as many rows"],
)
def test_a_model_whose_answers_are_not_a_row_of_floats_for_each_row_is_a_fault(
    tmp_path: Path, operator: str, more: dict[str, int]
) -> None:
    onnx: Any = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    def odd(folder: Path) -> None:
        model = onnx.load(str(folder / "model.onnx"))
        for node in model.graph.node:
            node.output[:] = ["inner" if name == "points" else name for name in node.output]
            node.input[:] = ["inner" if name == "points" else name for name in node.input]
        twice = 2 if operator == "Concat" else 1
        model.graph.node.append(onnx.helper.make_node(operator, ["inner"] * twice, ["points"], **more))
        if operator == "Cast":
            model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
        onnx.save(model, str(folder / "model.onnx"))

    (fault,) = _faults_with(tmp_path / "models", odd)
    assert "can't be used" in fault


def test_a_model_of_another_kind_than_the_manifest_says_is_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")

    def change(folder: Path) -> None:
        file = folder / "metadata.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"kind": "a"}))

    wanted = "model a2: a2-masked-e5-2697v4 is of kind a, the manifest says a2"
    assert _faults_with(tmp_path / "models", change) == (wanted,)
