"""`osml learn train calibrate` without its command line: new margins for unknown services, the same weights."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import Failure, InputError
from osml.datasets.store import LABELS, dataset_fingerprint
from osml.predictors import ModelMetadata, load_predictor
from osml.predictors.metadata import CARD, METADATA, ONNX
from osml_training.evaluate.evaluate import config_of, evaluate
from osml_training.export.bundle import encoded
from osml_training.export.card import card
from osml_training.export.commit import commit
from osml_training.export.made import command_line
from osml_training.export.publish import Judged, publish
from osml_training.jobs.evaluation import folder_of
from osml_training.train import loop
from osml_training.train.train import held_rows, load_part
from osml_training.train.unseen import unseen_margins


def calibrate(
    model: str, dataset: Path, models: Path | None = None, *, folds: int | None = None, workers: int = 1
) -> dict[str, Any]:
    """Make `margins_unseen` of a model in its folder anew, from the rows of its training.

    Returns its evaluation, with `warnings`.

    `folds` replaces the number of groups of services that its training left out in turn: with more of them each network
    knows more services, and errs less like one that knows few; `workers` processes train them. `model.onnx`, the
    margins for known services and the commit of the training stay; metadata and card say by which command and commit
    the new margins were made, and the manifest gets the new checksums, all at the end. Raises InputError for another
    data set than that of the training, for a transferred model, for less than two groups, and for more than there are
    services; Failure where no margins come of it.
    """
    folder = folder_of(model, models)
    predictor = load_predictor(folder)
    old = predictor.metadata
    if old.kind in ("c", "c2"):
        raise InputError(f"model '{old.name}' is of kind {old.kind}, expected A, A', B or B'")
    if old.parent is not None:
        raise InputError(
            f"model '{old.name}' is a transfer of '{old.parent}', expected a model without a parent: "
            "the networks of the groups would learn without it"
        )
    config, platforms = config_of(predictor), tuple(old.platforms)
    if folds is not None:
        if folds > len(old.services):
            raise InputError(
                f"--folds is {folds}, expected at most {len(old.services)}, the number of services in the training"
            )
        config = msgspec.structs.replace(config, service_folds=folds).checked()
    if config.service_folds < 2:
        raise InputError(
            f"model '{old.name}': service_folds is {config.service_folds}, expected at least 2 to leave groups of "
            "services out; set --folds"
        )
    found = dataset_fingerprint(dataset, LABELS)
    differs = found != old.dataset_fingerprint
    of_older = differs and dataset_fingerprint(dataset) == old.dataset_fingerprint  # that of the traces alone
    if differs and not of_older:
        raise InputError(
            f"data set '{dataset}' has fingerprint {found[:12]}..., expected {old.dataset_fingerprint[:12]}..., "
            f"the data set of the training of model '{old.name}'"
        )
    loop.deterministic()
    train = load_part(dataset, config, "train", platforms=platforms)
    validation = load_part(dataset, config, "validation", rows=held_rows(config), platforms=platforms)
    margins, errors, warnings = unseen_margins(train, validation, config, workers=workers)
    if not margins:
        why = warnings[0] if warnings else "no group of services has rows that the others can be asked about"
        raise Failure(f"the margins of model '{old.name}' stay as they are: {why}")
    if of_older:
        warnings = [
            f"model '{old.name}' is of an older version, which knew the traces and not the labels: the new margins are "
            "right only if the labels are still those of its training",
            *warnings,
        ]
    made = {"command": command_line(), "commit": commit()}
    first = msgspec.structs.replace(
        old,
        margins_unseen=margins,
        training=old.training | {"service_folds": config.service_folds},
        metrics=old.metrics | {"service_fold_mae": errors, "calibrated": made},
    )

    def write(metadata: ModelMetadata, beside: Path) -> None:
        if not (beside / ONNX).exists():
            shutil.copyfile(folder / ONNX, beside / ONNX)
        (beside / METADATA).write_bytes(encoded(metadata))
        (beside / CARD).write_text(card(metadata), "utf-8")

    def judged(beside: Path) -> Judged:
        document = evaluate(load_predictor(beside), dataset, platforms=platforms)
        metrics = first.metrics | {"coverage_unseen": document["coverage_unseen"]}
        return msgspec.structs.replace(first, metrics=metrics), document

    if folder.resolve().name != first.name:
        raise InputError(
            f"{folder} has the model '{first.name}', expected it in a folder of that name: rename the folder"
        )
    done = publish(write, first, folder.resolve().parent, judged)
    return done.document | {"warnings": [*warnings, *done.warnings]}
