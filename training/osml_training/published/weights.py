"""Published weights as arrays and a description: what their inputs are in our units, and their network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.base.json_file import read_json

Floats = NDArray[np.float64]


class Input(NamedTuple):
    """Their input is ours times `factor`. Memory has two factors: below `limit` (ours, MiB), and from there on."""

    feature: str
    factor: float
    limit: float = float("inf")
    beyond: float = 1.0


_MB = 2**20
# top shows VIRT as KiB below 10^7 of them and RES below 10^6; their parser cuts the last digit off (or, beyond, the
# suffix g) and multiplies by 2^20.
_PLAIN, _SUFFIX = 1024 / 10 * _MB, _MB / 1024
INPUTS: dict[str, Input] = {
    "CPU_Utilization": Input("cpu_usage_cores", 100),
    "Frequency": Input("frequency_ghz", 1000),
    "IPC": Input("ipc", 1),
    "Misses": Input("llc_misses_per_s", 1e-4),  # thousands in 100 ms
    "MBL": Input("bandwidth_gbps", 1e9 / _MB),
    "Virt_Memory": Input("vms_mib", _PLAIN, 1e7 / 1024, _SUFFIX),
    "Res_Memory": Input("rss_mib", _PLAIN, 1e6 / 1024, _SUFFIX),
    "Allocated_Cache": Input("cache_mib", 1),
    "Allocated_Core": Input("cores", 1),
    "MBL_N": Input("neighbour_bandwidth_gbps", 1e9 / _MB),  # theirs is the mean of the neighbours, ours the sum
    "Allocated_Cache_N": Input("neighbour_cache_mib", 1),
    "Allocated_Core_N": Input("neighbour_cores", 1),
    "QoS_Reduction": Input("slowdown", 1),
    "Target_Cache": Input("expected_cache_mib", 1),
    "Target_Core": Input("expected_cores", 1),
}
"""Their inputs by name."""

OUTPUTS = {
    "RCliff_Cache": "rcliff_ways", "RCliff_Core": "rcliff_cores", "OAA_Cache": "oaa_ways", "OAA_Core": "oaa_cores",
    "Default_Spared_Cache": "balanced_ways", "Default_Spared_Core": "balanced_cores",
    "Core_Dominated_Spared_Cache": "core_dominated_ways", "Core_Dominated_Spared_Core": "core_dominated_cores",
    "Cache_Dominated_Spared_Cache": "way_dominated_ways", "Cache_Dominated_Spared_Core": "way_dominated_cores",
    "QoS_Reduction": "qos_change", "QoS": "qos",
}  # fmt: skip
"""Their outputs by ours; cache is in MB there, in ways here. `qos_change` is the change of target over mean latency."""


class _Variable(msgspec.Struct):
    name: str
    unit: str
    min: float = 0.0
    max: float = 1.0


class _Net(msgspec.Struct):
    sizes: list[int]
    activations: list[str]


class _Source(msgspec.Struct):
    repository: str
    licence: str
    path: str
    commit: str


class Description(msgspec.Struct):
    """The JSON beside the arrays."""

    name: str
    weights_file: str
    platform: str
    role: str
    inputs: list[_Variable]
    outputs: list[_Variable]
    networks: dict[str, _Net]
    source: _Source


class Published(NamedTuple):
    """A published network: `low` and `high` of its inputs in its own units; weights are (in, out)."""

    description: Description
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    low: Floats
    high: Floats
    weights: list[NDArray[np.float32]]
    biases: list[NDArray[np.float32]]


def read_published(file: Path) -> Published:
    """Read NAME.json and the arrays beside it (no pickle). InputError where they don't fit each other, or ours."""
    about = read_json(file, Description)
    net = about.networks.get("net")
    if net is None or any(name not in INPUTS for name in (i.name for i in about.inputs)):
        raise InputError(f"{file}: '{about.name}' is not a Model-A or B (other networks or inputs)")
    if any(output.name not in OUTPUTS for output in about.outputs):
        raise InputError(f"{file}: outputs are {[o.name for o in about.outputs]}, expected those of Model-A or B")
    if net.activations != ["relu"] * (len(net.sizes) - 2) + ["linear"]:
        raise InputError(f"{file}: activations are {net.activations}, expected relu and a linear last layer")
    arrays = file.with_name(Path(about.weights_file).name)
    try:
        found: Any = np.load(arrays, allow_pickle=False)
        names = [(f"layer{k}_weight", f"layer{k}_bias") for k in range(len(net.sizes) - 1)]
        weights = [np.asarray(found[weight], np.float32) for weight, _ in names]
        biases = [np.asarray(found[bias], np.float32) for _, bias in names]
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{arrays}: {error}") from None
    shapes = [(weight.shape, bias.shape) for weight, bias in zip(weights, biases, strict=True)]
    wanted = [((a, b), (b,)) for a, b in zip(net.sizes[:-1], net.sizes[1:], strict=True)]
    if shapes != wanted or net.sizes[0] != len(about.inputs) or net.sizes[-1] != len(about.outputs):
        raise InputError(f"{arrays}: shapes are {shapes}, expected {wanted} of the description")
    return Published(
        about,
        tuple(INPUTS[i.name] for i in about.inputs),
        tuple(OUTPUTS[o.name] for o in about.outputs),
        np.array([i.min for i in about.inputs]),
        np.array([i.max for i in about.inputs]),
        weights,
        biases,
    )


def in_their_units(published: Published, x: NDArray[Any]) -> Floats:
    """Our features (rows, inputs) as they would have measured them."""
    out = x.astype(np.float64)
    for k, how in enumerate(published.inputs):
        out[:, k] *= np.where(out[:, k] < how.limit, how.factor, how.beyond)
    return out


def forward(published: Published, x: NDArray[Any], way_mib: float) -> Floats:
    """Their network in numpy on our features, cache in ways: (rows, outputs). The check on the exported graph."""
    value = (in_their_units(published, x) - published.low) / (published.high - published.low)
    last = len(published.weights) - 1
    for k, (weight, bias) in enumerate(zip(published.weights, published.biases, strict=True)):
        value = value @ weight.astype(np.float64) + bias
        if k < last:
            value = np.maximum(value, 0)
    return value * np.array([1 / way_mib if name.endswith("_ways") else 1.0 for name in published.outputs])
