"""`osml learn train transfer` without its command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import InputError
from osml.datasets.store import keys_of, trace_files
from osml.predictors import load_predictor
from osml_training.evaluate.evaluate import evaluate
from osml_training.export.bundle import describe, write_bundle
from osml_training.export.made import command_line
from osml_training.export.publish import Judged, check_name, publish
from osml_training.jobs.evaluation import folder_of
from osml_training.train.config import Config
from osml_training.transfer.transfer import curve, transfer


def _platform(traces: Path, platform: str | None) -> str:
    found = {keys_of(file)["platform"] for file in trace_files(traces)}
    if platform is not None:
        if platform not in found:
            raise InputError(f"--platform is '{platform}', but the traces have {', '.join(sorted(found))}")
        return platform
    if len(found) > 1:
        raise InputError(f"the traces have platforms {', '.join(sorted(found))}; choose one with --platform")
    return found.pop()


def _changed(changes: dict[str, Any]) -> Callable[[Config], Config]:
    return lambda config: msgspec.structs.replace(config, **changes).checked()


def transfer_job(
    source: str,
    traces: Path,
    platform: str | None,
    share: float,
    changes: dict[str, Any],
    models: Path | None,
    out: Path,
    name: str | None = None,
) -> dict[str, Any]:
    """Transfer, export, evaluate; returns the document with `folder` and `warnings`.

    InputError where the folder would be the parent's.
    """
    where = _platform(traces, platform)
    parent = folder_of(source, models)
    about = load_predictor(parent).metadata
    name = name or f"{about.kind}-{about.variant}-{where}"
    check_name(name)
    if (out / name).resolve() == parent.resolve():
        raise InputError(f"the new model would replace its parent '{parent}'; set --name or --out")
    trained = transfer(parent, traces, where, share=share, changes=_changed(changes))
    metadata = describe(
        trained,
        traces,
        name=name,
        version="1",
        command=command_line(),
        metrics={},
        parent=about.name,
    )

    def judged(folder: Path) -> Judged:
        document = evaluate(load_predictor(folder), traces, platforms=(where,), transferred=True)
        told = {key: document[key] for key in ("rows", "coverage", "coverage_unseen", "hidden_counters")}
        return msgspec.structs.replace(metadata, metrics=metadata.metrics | told), document

    done = publish(partial(write_bundle, trained), metadata, out, judged)
    return done.document | {"folder": str(done.folder), "warnings": [*trained.warnings, *done.warnings]}


def draw_curve(
    source: str,
    traces: Path,
    platform: str | None,
    shares: list[float],
    changes: dict[str, Any],
    models: Path | None,
    plot: Path | None,
    on_progress: Callable[[float], None] | None,
) -> dict[str, Any]:
    """The curve of a transfer, and its picture where one is wanted."""
    where = _platform(traces, platform)
    document = curve(
        folder_of(source, models), traces, where, shares=shares, changes=_changed(changes), on_progress=on_progress
    )
    if plot is not None:
        from osml_training.evaluate.plots import plot_transfer  # noqa: PLC0415

        plot_transfer(document, plot)
    return document
