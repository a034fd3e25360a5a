"""Which optional software is here, and which models for which platforms."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from osml.base.extras import how_to_install
from osml.base.failure import InputError
from osml.doctor.finding import Area, Finding
from osml.predictors import ManifestEntry, load_manifest, models_folder
from osml.predictors.manifest import verify_entry

_PACKAGES: tuple[tuple[str, str, Area, str], ...] = (
    ("models", "onnxruntime", "decide", how_to_install("models")),
    ("server", "osml-serving", "decide", how_to_install(package="osml-serving")),
    ("virtual node", "numba", "simulate", how_to_install("simulator")),
    ("mount", "mfusepy", "simulate", how_to_install("fuse")),
    ("environment", "gymnasium", "simulate", how_to_install("gym")),
    ("bench", "scikit-learn", "simulate", how_to_install("lab")),
    ("training", "torch", "train", how_to_install("train", package="osml-training")),
    ("tracking", "mlflow", "train", how_to_install("train", package="osml-training")),
    ("cluster", "ray", "train", how_to_install("ray", package="osml-training")),
)
"""What it is for, the distribution that has it, and how to get it."""


def software_findings(installed: Callable[[str], str] = version) -> list[Finding]:
    """Optional packages by what they are for, then the shipped models."""
    return [*(_package(*entry, installed) for entry in _PACKAGES), _models()]


def _package(purpose: str, package: str, area: Area, how: str, installed: Callable[[str], str]) -> Finding:
    try:
        return Finding(purpose, area, True, f"{package} {installed(package)}")
    except PackageNotFoundError:
        return Finding(purpose, area, False, f"{package} is not installed", how)


def _models() -> Finding:
    folder = models_folder()
    remedy = "set OSML_MODELS to a folder of models, for example `models` in the checkout of osml"
    try:
        entries = load_manifest(folder).models
    except InputError as error:
        return Finding("predictions", "decide", False, str(error), remedy)
    if not entries:
        reason = f"{folder} has no models: the policy osml takes the needs of square-root staffing"
        return Finding("predictions", "decide", False, reason, remedy)
    faults = [fault for entry in entries if (fault := _fault(folder, entry)) is not None]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        remedy = "copy the folder of models again, or set OSML_MODELS to another"
        return Finding("predictions", "decide", False, faults[0] + more, remedy)
    platforms = sorted({entry.platform for entry in entries})
    listed = "; ".join(
        f"{platform}: {', '.join(sorted(e.kind for e in entries if e.platform == platform))}" for platform in platforms
    )
    return Finding("predictions", "decide", True, listed)


def _fault(folder: Path, entry: ManifestEntry) -> str | None:
    try:
        verify_entry(folder, entry)
    except InputError as error:
        return str(error)
    return None
