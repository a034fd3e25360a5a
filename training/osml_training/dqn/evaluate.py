"""A Model-C on runs that it was not taught on: where its greedy actions lead, beside random ones and the bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.predictors import QFunction, load_q_function
from osml_training.collect.fresh_sweep import FRESH_ROWS, kept_in
from osml_training.dqn.config import OfflineConfig
from osml_training.dqn.greedy import LIMIT, at_random, greedy, one_step, refused, towards, walks
from osml_training.dqn.optimal_areas import label_files, optimal_areas
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Transitions, runs_of, transitions_of
from osml_training.tables.runs import NoExamplesError
from osml_training.train.groups import HIDDEN_IN_CLOUDS, hidden
from osml_training.train.splits import Part, part_of
from osml_training.train.table import is_real

STATUSES = 300_000
"""Of each part, at most."""

MARGIN = 0.01
"""Of value, by which an action must be better than none for the second line of a model."""

EVALUATION_SEED = 1001

_CHUNK = 65_536


def config_of(opened: QFunction) -> OfflineConfig:
    """How a Model-C was trained, from its metadata: the split above all."""
    try:
        return msgspec.convert(opened.metadata.training, OfflineConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"model '{opened.metadata.name}': training in metadata.json: {error}") from None


def values(opened: QFunction, found: Transitions, without: Sequence[str] = ()) -> NDArray[np.float32]:
    """Q of all actions of all statuses, (rows, 49), with groups of counters `without` which it has to do."""
    names = opened.metadata.inputs
    raw = hidden(found.states[:, [STATE.index(name) for name in names]], names, without)
    return np.concatenate([opened.q(raw[first : first + _CHUNK]) for first in range(0, len(raw), _CHUNK)])


def check_before(datasets: Sequence[Path], config: OfflineConfig, platform: str) -> None:
    """Raise the InputError of `evaluate` before a training of hours: where the data sets can't judge its network."""
    label_files(datasets, platform)
    if not any(part_of(key, config.split) in ("test", "unseen") for key in runs_of(datasets, platform)):
        raise InputError(f"the data sets have no held-out run of platform '{platform}', on which to evaluate the model")


def evaluate(
    opened: QFunction, datasets: Sequence[Path], *, platform: str | None = None, statuses: int = STATUSES, seed: int = 0
) -> dict[str, Any]:
    """The document of `osml learn train evaluate` for a Model-C.

    `rows`: for each policy (model, with a margin, without PMU and LLC counters, random, straight to OAA) and hold-out
    (seen, unseen) what `greedy.one_step` and `greedy.walks` say; `falls_refused`: `greedy.refused`. Raises InputError
    where the data sets have no run that the model was not taught on, or no labels.
    """
    config = config_of(opened)
    rows: list[dict[str, Any]] = []
    falls_refused: dict[str, float] = {}
    parts: tuple[tuple[Part, str], ...] = (("test", "seen"), ("unseen", "unseen"))
    for part, split in parts:
        try:
            found = transitions_of(
                datasets,
                lambda key, part=part: part_of(key, config.split) == part,
                platform=platform,
                statuses=statuses,
                seed=seed,
            )
        except NoExamplesError:
            continue  # a data set without unseen services is one, too
        q = values(opened, found)
        falls_refused[split] = refused(q, found)
        rows += _rows(opened, q, config, found, optimal_areas(datasets, found), split, seed)
    if not rows:
        raise InputError(f"the data sets have no held-out run for model '{opened.metadata.name}' on its platform")
    about = opened.metadata
    return {
        "model": about.name,
        "version": about.version,
        "kind": about.kind,
        "variant": about.variant,
        "simulated": not is_real(datasets[0]),
        "limit": LIMIT,
        "rows": rows,
        "falls_refused": falls_refused,
    }


def fresh_surfaces(platform: str, seed: int, rows: int = FRESH_ROWS) -> Path:
    """A labelled sweep of the virtual node without noise, half of its runs alone; made once and kept."""
    from osml.simulator import catalogs  # noqa: PLC0415 - compiled code
    from osml_training.collect.collect import collect_labelled  # noqa: PLC0415
    from osml_training.collect.sweep import Sweep  # noqa: PLC0415

    services = tuple(catalogs.service_names())
    sweep = Sweep((platform,), services, services, rows=rows, samples=1, noise=False, seed=seed, colocated=1)
    return collect_labelled(kept_in(f"surfaces-{platform}-{seed}-{rows}"), sweep)


def evaluation_of(
    folder: Path,
    *,
    platform: str | None = None,
    dataset: Path | None = None,
    statuses: int = STATUSES,
    seed: int = EVALUATION_SEED,
) -> dict[str, Any]:
    """`evaluate` of a model's folder; without a `dataset` on fresh surfaces of its (or the) platform."""
    opened = load_q_function(folder)
    where = platform or opened.metadata.platforms[0]
    return evaluate(opened, [dataset or fresh_surfaces(where, seed)], platform=where, statuses=statuses)


def _rows(
    opened: QFunction,
    q: NDArray[np.float32],
    config: OfflineConfig,
    found: Transitions,
    oaa: NDArray[np.float64],
    split: str,
    seed: int,
) -> list[dict[str, Any]]:
    policies = {
        "model": greedy(q, found),
        f"margin {MARGIN:g}": greedy(q, found, MARGIN),
    }
    if config.masked:
        policies["PMU, LLC hidden"] = greedy(values(opened, found, HIDDEN_IN_CLOUDS), found)
    policies |= {
        "random": at_random(found, np.random.default_rng([seed, 1])),
        "straight to OAA": towards(found, oaa),
    }
    out: list[dict[str, Any]] = []
    for name, actions in policies.items():
        walked = walks(found, actions, oaa, np.random.default_rng([seed, 2]))
        out.append({"policy": name, "split": split, "runs": len(found.runs)} | one_step(found, actions) | walked)
    return out
