"""`osml learn train evaluate` without its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osml.base.failure import InputError
from osml.predictors import load_predictor, models_folder
from osml.predictors.metadata import METADATA
from osml_training.collect.fresh_sweep import FRESH_ROWS, kept_in
from osml_training.evaluate.evaluate import config_of, evaluate
from osml_training.tables.runs import NoExamplesError
from osml_training.train.config import Config, from_nothing
from osml_training.train.train import load_part


def folder_of(model: str, models: Path | None = None) -> Path:
    """The folder of a model by its path or its name."""
    for folder in (Path(model), (models or models_folder()) / model):
        if (folder / METADATA).is_file():
            return folder
    raise InputError(f"model '{model}' is neither a folder with a {METADATA} nor a name in {models or models_folder()}")


def fresh_dataset(config: Config, platform: str, seed: int, rows: int = FRESH_ROWS) -> Path:
    """A labelled sweep of the virtual node with all services, made once for each node, platform and seed."""
    from osml.simulator import catalogs  # noqa: PLC0415 - compiled code
    from osml_training.collect.collect import collect_labelled  # noqa: PLC0415
    from osml_training.collect.sweep import Sweep  # noqa: PLC0415

    services = tuple(catalogs.service_names())
    alone = config.model == "a"
    sweep = Sweep((platform,), services, services, rows=rows, samples=2, seed=seed, colocated=0 if alone else 1000)
    return collect_labelled(kept_in(f"{'alone' if alone else 'beside'}-{platform}-{seed}-{rows}"), sweep)


def evaluation(
    model: str,
    *,
    platform: str | None = None,
    dataset: Path | None = None,
    rows: int = 200_000,
    with_baselines: bool = False,
    with_importance: bool = False,
    with_floor: bool = False,
    with_reachable: bool = False,
    with_left_out: bool = False,
    models: Path | None = None,
    seed: int = 1001,
    plot: Path | None = None,
) -> dict[str, Any]:
    """Evaluate a model; with a platform that it was not trained for, its answers there."""
    predictor = load_predictor(folder_of(model, models))
    config = config_of(predictor)
    own = predictor.metadata.platforms
    where = platform or own[0]
    transferred = where not in own or predictor.metadata.parent is not None
    data = dataset or fresh_dataset(config, where, seed)
    document = evaluate(predictor, data, platforms=(where,), rows=rows, transferred=transferred)
    document["platform"] = where
    if with_baselines:
        document["baselines"] = _baselines(config, data, where, rows, "transfer" if transferred else "seen")
    if with_importance:
        from osml_training.evaluate.importance import importance, rank_correlation  # noqa: PLC0415

        test = load_part(data, config, "test", rows=min(rows, 20_000), platforms=(where,))
        document["importance"] = importance(predictor, test)
        document["spearman"] = rank_correlation(test, config.inputs)
    if with_floor:
        from osml_training.evaluate.noise_floor import label_noise  # noqa: PLC0415

        document["floor"] = label_noise(data, where, data.with_name(f"{data.name}-noise-free"), config.model)
    if with_reachable:
        from osml_training.evaluate.attainable_error import reachable  # noqa: PLC0415

        document["reachable"] = reachable(
            from_nothing(config), data, where, "transfer" if transferred else "seen", rows
        )
    if with_left_out:
        from osml_training.evaluate.left_out import left_out  # noqa: PLC0415

        document["left_out"] = left_out(from_nothing(config), data, where)
    if plot is not None:
        from osml_training.evaluate.plots import plot_calibration  # noqa: PLC0415

        parts = [load_part(data, config, part, rows=rows, platforms=(where,)) for part in ("calibration", "test")]
        document["calibration"] = plot_calibration(predictor, parts[0], parts[1], plot)
    return document


def _baselines(config: Config, data: Path, platform: str, rows: int, split: str) -> dict[str, Any]:
    from osml_training.evaluate.baselines import baselines  # noqa: PLC0415

    train = load_part(data, config, "train", platforms=(platform,), rows=min(rows, 100_000))
    tests = {split: load_part(data, config, "test", rows=min(rows, 20_000), platforms=(platform,))}
    try:
        tests["unseen"] = load_part(data, config, "unseen", rows=min(rows, 20_000), platforms=(platform,))
    except NoExamplesError:
        pass  # a data set without unseen services is one, too
    return baselines(config, train, tests)
