"""Where Model-A would let the services of virtual nodes begin: the start that Model-C corrects (OSML, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.predictors import Predictor
from osml.simulator.colocation import features as e
from osml.simulator.colocation.nodes import ColocationNodes
from osml.simulator.fleet import measure as m
from osml_training.collect.fingerprint import virtual_fingerprint
from osml_training.dqn.state import STATE, environment_state
from osml_training.tables.example_rows import descriptors
from osml_training.tables.features import PLATFORM

Ints = NDArray[np.int64]
Floats32 = NDArray[np.float32]


def model_a_starts(predictor: Predictor) -> Callable[[ColocationNodes], tuple[Ints, Ints]]:
    """Starts for `evaluate_greedy`: the OAA that Model-A' (a2) predicts from what is seen at an even start, rounded up.

    Where the OAAs of a node do not fit, all get less in proportion, at least 1: Model-B's trade is not made here.
    """

    def starts(nodes: ColocationNodes) -> tuple[Ints, Ints]:
        n = nodes.config.max_services
        there = nodes.fleet.is_service[:, :n]
        points = predictor.predict(_features(nodes, there, predictor.metadata.inputs)).points
        outputs = predictor.metadata.answers
        jobs: Ints = np.asarray((nodes.fleet.nodes.present[:, n:] >= 0).any(axis=1), np.int64)
        found: list[Ints] = []
        for name, total in (("oaa_cores", nodes.platform.cpus), ("oaa_ways", nodes.platform.ways)):
            wanted = np.zeros(there.shape)
            wanted[there] = np.clip(np.ceil(points[:, outputs.index(name)]), 1, total)
            found.append(fit(wanted, np.asarray(total - jobs, np.int64)))
        return found[0], found[1]

    return starts


def fit(wanted: NDArray[np.float64], room: Ints) -> Ints:
    """Counts (nodes, places) of at most `room` (nodes,) together: as `wanted`, or less in proportion, at least 1 where
    something is wanted.
    """
    there = wanted > 0
    least = there.sum(axis=1)
    above = np.maximum(wanted - 1, 0).sum(axis=1)
    share = np.minimum(1.0, (room - least) / np.maximum(above, 1e-9))
    return np.where(there, 1 + np.floor((wanted - 1) * share[:, None] + 1e-9), 0).astype(np.int64)


def _features(nodes: ColocationNodes, there: NDArray[np.bool_], names: tuple[str, ...]) -> Floats32:
    """(services, names) of all services; NaN for what the environment does not show, as where it is not measured."""
    seen, platform = nodes.features[there], nodes.platform
    shared = tuple(name for name in names if name in STATE)
    known: dict[str, Any] = dict(zip(shared, environment_state(seen, shared).T, strict=True))
    known |= {
        "rss_mib": seen[:, e.O_RESIDENT],
        "neighbours": seen[:, e.O_SERVICES] - 1 + seen[:, e.O_JOBS],
        "p50_ms": nodes.fleet.nodes.measured[:, : there.shape[1], m.M_P50_MS][there],
    }
    known |= zip(PLATFORM, descriptors(virtual_fingerprint(platform)), strict=True)
    if "neighbour_cache_mib" in names:
        known["neighbour_cache_mib"] = environment_state(seen, ("neighbour_ways",))[:, 0] * platform.way_mib
    out = np.full((len(seen), len(names)), np.nan, np.float32)
    for k, name in enumerate(names):
        out[:, k] = known.get(name, np.nan)
    return out
