"""How wrong the answers are for services, and machines, that nobody trained on: some of them held out in turn."""

from __future__ import annotations

from collections.abc import Collection
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.worker_processes import worker_pool
from osml.predictors import Margin
from osml_training.collect.variants import is_variant, parent_of
from osml_training.train import loop
from osml_training.train.config import Config
from osml_training.train.conformal import margins_of, too_few_runs
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.table import Floats32, Rows

SIZES = 4
"""Machines that are left out are as many in each band of size, small to large; margins hold in every one."""


class Answered(NamedTuple):
    """What a network said of services that it did not know: (rows, outputs), `service` as in the rows asked about.

    `band` is that of the machine's CPUs, 0, 1, ..., and 0 everywhere where machines were not left out.
    """

    points: Floats32
    spread: Floats32
    y: Floats32
    run: NDArray[np.int64]
    service: NDArray[np.int32]
    band: NDArray[np.int64]

    def taken(self, which: NDArray[np.bool_]) -> Answered:
        """Some of the rows."""
        return Answered(
            self.points[which],
            self.spread[which],
            self.y[which],
            self.run[which],
            self.service[which],
            self.band[which],
        )


class Groups(NamedTuple):
    """Rows of a training whose services, with their variants, are in groups 0, 1, ...

    `group` has a number a row, `validation_group` one a row of the `validation`; `real` is False where a row is of a
    variant. `machine_group` and `validation_machine` are those of the rows' machines, None where machines are not left
    out; `band` which of `SIZES` the machine is among, by its CPUs.
    """

    train: Rows
    validation: Rows
    group: NDArray[np.int64]
    validation_group: NDArray[np.int64]
    real: NDArray[np.bool_]
    band: NDArray[np.int64]
    machine_group: NDArray[np.int64] | None = None
    validation_machine: NDArray[np.int64] | None = None


def groups_of(train: Rows, validation: Rows, config: Config) -> Groups:
    """`config.service_folds` groups of services, drawn by the seed; of machines, too, where there are as many.

    A model of many machines is for machines that it doesn't know: its errors for unknown services on known machines
    would say too little of it.
    """
    rng = np.random.default_rng([config.seed, 3])
    parents = sorted({parent_of(service) for service in train.services})
    groups = dict(zip(parents, (rng.permutation(len(parents)) % config.service_folds).tolist(), strict=True))
    group = np.array([groups[parent_of(service)] for service in train.services])
    real = np.array([not is_variant(service) for service in train.services])
    machines, watched, band = None, None, np.zeros(len(train.platform), np.int64)
    if len(train.platforms) >= config.service_folds:
        of = (rng.permutation(len(train.platforms)) % config.service_folds).tolist()
        numbers = dict(zip(train.platforms, of, strict=True))
        machines = np.array(of)[train.platform]
        watched = np.array([numbers.get(name, -1) for name in validation.platforms])[validation.platform]
        band = _sizes(train, config)[train.platform]
    return Groups(
        train, validation, group[train.service], group[validation.service], real[train.service], band, machines, watched
    )


def _sizes(rows: Rows, config: Config) -> NDArray[np.int64]:
    """Which quarter of the machines each is in, by CPUs; all in one where the network isn't told how many they are."""
    count = len(rows.platforms)
    if "platform_cores" not in config.inputs:
        return np.zeros(count, np.int64)
    first = np.unique(rows.platform, return_index=True)  # machines without rows are not asked about
    cores = np.zeros(count)
    cores[first[0]] = rows.x[first[1], config.inputs.index("platform_cores")]
    place = np.empty(count, np.int64)
    place[np.argsort(cores, kind="stable")] = np.arange(count)
    return place * SIZES // count


def answers_without(groups: Groups, left_out: Collection[int], config: Config) -> Answered | None:
    """What a network that learned from all other groups says of the real services of those left out.

    It learns as the final one does: the same config, every row. Where machines are in groups, it learns from the other
    machines alone and is asked about those left out. Nor does it stop by what it is asked about: the validation is of
    the others, too, and its own training where there is none. None where nothing is left to learn from or to ask.
    """
    strange = np.isin(groups.group, list(left_out))
    known, of_others = ~strange, strange & groups.real
    if groups.machine_group is not None:
        strange_machine = np.isin(groups.machine_group, list(left_out))
        known, of_others = known & ~strange_machine, of_others & strange_machine
    part, asked = groups.train.taken(known), groups.train.taken(of_others)
    if not (len(part.y) and len(asked.y)) or np.isnan(part.y).all(axis=0).any():
        return None  # of a label that no row has, nothing is learned
    others = ~np.isin(groups.validation_group, list(left_out))
    if groups.validation_machine is not None:
        others &= ~np.isin(groups.validation_machine, list(left_out))
    watched = groups.validation.taken(others) if others.any() else part
    network = new_network(config, scaling_of(part.x, config), part)
    loop.fit(network, loop.from_memory(network, part, config), watched, config, -(-len(part.y) // config.batch))
    band = groups.band[of_others]
    return Answered(*loop.predict(network, asked.x), asked.y, asked.run, asked.service, band)


def together(parts: list[Answered]) -> Answered:
    """The answers of several networks as those of one."""
    return Answered(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _in_turn(groups: Groups, config: Config, workers: int) -> list[Answered | None]:
    """`answers_without` each group, in so many processes: each has its own copy of the rows."""
    folds = [(fold,) for fold in range(config.service_folds)]
    if workers == 1:
        return [answers_without(groups, fold, config) for fold in folds]
    with worker_pool(min(workers, len(folds)), loop.deterministic) as pool:
        return list(pool.map(answers_without, repeat(groups), folds, repeat(config)))


def unseen_margins(
    train: Rows, validation: Rows, config: Config, *, workers: int = 1
) -> tuple[dict[str, Margin], list[float], list[str]]:
    """Margins for services that are not in training, the mean absolute errors for them, one an output, and warnings.

    The services of the training set go into `config.service_folds` groups; each group is answered by a network that was
    trained on the others and their variants, as long as the final one and on every row: of fewer services or after
    fewer passes it would err otherwise, and have another spread. A run of a group is as strange to its network as a run
    of a new service to the final one. Variants are not answered: margins are of real programs. Machines are left out
    with the services where there are `config.service_folds` of them or more; the margins then hold for machines of
    every size. The number of processes, `workers`, changes nothing but the time. None where a label has no margin.
    """
    groups = groups_of(train, validation, config)
    held = [answered for answered in _in_turn(groups, config, workers) if answered is not None]
    if not held:
        return {}, [], []
    points, spread, y, run, _, band = together(held)
    margins = margins_of(points, spread, y, run, band=band)
    if any(np.isnan(margin.two_sided).any() for margin in margins.values()):
        return {}, [], ["no margins for services outside of the training: a service that was held out lacks a label"]
    errors = np.nanmean(np.abs(points - y), axis=0)
    warnings = [
        f"services outside of the training, machines of size {one + 1} of {band.max() + 1}: {told}"
        for one in np.unique(band).tolist()
        for told in too_few_runs(y[band == one], run[band == one])
    ]
    return margins, [round(float(error), 4) for error in errors], warnings
