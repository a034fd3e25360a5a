"""A published network as a folder of ours: raw features of our units in, cores and ways out."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# onnx's own annotations have gaps.
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from osml.base.failure import Failure, InputError
from osml.predictors import FeatureSpec, ModelMetadata, OutputSpec, load_predictor
from osml.predictors.metadata import CARD, METADATA, ONNX
from osml.predictors.session import FEATURES_KEY
from osml_training.export.bundle import encoded, unit_of
from osml_training.export.graph import GraphParts
from osml_training.export.publish import publish
from osml_training.published.weights import Published, forward, read_published

WAY_MIB = {"e5-2697v4": 2.25, "gold-5220r": 3.25, "gold-6338": 4.0}
"""Of the authors' machines."""

_KINDS = {("rcliff_ways", 9): "a", ("rcliff_ways", 12): "a2", ("core_dominated_ways", 13): "b"}


def platform_of(published: Published) -> str:
    """Our id of the machine it was trained on."""
    for platform in WAY_MIB:
        if platform in published.description.name:
            return platform
    raise InputError(f"'{published.description.name}' contains no known platform, expected one of {', '.join(WAY_MIB)}")


def _kind(published: Published) -> Any:
    return _KINDS.get((published.outputs[0], len(published.inputs)), "b2")


def _graph(published: Published, metadata: dict[str, str], way_mib: float) -> Any:
    """Units, min-max without clipping (as theirs), their layers, megabytes to ways."""
    parts = GraphParts()
    near, far = (np.array([getattr(i, side) for i in published.inputs], np.float32) for side in ("factor", "beyond"))
    limit = parts.constant("limit", np.array([i.limit for i in published.inputs], np.float32))
    factor, beyond = parts.constant("factor", near), parts.constant("beyond", far)
    plain = parts.node("Less", ["features", limit], "is_plain")
    unit = parts.node("Where", [plain, factor, beyond], "unit")
    theirs = parts.node("Mul", ["features", unit], "in_their_units")
    low = parts.constant("low", published.low.astype(np.float32))
    span = parts.constant("span", (published.high - published.low).astype(np.float32))
    out = parts.node("Div", [parts.node("Sub", [theirs, low], "above_low"), span], "scaled")
    last = len(published.weights) - 1
    scale = np.array([1 / way_mib if name.endswith("_ways") else 1.0 for name in published.outputs], np.float32)
    for k, (weight, bias) in enumerate(zip(published.weights, published.biases, strict=True)):
        final = k == last
        out = parts.node(
            "Gemm",
            [
                out,
                parts.constant(f"weight{k}", weight * scale if final else weight),
                parts.constant(f"bias{k}", bias * scale if final else bias),
            ],
            "points" if final else f"layer{k}",
        )
        if not final:
            out = parts.node("Relu", [out], f"hidden{k}")
    parts.node("Sub", ["points", "points"], "spread")  # it says nothing of its errors
    return parts.model(len(published.inputs), len(published.outputs), metadata)


def _card(metadata: ModelMetadata, published: Published) -> str:
    about = published.description
    return (
        f"---\nlibrary_name: onnx\nlicense: other\ntags: [osml, {metadata.kind}, published]\n---\n# {metadata.name}\n\n"
        f"Weights of the authors of OSML: {about.role} ({about.platform}).\n"
        f"From {about.source.repository}, `{about.source.path}`, commit `{about.source.commit}`; "
        f"licence: {about.source.licence}.\n\n"
        "Units are converted in the graph; its arithmetic is theirs, min-max without clipping, so it explodes outside "
        "of its ranges.\nIt has no spread and no margins. It is not shipped with osml.\n"
    )


def import_published(file: Path, models: Path) -> Path:
    """Convert NAME.json and its arrays into a folder of `models`; returns it.

    Raises Failure where the converted graph differs from the plain forward pass.
    """
    published = read_published(file)
    about, platform = published.description, platform_of(published)
    features = [
        FeatureSpec(how.feature, unit_of(how.feature), float(low / how.factor), float(high / how.factor), False)
        for how, low, high in zip(published.inputs, published.low, published.high, strict=True)
    ]
    metadata = ModelMetadata(
        name=f"published-{file.stem}",
        version="1",
        kind=_kind(published),
        variant="published",
        platforms=[platform],
        services=[],
        features=features,
        outputs=[OutputSpec(name, unit_of(name)) for name in published.outputs],
        margins={},
        simulated=False,
        dataset_fingerprint="not published",
        commit=about.source.commit,
        seed=0,
        command=f"osml models import-published {file.name}",
        licence=about.source.licence,
    )
    way_mib = WAY_MIB[platform]

    def write(metadata: ModelMetadata, folder: Path) -> None:
        source = f"{about.source.repository} {about.source.commit}"
        keys = {FEATURES_KEY: ",".join(metadata.inputs), "osml.source": source}
        (folder / ONNX).write_bytes(_graph(published, keys, way_mib).SerializeToString(deterministic=True))
        (folder / METADATA).write_bytes(encoded(metadata))
        (folder / CARD).write_text(_card(metadata, published), "utf-8")
        _prove(folder, published, way_mib)

    return publish(write, metadata, models).folder


def _prove(folder: Path, published: Published, way_mib: float) -> None:
    """The file answers as the plain forward pass on plausible and on wild rows."""
    rng = np.random.default_rng(0)
    share = rng.uniform(-0.2, 1.2, (512, len(published.inputs)))
    factor = np.array([how.factor for how in published.inputs])
    x = ((published.low + share * (published.high - published.low)) / factor).astype(np.float32)
    ours = load_predictor(folder).predict(x).points
    theirs = forward(published, x, way_mib)
    worst = float(np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1.0)))
    if not worst <= 1e-3:  # MBL's range is 1e14: float32 keeps seven digits of it
        raise Failure(f"{folder}: the converted network differs from the published one by {worst:.2g}")
