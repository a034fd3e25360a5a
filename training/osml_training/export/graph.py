"""A network as an ONNX graph, node by node: small, the same bytes every time, no path of the machine in it.

Scaling, masking and the way back to units are in the graph, so whoever serves it sends raw counters.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's and scikit-learn's own annotations have gaps.
from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from osml_training.networks import LEAST_LOG, LEAST_SPREAD, Network, Scaler

OPSET, IR_VERSION = 17, 9
"""Old enough for every onnxruntime since 1.13."""


class GraphParts:
    """Nodes and constants on their way to a graph."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant; returns its name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def model(
        self, inputs: int, outputs: int, metadata: dict[str, str], answers: tuple[str, ...] = ("points", "spread")
    ) -> Any:
        """The checked ONNX model: `features` (batch, inputs) -> each of `answers` (batch, outputs)."""
        made = helper.make_graph(
            self.nodes,
            "osml",
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", inputs])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", outputs]) for name in answers],
            self.constants,
        )
        model = helper.make_model(
            made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="osml"
        )
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model


def _scalar(value: float) -> NDArray[np.float32]:
    return np.array(value, np.float32)


class Layered(Protocol):
    """A network of linear layers with ReLU between them and scaling before them."""

    scaler: Scaler
    masked: bool

    def linears(self) -> list[nn.Linear]:
        """Hidden layers, then the head."""
        ...


def scaled_part(graph: GraphParts, network: Layered) -> str:
    """Raw `features` -> what goes into the first layer; the arithmetic of `networks.Scaler`."""
    scaler = network.scaler
    missing = graph.node("IsNaN", ["features"], "missing")
    one, zero = graph.constant("one", _scalar(1)), graph.constant("zero", _scalar(0))
    value = graph.node("Where", [missing, one, "features"], "value")
    floor = graph.constant("least_log", _scalar(LEAST_LOG))
    logarithm = graph.node("Log", [graph.node("Max", [value, floor], "positive")], "logarithm")
    which = graph.constant("is_log", scaler.log.numpy())
    chosen = graph.node("Where", [which, logarithm, value], "chosen")
    low, span = graph.constant("low", scaler.low.numpy()), graph.constant("span", scaler.span.numpy())
    near = graph.node("Div", [graph.node("Sub", [chosen, low], "above_low"), span], "unclipped")
    clip = [graph.constant("clip_low", _scalar(scaler.clip[0])), graph.constant("clip_high", _scalar(scaler.clip[1]))]
    clipped = graph.node("Clip", [near, *clip], "clipped")
    scaled = graph.node("Where", [missing, zero, clipped], "scaled")
    if not network.masked:
        return scaled
    measured = graph.node("Where", [missing, zero, one], "measured")
    return graph.node("Concat", [scaled, measured], "masked", axis=1)


def layers_part(graph: GraphParts, network: Layered, inputs: str, answer: str | None = None) -> str:
    """All layers; the output of the last one is called `answer` (None: by its number)."""
    last = len(network.linears()) - 1
    out = inputs
    for k, layer in enumerate(network.linears()):
        weight = graph.constant(f"weight{k}", layer.weight.detach().numpy().T)  # (in, out)
        bias = graph.constant(f"bias{k}", layer.bias.detach().numpy())
        out = graph.node("Gemm", [out, weight, bias], answer if answer and k == last else f"layer{k}")
        if k < last:
            out = graph.node("Relu", [out], f"hidden{k}")
    return out


def onnx_model(network: Network, metadata: dict[str, str]) -> Any:
    """`features` (batch, inputs) -> `points` and `spread` (batch, outputs), raw units on both sides.

    `metadata` goes into the file as key and value.
    """
    graph = GraphParts()
    head = layers_part(graph, network, scaled_part(graph, network))
    std = graph.constant("y_std", network.y_std.numpy())
    mean = graph.constant("y_mean", network.y_mean.numpy())
    if network.spread:
        sizes = graph.constant("sizes", np.array([network.outputs, network.outputs], np.int64))
        graph.nodes.append(helper.make_node("Split", [head, sizes], ["head_points", "head_spread"], axis=1))
        soft = graph.node("Softplus", ["head_spread"], "soft")
        wide = graph.node("Add", [soft, graph.constant("least_spread", _scalar(LEAST_SPREAD))], "wide")
        points = "head_points"
    else:
        # Ones in the shape of the points: the spread of a network that gives none is that of its labels.
        points = head
        wide = graph.node("Add", [graph.node("Sub", [head, head], "none"), graph.constant("unit", _scalar(1))], "wide")
    free = graph.node("Add", [graph.node("Mul", [points, std], "centred"), mean], "free_points")
    low, high = graph.constant("y_low", network.y_low.numpy()), graph.constant("y_high", network.y_high.numpy())
    graph.node("Min", [graph.node("Max", [free, low], "low_points"), high], "points")
    graph.node("Mul", [wide, std], "spread")
    return graph.model(len(network.scaler.low), network.outputs, metadata)
