"""The net of the image server: trained on four fifths of scikit-learn's digits, written as ONNX without a framework."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN = (1024, 1024)
SEED = 0


def make_net(folder: Path) -> None:
    """Write `net.onnx`, `images.npy` (the held-out images) and `card.json` (accuracy on them). Same seed, same net."""
    data: Any = importlib.import_module("sklearn.datasets").load_digits()
    split: Any = importlib.import_module("sklearn.model_selection").train_test_split
    classifier: Any = importlib.import_module("sklearn.neural_network").MLPClassifier
    images = np.asarray(data.data, np.float32) / np.float32(16.0)
    train_x, test_x, train_y, test_y = split(images, data.target, test_size=0.2, random_state=SEED)
    net = classifier(HIDDEN, max_iter=12, random_state=SEED).fit(train_x, train_y)
    _write(folder / "net.onnx.new", net.coefs_, net.intercepts_)
    np.save(folder / "images.npy", test_x)
    card = {"images": len(test_x), "held_out_accuracy": float(net.score(test_x, test_y)), "seed": SEED}
    (folder / "card.json").write_text(json.dumps(card) + "\n")
    (folder / "net.onnx.new").rename(folder / "net.onnx")  # last: its presence says that all is there


def _write(path: Path, weights: list[Any], biases: list[Any]) -> None:
    """Fully connected layers with ReLU between them, then the index of the largest output."""
    onnx: Any = importlib.import_module("onnx")
    helper, arrays = onnx.helper, importlib.import_module("onnx.numpy_helper")
    nodes: list[Any] = []
    stored: list[Any] = []
    value = "image"
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        for name, array in ((f"w{layer}", weight), (f"b{layer}", bias)):
            stored.append(arrays.from_array(np.asarray(array, np.float32), name))
        nodes.append(helper.make_node("Gemm", [value, f"w{layer}", f"b{layer}"], [f"z{layer}"]))
        value = f"z{layer}"
        if layer + 1 < len(weights):
            nodes.append(helper.make_node("Relu", [value], [f"a{layer}"]))
            value = f"a{layer}"
    nodes.append(helper.make_node("ArgMax", [value], ["digit"], axis=1, keepdims=0))
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, len(weights[0])])],
        [helper.make_tensor_value_info("digit", onnx.TensorProto.INT64, [1])],
        stored,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
