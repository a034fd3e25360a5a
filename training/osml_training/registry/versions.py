"""Versions of models in MLflow: list, promote, fetch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from osml.base.failure import Failure, InputError
from osml.base.masking import masked
from osml.predictors import load_predictor, load_q_function, read_metadata
from osml.predictors.metadata import METADATA
from osml_training.export.bundle import add_to_manifest, entry_of
from osml_training.registry.tracking import connected

CHAMPION, CHALLENGER = "champion", "challenger"


def versions(uri: str) -> list[dict[str, Any]]:
    """All versions of all registered models with their aliases."""
    out: list[dict[str, Any]] = []
    with connected(uri, create=False) as mlflow:
        client = mlflow.MlflowClient()
        for model in client.search_registered_models():
            aliases: dict[str, list[str]] = {}
            for alias, version in model.aliases.items():
                aliases.setdefault(str(version), []).append(alias)
            for found in client.search_model_versions(f"name='{model.name}'"):
                out.append(
                    {
                        "name": model.name,
                        "version": str(found.version),
                        "aliases": sorted(aliases.get(str(found.version), [])),
                        "platform": found.tags.get("platform"),
                        "sha256": None,
                        "dataset_fingerprint": found.tags.get("dataset_fingerprint"),
                        "metrics": _metrics(client, found.tags.get("run")),
                        "uri": masked(uri),
                    }
                )
    return sorted(out, key=lambda row: (row["name"], int(row["version"])))


def _metrics(client: Any, run: str | None) -> dict[str, float]:
    return {} if run is None else dict(client.get_run(run).data.metrics)


def _version(client: Any, name: str, which: str) -> Any:
    """A version by number or alias; InputError where there is none."""
    import mlflow.exceptions as errors  # noqa: PLC0415

    try:
        return (
            client.get_model_version(name, which) if which.isdigit() else client.get_model_version_by_alias(name, which)
        )
    except errors.MlflowException:
        raise InputError(
            f"model '{name}' has no version or alias '{which}'; `osml learn models list --uri` lists them"
        ) from None


def promote(uri: str, name: str, which: str, alias: str = CHAMPION) -> str:
    """Move an alias to a version (a number or another alias); returns the version."""
    with connected(uri, create=False) as mlflow:
        client = mlflow.MlflowClient()
        version = str(_version(client, name, which).version)
        client.set_registered_model_alias(name, alias, version)
        return version


def pull(uri: str, name: str, which: str, models: Path) -> Path:
    """Fetch a version's folder into a folder of models and enter it in the manifest; returns its folder.

    What was fetched is opened before it is kept: InputError where it is broken.
    """
    with connected(uri, create=False) as mlflow:
        client = mlflow.MlflowClient()
        version = _version(client, name, which)
        fetched = Path(mlflow.artifacts.download_artifacts(f"runs:/{version.tags['run']}/bundle"))
    opened = load_q_function(fetched) if read_metadata(fetched).kind == "c" else load_predictor(fetched)
    metadata = opened.metadata
    if Path(metadata.name).name != metadata.name:
        raise InputError(f"{fetched / METADATA}: name is '{metadata.name}', expected a folder name")
    folder = models / metadata.name
    try:
        shutil.copytree(fetched, folder, dirs_exist_ok=True)
    except OSError as error:
        raise Failure(f"{folder} can't be written ({error.strerror or str(error)[:200]})") from None
    add_to_manifest(models, entry_of(folder, metadata))
    return folder
