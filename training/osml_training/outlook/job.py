"""`osml learn train c2` without its command line: fit, export, card, manifest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from osml.base.failure import Failure
from osml.predictors import ANY_PLATFORM, FeatureSpec, ModelMetadata, OutputSpec, load_predictor
from osml.predictors.metadata import CARD, METADATA, ONNX
from osml.predictors.outlook import OUTLOOK_INPUTS, OUTLOOK_OUTPUT
from osml.simulator.variation.draw import SERVICES
from osml_training.dqn.job import fingerprint
from osml_training.export.bundle import encoded, file_keys, rounded
from osml_training.export.commit import commit
from osml_training.export.graph import onnx_model
from osml_training.export.made import Made, command_line
from osml_training.export.parity import TOLERANCE, largest_difference, probes
from osml_training.export.publish import publish
from osml_training.networks import Network
from osml_training.outlook.card import card
from osml_training.outlook.table import Outlooks, read_outlooks
from osml_training.outlook.train import OutlookConfig, Trained, train

_PROBES = 4096


def run_outlook_job(
    data: Sequence[Path],
    out: Path,
    config: OutlookConfig,
    *,
    name: str = f"c2-masked-{ANY_PLATFORM}",
    version: str = "1",
    on_epoch: Callable[[int, float], None] | None = None,
) -> Made:
    """Train on files of `osml learn data outlooks` and write the folder and the manifest."""
    rows = read_outlooks(data)
    trained = train(rows, config, on_epoch)
    metadata = _described(rows, trained, config, data, name, version)
    done = publish(partial(_write, trained.network), metadata, out)
    return Made(done.folder, trained.metrics, done.warnings)


def _write(network: Network, metadata: ModelMetadata, folder: Path) -> None:
    """Write the folder and prove that the file answers as the network does."""
    (folder / ONNX).write_bytes(onnx_model(network, file_keys(metadata)).SerializeToString(deterministic=True))
    (folder / METADATA).write_bytes(encoded(metadata))
    (folder / CARD).write_text(card(metadata), "utf-8")
    low, high = (np.array([getattr(one, side) for one in metadata.features]) for side in ("low", "high"))
    asked = probes(low, high, _PROBES, 0, missing=True)
    worst = largest_difference(network, load_predictor(folder), asked)
    if not worst <= TOLERANCE:
        raise Failure(
            f"{folder / ONNX}: answers differ from those of the network by {worst:.2g}, expected at most {TOLERANCE:g}"
        )


def _described(
    rows: Outlooks, trained: Trained, config: OutlookConfig, data: Sequence[Path], name: str, version: str
) -> ModelMetadata:
    features: list[FeatureSpec] = []
    for k, feature in enumerate(OUTLOOK_INPUTS):
        values = rows.inputs[:, k][np.isfinite(rows.inputs[:, k])]
        low, high = np.percentile(values, (1, 99)) if len(values) else (0.0, 0.0)
        features.append(FeatureSpec(feature, None, rounded(float(low)), rounded(float(high))))
    return ModelMetadata(
        name=name,
        version=version,
        kind="c2",
        variant="masked",
        platforms=list(rows.platforms),
        services=list(SERVICES),
        features=features,
        outputs=[OutputSpec(OUTLOOK_OUTPUT, None)],
        margins=trained.margins,
        simulated=True,
        dataset_fingerprint=fingerprint(data),
        commit=commit(),
        seed=config.seed,
        command=command_line(),
        licence="Apache-2.0",
        metrics=trained.metrics,
        training=msgspec.to_builtins(config),
    )
