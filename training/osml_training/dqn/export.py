"""A Q-function as an ONNX graph and as the folder that is shipped; and back again, to learn on."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's and onnx's own annotations have gaps.
from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from osml.base.failure import Failure, InputError
from osml.predictors import ModelMetadata, QFunction, load_q_function
from osml.predictors.actions import N_ACTIONS
from osml.predictors.metadata import CARD, METADATA, ONNX
from osml_training.dqn.card import card
from osml_training.dqn.qnet import QNet
from osml_training.export.bundle import file_keys
from osml_training.export.graph import GraphParts, layers_part, scaled_part
from osml_training.export.load import scaling_in
from osml_training.export.parity import TOLERANCE, probes


def q_model(net: QNet, metadata: dict[str, str]) -> Any:
    """`features` (batch, inputs) raw -> `q` (batch, 49). `metadata` goes into the file as key and value."""
    graph = GraphParts()
    layers_part(graph, net, scaled_part(graph, net), "q")
    return graph.model(len(net.scaler.low), N_ACTIONS, metadata, ("q",))


def largest_difference(net: QNet, opened: QFunction, x: NDArray[np.float32]) -> float:
    """Over all rows, relative to the larger of the value and 1. Infinite where only one of the two is finite."""
    with torch.no_grad():
        ours: NDArray[np.float32] = net(torch.from_numpy(x)).numpy()
    theirs = opened.q(x)
    if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
        return float("inf")
    return float(np.nanmax(np.abs(ours - theirs) / np.maximum(np.abs(ours), 1.0)))


def write_q_bundle(net: QNet, metadata: ModelMetadata, folder: Path) -> Path:
    """Write the folder of a Model-C and prove that the file answers as the network does. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ONNX).write_bytes(q_model(net, file_keys(metadata)).SerializeToString(deterministic=True))
    (folder / METADATA).write_bytes(msgspec.json.format(msgspec.json.encode(metadata), indent=1) + b"\n")
    (folder / CARD).write_text(card(metadata), "utf-8")
    low, high = (np.array([getattr(one, side) for one in metadata.features]) for side in ("low", "high"))
    worst = largest_difference(net, load_q_function(folder), probes(low, high, 4096, 0, missing=net.masked))
    if not worst <= TOLERANCE:
        raise Failure(
            f"{folder / ONNX}: answers differ from those of the network by {worst:.2g}, expected at most {TOLERANCE:g}"
        )
    return folder


def load_qnet(folder: Path) -> QNet:
    """The network of a Model-C's folder, to learn on. InputError where its graph has not the parts of `q_model`."""
    file = folder / ONNX
    try:
        model: Any = onnx.load(str(file))
        found = {constant.name: np.array(numpy_helper.to_array(constant)) for constant in model.graph.initializer}
        weights = [(found[f"weight{k}"], found[f"bias{k}"]) for k in range(sum("weight" in name for name in found))]
        scaling = scaling_in(found)
        if weights[-1][0].shape[1] != N_ACTIONS or [out.name for out in model.graph.output] != ["q"]:
            raise InputError(f"{file} does not have {N_ACTIONS} values 'q', expected a Model-C")
    except InputError:
        raise
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise InputError(f"{file} is not a network of `osml learn train c` ({error})") from None
    except Exception as error:  # protobuf's own class, which moves between its versions
        raise InputError(f"{file} is not an ONNX file ({error})") from None
    hidden = tuple(int(weight.shape[1]) for weight, _ in weights[:-1])
    net = QNet(scaling, hidden=hidden, masked=weights[0][0].shape[0] == 2 * len(scaling.low))
    with torch.no_grad():
        for layer, (weight, bias) in zip(net.linears(), weights, strict=True):
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
    return net
