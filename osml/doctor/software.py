"""Which optional software is here, and which models for which platforms."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from osml.base.failure import InputError
from osml.doctor.finding import Area, Finding
from osml.predictors import load_manifest, models_folder

_PACKAGES: tuple[tuple[str, str, Area, str], ...] = (
    ("models", "onnxruntime", "decide", "uv sync --inexact --package osml --extra models"),
    ("server", "osml-serving", "decide", "uv sync --inexact --package osml-serving"),
    ("virtual node", "numba", "simulate", "uv sync --inexact --package osml --extra simulator"),
    ("mount", "mfusepy", "simulate", "uv sync --inexact --package osml --extra fuse"),
    ("environment", "gymnasium", "simulate", "uv sync --inexact --package osml --extra gym"),
    ("bench", "scikit-learn", "simulate", "uv sync --inexact --package osml --extra lab"),
    ("training", "torch", "train", "make setup-training (installs 6 GB)"),
    ("tracking", "mlflow", "train", "make setup-training (installs 6 GB)"),
    ("cluster", "ray", "train", "make setup-training (installs 6 GB)"),
)
"""What it is for, the distribution that has it, and how to get it."""


def software_findings(installed: Callable[[str], str] = version) -> list[Finding]:
    """Optional packages by what they are for, then the shipped models."""
    return [*(_package(*entry, installed) for entry in _PACKAGES), _models()]


def _package(purpose: str, package: str, area: Area, how: str, installed: Callable[[str], str]) -> Finding:
    try:
        return Finding(purpose, area, True, f"{package} {installed(package)}")
    except PackageNotFoundError:
        return Finding(purpose, area, False, f"{package} is not installed", f"`{how}`")


def _models() -> Finding:
    folder = models_folder()
    try:
        entries = load_manifest(folder).models
    except InputError as error:
        return Finding("predictions", "decide", False, str(error), "`osml learn models pull`")
    if not entries:
        return Finding(
            "predictions",
            "decide",
            False,
            f"{folder} has no models: the policy osml uses the rules of arq",
            "`osml learn models pull`, or `osml learn train` on traces of this platform",
        )
    platforms = sorted({entry.platform for entry in entries})
    listed = "; ".join(
        f"{platform}: {', '.join(sorted(e.kind for e in entries if e.platform == platform))}" for platform in platforms
    )
    return Finding("predictions", "decide", True, listed)
