"""Model-C: tuples that are learned from in a second, one answer, answers for 8 services."""

# ruff: noqa: PLC0415 - torch and onnxruntime may be missing

from __future__ import annotations

from importlib.util import find_spec

from osml.base.extras import how_to_install
from osml.lab.benchmarks.harness import rate, take, take_answers

_RUNS, _CORES, _WAYS, _SAMPLES = 100, 36, 20, 2
_UPDATES = 200


def _learning() -> None:
    if find_spec("torch") is None or find_spec("osml_training") is None:
        print(f"learning: skipped, torch is not installed: {how_to_install('train', package='osml-training')}")
        return
    import msgspec
    import numpy as np

    from osml_training.dqn import offline
    from osml_training.dqn.config import OfflineConfig, read_offline_config, shipped_offline_config
    from osml_training.dqn.qnet import QNet
    from osml_training.dqn.rewards import intolerable
    from osml_training.dqn.state import STATE
    from osml_training.dqn.transitions import Transitions, next_rows
    from osml_training.tables.runs import RunKey

    rng = np.random.default_rng(0)
    grid = np.indices((_CORES, _WAYS)).reshape(2, -1).T + 1
    cells = np.repeat(grid, _SAMPLES, axis=0)
    rows = _RUNS * len(cells)
    states = rng.uniform(1, 100, (rows, len(STATE))).astype(np.float32)
    states[:, STATE.index("cores")], states[:, STATE.index("ways")] = np.tile(cells, (_RUNS, 1)).T
    one = next_rows(cells)
    following = np.concatenate([np.where(one >= 0, one + len(cells) * run, -1) for run in range(_RUNS)])
    over = rng.lognormal(-0.5, 0.5, rows).astype(np.float32)
    found = Transitions(
        states,
        following.astype(np.int32),
        intolerable(over),
        np.repeat(np.arange(_RUNS, dtype=np.int32), len(cells)),
        tuple(RunKey("p", "s", str(run), 0.5, 1, 0) for run in range(_RUNS)),
        (_CORES, _WAYS),
    )
    for variant in ("masked", "paper"):
        shipped = read_offline_config(shipped_offline_config(variant))
        config = msgspec.structs.replace(shipped, updates=_UPDATES, sync=_UPDATES)
        net = offline.new_qnet(found, config)
        learned = sum(progress.tuples for progress in offline.fit(net, found, config))  # the same every time

        def again(net: QNet = net, config: OfflineConfig = config) -> None:
            offline.fit(net, found, config)

        take(f"learning_c_{variant}", "tuples/s", rate(learned, again), runs=5)


def _answers() -> None:
    if find_spec("onnxruntime") is None:
        print(f"answers: skipped, onnxruntime is not installed: {how_to_install('models')}")
        return
    from osml.predictors import find_model, load_q_function, models_folder

    opened = load_q_function(find_model(models_folder(), "c", "e5-2697v4"))
    take_answers("answer_c", len(opened.metadata.features), opened.q)


def run() -> None:
    """All figures."""
    _answers()
    _learning()
