"""A network out of the ONNX file that `graph.py` wrote: to train it further."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's and onnx's own annotations have gaps.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from osml.base.failure import InputError
from osml.predictors.metadata import ONNX
from osml_training.networks import LabelRange, Network, Scaling


def scaling_in(constants: dict[str, NDArray[Any]]) -> Scaling:
    """How a graph of `graph.py` scales its inputs, of its constants by name. KeyError where one is not there."""
    low, span = (constants[name].astype(np.float64) for name in ("low", "span"))
    return Scaling(constants["is_log"], low, span, (constants["clip_low"].item(), constants["clip_high"].item()))


def load_network(folder: Path, *, dropout: float = 0.0) -> Network:
    """The network of a model's folder. InputError where its graph has not the parts that `onnx_model` gives it."""
    file = folder / ONNX
    try:
        model: Any = onnx.load(str(file))
        found = {constant.name: np.array(numpy_helper.to_array(constant)) for constant in model.graph.initializer}
        layers = sum(1 for name in found if name.startswith("weight"))
        weights = [(found[f"weight{k}"], found[f"bias{k}"]) for k in range(layers)]
        scaling = scaling_in(found)
        labels = LabelRange(*(found[name].astype(np.float64) for name in ("y_mean", "y_std", "y_low", "y_high")))
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{file} is not a network of `osml learn train` ({error})") from None
    except Exception as error:  # protobuf's own class, which moves between its versions
        raise InputError(f"{file} is not an ONNX file ({error})") from None
    inputs, outputs = len(scaling.low), len(labels.mean)
    masked, spread = weights[0][0].shape[0] == 2 * inputs, weights[-1][1].shape[0] == 2 * outputs
    hidden = tuple(int(weight.shape[1]) for weight, _ in weights[:-1])
    network = Network(scaling, labels, hidden=hidden, dropout=dropout, masked=masked, spread=spread)
    with torch.no_grad():
        for layer, (weight, bias) in zip(network.linears(), weights, strict=True):
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
    return network
