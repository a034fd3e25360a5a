"""The same training on a Ray cluster: each worker reads and trains on its share of the runs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Ray's own annotations have gaps.

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from osml.base.extras import how_to_install
from osml.base.failure import Failure
from osml_training.train.config import Config
from osml_training.train.distributed import Together
from osml_training.train.loop import Epoch
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.table import check_rows
from osml_training.train.train import Fitted, Limit, Trained, finish, fit_network, load_part, ranges_of

_WEIGHTS = "network.pt"


def _worker(settings: dict[str, Any]) -> None:
    """Runs in every worker; the first one reports the weights."""
    import tempfile  # noqa: PLC0415

    import ray.train  # noqa: PLC0415
    import torch  # noqa: PLC0415

    config = msgspec.convert(settings["config"], Config)
    together = Together()
    fitted = fit_network(
        Path(settings["dataset"]),
        config,
        platforms=settings["platforms"],
        keep=together.mine,
        graph=settings["graph"],
    )
    report: Any = ray.train
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if together.rank == 0:
            tensors: Any = torch
            tensors.save(fitted.network.state_dict(), Path(folder) / _WEIGHTS)
            checkpoint = report.Checkpoint.from_directory(folder)
        epochs = [epoch._asdict() for epoch in fitted.epochs]
        report.report({"epochs": epochs}, checkpoint=checkpoint)


def _reason(told: str, workers: int) -> str:
    """What a worker's traceback ends with, without the name of the exception."""
    lines = [line.strip() for line in told.splitlines() if line.strip()] or ["no reason given"]
    reason = (lines[-1].partition("Error: ")[2] or lines[-1])[:300]
    return f"{reason}; each of {workers} workers needs its own runs" if "no examples" in reason else reason


def train_on_ray(
    dataset: Path,
    config: Config,
    *,
    platforms: tuple[str, ...] | None,
    workers: int,
    address: str,
    storage: Path,
    graph: Limit | None = None,
) -> Trained:
    """A training by `workers` processes; `dataset` and `storage` are paths that all of them can reach.

    Each process trains on its share of the runs, gradients are averaged; margins are made here. Raises Failure where
    there is no cluster at the address or a worker failed.
    """
    # Ray would start its workers by `uv run` in a copy of the folder, without our environment.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray  # noqa: PLC0415
        import torch  # noqa: PLC0415
        from ray.train import RunConfig, ScalingConfig, TrainingFailedError  # noqa: PLC0415
        from ray.train.torch import TorchConfig, TorchTrainer  # noqa: PLC0415
    except ImportError:
        raise Failure(f"--ray needs Ray: {how_to_install('train', 'ray', package='osml-training')}") from None
    cluster: Any = ray
    local = address == "local"
    try:
        cluster.init(
            address=None if local else address,
            include_dashboard=False,
            log_to_driver=False,
            num_cpus=workers + 1 if local else None,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Failure(f"cannot reach a Ray cluster at '{address}' ({error})") from None
    trainer: Any = TorchTrainer(
        _worker,
        train_loop_config={
            "config": msgspec.to_builtins(config),
            "dataset": str(dataset.absolute()),
            "platforms": platforms,
            "graph": graph,
        },
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=False),
        torch_config=TorchConfig(backend="gloo"),
        run_config=RunConfig(name="osml", storage_path=str(storage.absolute())),
    )
    tensors: Any = torch
    try:
        result: Any = trainer.fit()
        with result.checkpoint.as_directory() as folder:
            weights = tensors.load(Path(folder) / _WEIGHTS, weights_only=True)
        epochs = [Epoch(**epoch) for epoch in result.metrics["epochs"]]
    except (cluster.exceptions.RayError, TrainingFailedError) as error:
        raise Failure(f"training on Ray failed: {_reason(str(error), workers)}") from None
    finally:
        cluster.shutdown()
    rows = load_part(dataset, config, "train", platforms=platforms)
    validation = load_part(dataset, config, "validation", platforms=platforms)
    network = new_network(config, scaling_of(rows.x, config), rows)
    network.load_state_dict(weights)
    network.eval()
    warnings = check_rows(rows, config)
    if graph is not None and (words := graph(*ranges_of(rows, config)).words(epochs)):
        warnings = [*warnings, words]
    return finish(Fitted(network, epochs, rows, validation, warnings), dataset, config, platforms=platforms)
