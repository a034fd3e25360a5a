"""Labelling latency surfaces: all labels of a 36 x 20 surface, one at a time and a thousand in one call."""

from __future__ import annotations

import numpy as np

from osml.frontier import label
from osml.lab.benchmarks.harness import rate, take
from osml.simulator import catalogs
from osml.simulator.surface import p99_surface

_MANY = 1000


def run() -> None:
    """Time surfaces per second."""
    platform = catalogs.platform("e5-2697v4")
    service = catalogs.service("moses", platform.id)
    surface = p99_surface(platform, service, 0.4)
    noise = np.random.default_rng(1).normal(0.0, 0.03, (_MANY, *surface.shape))
    many = surface * np.exp(noise)
    take("frontier_label_one_surface", "surfaces/s", rate(1, lambda: label(surface, service.target_ms)), runs=31)
    take("frontier_label_many_surfaces", "surfaces/s", rate(_MANY, lambda: label(many, service.target_ms)))
