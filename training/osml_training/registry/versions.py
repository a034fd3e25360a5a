"""Versions of models in MLflow: list, promote, fetch."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import Failure, InputError
from osml.base.masking import masked
from osml.predictors import ModelMetadata, read_metadata
from osml.predictors.metadata import CARD, METADATA, ONNX
from osml.predictors.model_check import open_checked
from osml_training.export.bundle import entry_of
from osml_training.export.publish import Published, publish
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
                        "kind": found.tags.get("kind") or _kind_in(model.name),
                        "variant": None,
                        "sha256": None,
                        "dataset_fingerprint": found.tags.get("dataset_fingerprint"),
                        "metrics": _metrics(client, found.tags.get("run")),
                        "uri": masked(uri),
                    }
                )
    return sorted(out, key=lambda row: (row["name"], int(row["version"])))


def _kind_in(name: str) -> str | None:
    """The kind in the name of a registered model, such as osml-KIND-PLATFORM; older versions have no tag of it."""
    parts = name.split("-", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "osml" else None


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


def pull(uri: str, name: str, which: str, models: Path) -> Published:
    """Fetch a version's folder into a folder of models and enter it in the manifest.

    The manifest lists it before all others of its kind, so it is the one in use. What was fetched is opened before it
    is kept: Failure where it is broken, InputError for names that are no plain ones.
    """
    with tempfile.TemporaryDirectory(prefix="osml-pull-") as scratch:
        with connected(uri, create=False) as mlflow:
            version = _version(mlflow.MlflowClient(), name, which)
            run = version.tags.get("run")
            if not run:
                raise InputError(f"version {version.version} of model '{name}' has no tag 'run': osml did not store it")
            fetched = Path(mlflow.artifacts.download_artifacts(f"runs:/{run}/bundle", dst_path=scratch))

        def write(metadata: ModelMetadata, folder: Path) -> None:
            try:
                for file in (ONNX, METADATA, CARD):
                    shutil.copyfile(fetched / file, folder / file)
            except OSError as error:
                raise Failure(f"{fetched} can't be copied to {folder} ({error.strerror or str(error)[:200]})") from None
            entry = entry_of(folder, metadata)
            open_checked(folder.parent, msgspec.structs.replace(entry, name=folder.name))  # as a server does

        return publish(write, read_metadata(fetched), models, first=True)
