"""The alias `champion` of a registered model in MLflow, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osml.predictors import ModelMetadata
from osml_training.registry.tracking import Curve, Point, connected, store
from osml_training.registry.versions import CHAMPION


def register(uri: str, metadata: ModelMetadata, losses: list[tuple[int, float]], folder: Path) -> str:
    """Store a candidate, promoted or not, as a run and a version with the alias `challenger`; returns the version.

    Raises Failure where MLflow can't be reached.
    """
    return store(uri, metadata, Curve([Point(step, {"loss": loss}) for step, loss in losses]), folder)


def champion_version(uri: str, name: str, *, create: bool = True) -> str | None:
    """The version of a registered model that has the alias now; None where none has. Failure where MLflow fails.

    Without `create` also InputError where there is no such database.
    """
    with connected(uri, create=create) as mlflow:
        return _version(mlflow.MlflowClient(), name)


def move_champion(uri: str, name: str, version: str | None) -> None:
    """Give the alias to a version, or take it away (None)."""
    with connected(uri) as mlflow:
        client = mlflow.MlflowClient()
        if version is not None:
            client.set_registered_model_alias(name, CHAMPION, version)
        elif _version(client, name) is not None:
            client.delete_registered_model_alias(name, CHAMPION)


def _version(client: Any, name: str) -> str | None:
    """None where there is no such model, or it has no champion; whatever else goes wrong is an error."""
    import mlflow.exceptions as errors  # noqa: PLC0415 - takes seconds

    try:
        found = client.get_registered_model(name).aliases.get(CHAMPION)
    except errors.MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return None if found is None else str(found)
