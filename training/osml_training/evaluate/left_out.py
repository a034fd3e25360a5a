"""Whether margins for unknown services hold: services of the training stand in for them, one group after the other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from osml.base.failure import InputError
from osml_training.train import loop
from osml_training.train.config import Config
from osml_training.train.conformal import COVERAGES, covered, margins_of
from osml_training.train.table import Rows
from osml_training.train.train import load_part
from osml_training.train.unseen import Answered, Groups, answers_without, groups_of, together


def left_out(config: Config, dataset: Path, platform: str) -> dict[str, Any]:
    """`shares_of` on the training rows of a data set. Raises InputError where it has fewer than three groups."""
    loop.deterministic()
    train = load_part(dataset, config, "train", platforms=(platform,))
    validation = load_part(dataset, config, "validation", rows=20_000, platforms=(platform,))
    return shares_of(train, validation, config)


def shares_of(train: Rows, validation: Rows, config: Config) -> dict[str, Any]:
    """How much of the truth of each service lies within margins that were made without its group.

    For each of the `config.service_folds` groups of services a network that learned from the others is judged as if it
    were the final one. Its margins are made as those of the final one are (`unseen_margins`): by networks that know
    neither this group nor another one, which they answer. So neither network nor margins have met the group.

    Returns by coverage ("0.9", "0.95") the share of each of the `services` within its margins (mean over outputs, each
    run weighing the same), and over the services the `mean` and the standard `deviation`.
    """
    groups = groups_of(train, validation, config)
    there = sorted({int(group) for group in groups.group[groups.real]})
    if len(there) < 3:
        raise InputError(
            f"the services of the training form {len(there)} groups, expected at least 3: collect more services, "
            f"or set a higher service_folds (now {config.service_folds})"
        )
    pairs = {pair: answers_without(groups, pair, config) for pair in combinations(there, 2)}
    services: dict[str, dict[str, float]] = {}
    for group in there:
        judged = answers_without(groups, (group,), config)
        parts = [_without(found, groups, group) for pair, found in pairs.items() if group in pair and found is not None]
        if judged is None or not parts:
            continue
        known = together(parts)
        margins = margins_of(known.points, known.spread, known.y, known.run)
        for service in np.unique(judged.service):
            mine = judged.taken(judged.service == service)
            services[train.services[int(service)]] = {
                coverage: float(
                    np.mean(
                        covered(np.array(margin.two_sided, np.float32) * mine.spread, mine.points, mine.y, mine.run)
                    )
                )
                for coverage, margin in margins.items()
            }
    shares = {f"{c:g}": [found[f"{c:g}"] for found in services.values()] for c in COVERAGES}
    return {
        "services": dict(sorted(services.items())),
        "mean": {coverage: float(np.mean(share)) for coverage, share in shares.items()},
        "deviation": {coverage: float(np.std(share, ddof=1)) for coverage, share in shares.items()},
    }


def _without(answered: Answered, groups: Groups, group: int) -> Answered:
    """The answers on services of all groups but this one."""
    mine = set(np.unique(groups.train.service[groups.group == group]).tolist())
    other = np.array([service not in mine for service in answered.service.tolist()])
    return answered.taken(other)
