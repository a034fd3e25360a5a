"""The folder of a model: model.onnx, metadata.json, card.md; and its line in the manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import Failure
from osml.datasets.description import described
from osml.datasets.schema import TRACE_COLUMNS
from osml.datasets.store import LABELS, dataset_fingerprint, open_parquet, sha256, trace_files
from osml.predictors import FeatureSpec, ManifestEntry, ModelMetadata, OutputSpec, load_predictor
from osml.predictors.metadata import CARD, METADATA, ONNX
from osml.predictors.session import FEATURES_KEY
from osml_training.export.card import card
from osml_training.export.commit import commit
from osml_training.export.graph import onnx_model
from osml_training.export.parity import PROBES, TOLERANCE, largest_difference, probes
from osml_training.tables.features import OUTPUTS
from osml_training.train.train import Trained

_UNITS = {column.name: column.unit for column in TRACE_COLUMNS} | {
    "slowdown": "1", "expected_cores": "logical CPUs", "expected_cache_mib": "MiB", "latency_ms": "ms",
    "latency_over_target": "1", "platform_cores": "logical CPUs", "platform_ways": "ways", "way_mib": "MiB",
    "platform_bandwidth_gbps": "GB/s", "base_ghz": "GHz", "turbo_ghz": "GHz", "smt": None,
}  # fmt: skip


def unit_of(name: str) -> str | None:
    """Unit of an input or an output."""
    if name in _UNITS:
        return _UNITS[name]
    for ending, unit in (("_cores", "logical CPUs"), ("_ways", "ways"), ("_gbps", "GB/s"), ("_pct", "percent points")):
        if name.endswith(ending):
            return unit
    return None


def describe(
    trained: Trained,
    dataset: Path,
    *,
    name: str,
    version: str,
    command: str,
    metrics: dict[str, Any],
    parent: str | None = None,
) -> ModelMetadata:
    """What is to be said of a trained model."""
    config = trained.config
    masked = config.variant == "masked"
    features = [
        FeatureSpec(feature, unit_of(feature), rounded(low), rounded(high), masked)
        for feature, low, high in zip(config.inputs, trained.low, trained.high, strict=True)
    ]
    about = described(open_parquet(trace_files(dataset)[0]).schema_arrow.metadata, str(dataset))
    variants = {"variants": trained.variants} if trained.variants else {}
    return ModelMetadata(
        name=name,
        version=version,
        kind=config.model,
        variant=config.variant,
        platforms=list(trained.platforms),
        services=list(trained.services),
        features=features,
        outputs=[OutputSpec(output, unit_of(output)) for output in OUTPUTS[config.model]],
        margins=trained.margins,
        margins_unseen=trained.margins_unseen,
        simulated=about.provenance.kind == "virtual",
        dataset_fingerprint=dataset_fingerprint(dataset, LABELS),
        commit=commit(),
        seed=config.seed,
        command=command,
        licence="Apache-2.0",
        parent=parent,
        metrics=metrics | {"service_fold_mae": trained.service_fold_errors} | variants,
        training=msgspec.to_builtins(config),
    )


def rounded(value: float) -> float:
    """Six digits."""
    return float(f"{value:.6g}")


def file_keys(metadata: ModelMetadata) -> dict[str, str]:
    """What the ONNX file itself says of the model."""
    return {
        FEATURES_KEY: ",".join(metadata.inputs),
        "osml.outputs": ",".join(metadata.answers),
        "osml.units": ",".join(str(feature.unit) for feature in metadata.features),
        "osml.platforms": ",".join(metadata.platforms),
        "osml.dataset_fingerprint": metadata.dataset_fingerprint,
        "osml.commit": metadata.commit,
        "osml.model": f"{metadata.kind} {metadata.variant} {metadata.version}",
    }


def encoded(metadata: ModelMetadata) -> bytes:
    """The content of metadata.json."""
    return msgspec.json.format(msgspec.json.encode(metadata), indent=1) + b"\n"


def write_bundle(trained: Trained, metadata: ModelMetadata, folder: Path) -> Path:
    """Write the folder of a model and prove that the file answers as the network does. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ONNX).write_bytes(onnx_model(trained.network, file_keys(metadata)).SerializeToString(deterministic=True))
    (folder / METADATA).write_bytes(encoded(metadata))
    (folder / CARD).write_text(card(metadata), "utf-8")
    rows = probes(trained.low, trained.high, PROBES, 0, missing=metadata.variant == "masked")
    worst = largest_difference(trained.network, load_predictor(folder), rows)
    if not worst <= TOLERANCE:
        raise Failure(
            f"{folder / ONNX}: answers differ from those of the network by {worst:.2g}, expected at most {TOLERANCE:g}"
        )
    return folder


def entry_of(folder: Path, metadata: ModelMetadata) -> ManifestEntry:
    """The manifest's line on a folder."""
    sums = {name: sha256(folder / name) for name in (ONNX, METADATA, CARD)}
    return ManifestEntry(
        metadata.name,
        metadata.version,
        metadata.kind,
        metadata.variant,
        metadata.platform,
        sums,
        metadata.dataset_fingerprint,
    )
