"""`osml-agent run` for two intervals with nobody at the server's address."""

from __future__ import annotations

import msgspec

from osml.domain import Observation
from tests.reference.conftest import Boot
from tests.reference.decisions import CGROUPS, first
from tests.reference.profiles import AMD_2S, INTEL_2S, INTEL_20WAY, MON_ONLY, NONE, OLD_KERNEL, SERVICES, on, on_every


def last_observation(boot: Boot) -> Observation:
    lines = boot.transcript["record"].out
    assert len(lines) == 2
    return msgspec.convert(msgspec.json.decode(lines[-1])["observation"], Observation)


@on_every
def test_the_observation_has_the_allocation_that_stands(boot: Boot) -> None:
    assert boot.transcript["run"].code == 0
    assert last_observation(boot).assignments == first(boot.profile).assignments


@on_every
def test_without_a_server_the_allocation_stays(boot: Boot) -> None:
    if boot.profile == MON_ONLY:  # the daemon makes monitoring groups there, see below
        return
    before, after = boot.transcript.state("joined"), boot.transcript.state("run")
    assert before.differences(after) == []


@on(MON_ONLY)
def test_a_machine_that_only_monitors_gets_a_monitoring_group_per_service(boot: Boot) -> None:
    state = boot.transcript.state("run")
    for name in SERVICES:
        assert state.tasks(f"mon_groups/osml-{name}") == state.threads(CGROUPS[name])


@on(INTEL_20WAY, INTEL_2S, AMD_2S, MON_ONLY, OLD_KERNEL)
def test_cache_occupancy_is_the_kernels(boot: Boot) -> None:
    values = [int(line) for line in boot.transcript["occupancy"].out]
    assert len(values) == 2, "one file per socket"
    assert sum(values) > 0
    web = next(one for one in last_observation(boot).services if one.name == "web")
    assert web.counters.llc_occupancy_mib is not None
    assert abs(web.counters.llc_occupancy_mib * 2**20 - sum(values)) < 1


@on_every
def test_threads_are_counted(boot: Boot) -> None:
    counted = {one.name: one.counters.threads for one in last_observation(boot).services}
    assert counted == {name: len(boot.transcript.state("run").threads(CGROUPS[name])) for name in SERVICES}


@on(NONE)
def test_what_the_machine_lacks_is_in_the_observation(boot: Boot) -> None:
    assert {"llc_ways", "mba", "llc_monitoring"} <= set(last_observation(boot).missing)
    assert all(one.counters.llc_occupancy_mib is None for one in last_observation(boot).services)
