"""Throttles of a record as the virtual node takes them."""

from __future__ import annotations

import pytest

from osml.domain import Assignment, MbaRange, Platform
from osml.simulator import catalogs
from osml.twin.machine import grant_in_force, machine_of

EIGHTHS = MbaRange(1, 2048, 1, "eighth_gbps")


def test_a_machine_of_the_catalog_is_known_by_its_cpu_s_own_name() -> None:
    for name in ("e5-2697v4", "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz"):
        assert machine_of(Platform(name, cores=36, cpus="0-35", ways=20)) == catalogs.platform("e5-2697v4")
    fewer = Platform("Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz", cores=8, cpus="0-7", ways=20)
    assert machine_of(fewer).cpus == 8


@pytest.mark.parametrize(
    ("mba", "value", "percent", "gbps"),
    [
        (MbaRange(10, 100, 10), 50, 50.0, None),
        (MbaRange(100, 50_000, 100, "mbps"), 25_000, 50.0, None),
        (EIGHTHS, 20, None, 2.5),
        (EIGHTHS, 2048, None, None),
    ],
)
def test_a_throttle_keeps_its_meaning(mba: MbaRange, value: int, percent: float | None, gbps: float | None) -> None:
    platform = Platform("p", cores=8, cpus="0-7", ways=16, way_mib=2.0, mba=mba, bandwidth_gbps=50.0)
    grant = grant_in_force(Assignment("a", cpus="0-3", way_mask="f", mba=value), platform, machine_of(platform))
    assert (grant.mba_percent, grant.mba_gbps) == (percent, gbps)
