"""Training and answering: rows a second of Model-A at batch 4096, one answer, answers for 8 services."""

# ruff: noqa: PLC0415 - torch and onnxruntime may be missing

from __future__ import annotations

from importlib.util import find_spec

from osml.base.extras import how_to_install
from osml.lab.benchmarks.harness import rate, take, take_answers

_ROWS = 400_000


def _training() -> None:
    if find_spec("torch") is None or find_spec("osml_training") is None:
        print(f"training: skipped, torch is not installed: {how_to_install('train', package='osml-training')}")
        return
    import msgspec
    import numpy as np

    from osml_training.networks import Network
    from osml_training.train import loop
    from osml_training.train.config import Config, shipped_config
    from osml_training.train.network import new_network
    from osml_training.train.scaling import scaling_of
    from osml_training.train.table import Rows

    for variant in ("paper", "masked"):
        config = msgspec.structs.replace(shipped_config("a", variant), batch=4096, epochs=1, rows=_ROWS)
        rng = np.random.default_rng(0)
        x = rng.uniform(1, 100, (_ROWS, len(config.inputs))).astype(np.float32)
        y = rng.uniform(1, 36, (_ROWS, 5)).astype(np.float32)
        none = np.zeros(_ROWS, np.int32)
        rows = Rows(x, y, none, none, none.astype(np.int64), none.astype(np.float32), ("s",), ("p",))
        few = rows.taken(np.arange(1000))
        loop.deterministic()  # one thread, as `osml learn train` does
        network = new_network(config, scaling_of(few.x, config), few)
        batches = loop.from_memory(network, rows, config)

        def one_pass(
            network: Network = network, batches: loop.Batches = batches, few: Rows = few, config: Config = config
        ) -> None:
            loop.fit(network, batches, few, config, -(-_ROWS // 4096))

        take(f"training_a_{variant}", "rows/s", rate(_ROWS, one_pass))


def _answers() -> None:
    if find_spec("onnxruntime") is None:
        print(f"answers: skipped, onnxruntime is not installed: {how_to_install('models')}")
        return
    from osml.predictors import find_model, load_predictor, models_folder

    opened = load_predictor(find_model(models_folder(), "a", "e5-2697v4"))
    take_answers("answer_a", len(opened.metadata.features), opened.predict)


def run() -> None:
    """All figures."""
    _answers()
    _training()
