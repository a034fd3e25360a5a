"""A training in MLflow: parameters, curves, table 5, the model with its signature, a version in the registry.

Without a server a training goes on: the run is kept in a folder and stored later (`osml learn models sync`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# onnx's own annotations have gaps.
from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import msgspec
import numpy as np

from osml.base.failure import Failure, InputError
from osml.base.json_file import read_json
from osml.base.masking import masked
from osml.datasets.store import sha256
from osml.predictors import ModelMetadata
from osml.predictors.metadata import METADATA, ONNX
from osml_training.train.train import Trained

EXPERIMENT = "osml"
PENDING = Path("out/mlflow-pending")
"""Runs that could not be stored yet."""

_CURVES = "curve.json"
_SQLITE = "sqlite:///"
_SCHEMES = ("sqlite", "http", "https", "postgresql", "mysql", "mssql", "databricks")


class Point(msgspec.Struct, frozen=True):
    """Named values of a training after so many epochs or updates."""

    step: int
    values: dict[str, float]


class Curve(msgspec.Struct, frozen=True):
    """What of a training goes beside its metadata."""

    points: list[Point]


def curve_of(trained: Trained, answers: tuple[str, ...]) -> Curve:
    """Loss and validation errors by epoch."""
    points: list[Point] = []
    for epoch in trained.epochs:
        errors = {f"validation_mae.{name}": value for name, value in zip(answers, epoch.validation_mae, strict=True)}
        points.append(Point(epoch.number, errors | {"loss": epoch.loss}))
    return Curve(points)


def check_uri(uri: str) -> None:
    """InputError for what is no address of a tracking server or database, before a training of hours."""
    if uri.startswith("file:"):
        raise InputError(
            f"tracking URI is '{masked(uri)}', expected sqlite:///FILE: MLflow has no registry in plain folders"
        )
    scheme, found, _ = uri.partition("://")
    if not found or scheme.partition("+")[0] not in _SCHEMES:
        raise InputError(f"tracking URI is '{masked(uri)}', expected sqlite:///FILE, http://... or https://...")


def absolute(uri: str) -> str:
    """The same address for whoever is in another folder: that of a local database has its whole path."""
    database = _local(uri)
    return uri if database is None else f"{_SQLITE}{database}"


def _local(uri: str) -> Path | None:
    return Path(uri.removeprefix(_SQLITE)).absolute() if uri.startswith(_SQLITE) else None


@contextmanager
def connected(uri: str, *, create: bool = True) -> Generator[Any]:
    """The mlflow module, connected; Failure where the server can't be reached, InputError for no kind of URI.

    Without `create` a database that is not there is an InputError, too: who only reads makes none.
    """
    check_uri(uri)
    database = _local(uri)
    if database is not None and not create and not database.exists():
        raise InputError(
            f"database '{database}' does not exist, expected one of MLflow; `osml learn train --track {uri}` makes it"
        )
    # Quick to give up: the run is kept and stored later.
    for name, value in (("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"), ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")):
        os.environ.setdefault(name, value)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow as imported  # noqa: PLC0415 - takes seconds

    mlflow: Any = imported
    try:
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
        yield mlflow
    except (mlflow.exceptions.MlflowException, OSError) as error:
        raise Failure(masked(f"MLflow at '{uri}': {shorten(str(error), 300, placeholder=' ...')}")) from None


def _experiment(mlflow: Any, uri: str) -> None:
    """Artifacts of a local database lie beside it, wherever the command was started."""
    if mlflow.get_experiment_by_name(EXPERIMENT) is None:
        database = _local(uri)
        where = None if database is None else (database.parent / "mlflow-artifacts").as_uri()
        mlflow.create_experiment(EXPERIMENT, artifact_location=where)
    mlflow.set_experiment(EXPERIMENT)


def registered_name(metadata: ModelMetadata) -> str:
    """One registered model a kind and platform: its versions compete."""
    return f"osml-{metadata.kind}-{metadata.platform}"


def _metrics(metadata: ModelMetadata) -> dict[str, float]:
    out: dict[str, float] = {}
    if metadata.kind == "c":
        for row in metadata.metrics.get("rows", []):
            if row["policy"] == "model":
                out |= {f"{row['split']}.{key}": float(x) for key, x in row.items() if isinstance(x, int | float)}
        return out
    for row in metadata.metrics.get("rows", []):
        for key in ("core_mae", "way_mae", "off_cliff_share"):
            if row.get(key) is not None:
                out[f"{row['split']}.{row['output']}.{key}"] = float(row[key])
    for key in ("coverage", "coverage_unseen"):
        out |= {f"{key}.{c}": float(share) for c, share in metadata.metrics.get(key, {}).items()}
    return out


def _signature(metadata: ModelMetadata) -> Any:
    from mlflow.models import ModelSignature  # noqa: PLC0415
    from mlflow.types import Schema, TensorSpec  # noqa: PLC0415

    kind: Any = np.dtype("float32")
    inputs = Schema([TensorSpec(kind, (-1, len(metadata.features)), "features")])
    names = ("q",) if metadata.kind == "c" else ("points", "spread")
    outputs = Schema([TensorSpec(kind, (-1, len(metadata.outputs)), name) for name in names])
    return ModelSignature(inputs=inputs, outputs=outputs)


def store(uri: str, metadata: ModelMetadata, curve: Curve, folder: Path) -> str:
    """Store one trained model as a run and a new version, alias `challenger`; returns the version."""
    import onnx  # noqa: PLC0415

    loaded: Any = onnx.load(str(folder / ONNX))
    with connected(uri) as mlflow:
        _experiment(mlflow, uri)
        with mlflow.start_run(run_name=metadata.name):
            config = {f"config.{key}": str(value)[:500] for key, value in metadata.training.items()}
            mlflow.log_params(config | {"command": metadata.command[:500], "dataset": metadata.dataset_fingerprint})
            for point in curve.points:
                mlflow.log_metrics(point.values, step=point.step)
            mlflow.log_metrics(_metrics(metadata))
            mlflow.log_dict(metadata.metrics, "table5.json")
            info = mlflow.onnx.log_model(
                loaded,
                name="model",
                signature=_signature(metadata),
                save_as_external_data=False,
                registered_model_name=registered_name(metadata),
                pip_requirements=["onnxruntime"],
                onnx_execution_providers=["CPUExecutionProvider"],
            )
            mlflow.log_artifacts(str(folder), "bundle")
            run: str = mlflow.active_run().info.run_id
        client = mlflow.MlflowClient()
        version = str(info.registered_model_version)
        tags = {
            "dataset_fingerprint": metadata.dataset_fingerprint,
            "commit": metadata.commit,
            "run": run,
            "platform": metadata.platform,
            "kind": metadata.kind,
            "name": metadata.name,
            "version": metadata.version,
        }
        for key, value in tags.items():  # before the alias: who follows it finds all of them
            client.set_model_version_tag(registered_name(metadata), version, key, value)
        client.set_registered_model_alias(registered_name(metadata), "challenger", version)
        return version


def track(uri: str, trained: Trained, metadata: ModelMetadata, folder: Path, pending: Path = PENDING) -> list[str]:
    """Store a training; where that fails keep it in `pending`. Returns what the user should know."""
    return track_curve(uri, curve_of(trained, metadata.answers), metadata, folder, pending)


def track_curve(uri: str, curve: Curve, metadata: ModelMetadata, folder: Path, pending: Path = PENDING) -> list[str]:
    """The same for a training that is known by its curve."""
    try:
        store(uri, metadata, curve, folder)
    except Failure as failure:
        # By its weights, too: other rows or passes of the same data set and seed are another run.
        which = f"{metadata.dataset_fingerprint[:8]}-{metadata.seed}-{sha256(folder / ONNX)[:8]}"
        kept = pending / f"{metadata.name}-{metadata.version}-{which}"
        try:
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            (kept / _CURVES).write_bytes(msgspec.json.encode(curve))
        except OSError as error:  # shutil's own kind has a list of lists instead of a reason
            why = error.strerror or str(error)[:200]
            return [f"MLflow failed ({failure}) and {kept} cannot be written ({why}); the model is in {folder}"]
        again = f"`osml learn models sync --uri {masked(uri)}`"
        return [f"MLflow failed ({failure}); the run is in {kept}; store it with {again}"]
    return []


def synchronise(uri: str, pending: Path = PENDING) -> list[str]:
    """Store all runs that are pending; returns their names.

    A run that can't be read or removed holds up none of the others: Failure names it after they are stored. Failure of
    MLflow leaves the rest where it is.
    """
    stored: list[str] = []
    odd: list[str] = []
    for kept in sorted(path.parent for path in pending.glob(f"*/{METADATA}")):
        try:
            metadata, curve = read_json(kept / METADATA, ModelMetadata), read_json(kept / _CURVES, Curve)
        except InputError as error:
            odd.append(f"{kept} can't be read and stays ({error})")
            continue
        store(uri, metadata, curve, kept)
        stored.append(metadata.name)
        try:
            shutil.rmtree(kept)
        except OSError as error:
            odd.append(f"{kept} is stored, but cannot be removed ({error.strerror}): the next sync stores it again")
    if odd:
        raise Failure(f"{'; '.join(odd)}; stored: {', '.join(stored) or 'none'}")
    return stored
