"""`osml-agent probe` and `show` on a machine as it was found."""

from __future__ import annotations

import msgspec

from osml.domain import Platform
from tests.reference.conftest import Boot
from tests.reference.profiles import AMD_2S, CPUS, DOMAINS, MON_ONLY, NONE, SERVICES, on, on_allocating, on_every


def mechanisms(boot: Boot) -> dict[str, dict[str, object]]:
    return {one["name"]: one for one in boot.transcript["probe"].json["mechanisms"]}


def platform(boot: Boot) -> Platform:
    return msgspec.convert(boot.transcript["probe"].json["platform"], Platform)


@on_every
def test_probe_ends_well_and_names_the_cpus_and_both_sockets(boot: Boot) -> None:
    assert boot.transcript["probe"].code == 0
    assert platform(boot).cpus == CPUS
    assert platform(boot).cores == 8
    assert {domain.id: domain.cpus for domain in platform(boot).domains} == DOMAINS
    assert platform(boot).siblings == [[0, 1], [2, 3], [4, 5], [6, 7]]


@on_every
def test_cgroup_v2_offers_cpusets_quota_and_weights(boot: Boot) -> None:
    for name in ("cpuset", "cpu_quota", "cpu_weight"):
        assert mechanisms(boot)[name]["available"], mechanisms(boot)[name]
        assert mechanisms(boot)[name]["reason"] == "cgroup2"


@on_every
def test_cache_and_bandwidth_are_available_exactly_where_the_machine_allocates(boot: Boot) -> None:
    for name in ("llc_ways", "mba"):
        assert mechanisms(boot)[name]["available"] is (boot.profile.allocation is not None), mechanisms(boot)[name]
    assert mechanisms(boot)["llc_monitoring"]["available"] is boot.profile.monitors


@on_allocating
def test_ways_groups_and_bandwidth_are_what_the_machine_has(boot: Boot) -> None:
    can = boot.profile.can
    assert platform(boot).ways == can.ways
    assert platform(boot).max_groups == can.groups
    assert platform(boot).min_way_bits == 1
    assert platform(boot).mba == can.mba


@on_allocating
def test_masks_with_holes_are_offered_on_amd_only(boot: Boot) -> None:
    assert platform(boot).sparse_masks is (boot.profile == AMD_2S)


@on(MON_ONLY)
def test_a_machine_that_only_monitors_says_so(boot: Boot) -> None:
    assert platform(boot).ways is None
    assert platform(boot).mba is None
    assert mechanisms(boot)["llc_ways"]["reason"] == "resctrl is mounted, but the L3 cache cannot be partitioned here"
    assert "llc_occupancy" in str(mechanisms(boot)["llc_monitoring"]["reason"])


@on(NONE)
def test_a_machine_without_resctrl_says_why(boot: Boot) -> None:
    for name in ("llc_ways", "mba", "llc_monitoring"):
        assert "no resource control" in str(mechanisms(boot)[name]["reason"])
    assert platform(boot).ways is None


@on_every
def test_show_before_the_first_decision_has_only_what_the_operator_set(boot: Boot) -> None:
    step = boot.transcript["show.found"]
    assert step.code == 0
    shown = {one["service"]: one for one in step.json["assignments"]}
    assert list(shown) == list(SERVICES)
    for name in SERVICES:
        settings = {key: value for key, value in shown[name].items() if key != "service" and value is not None}
        assert settings == ({"cpus": "0-5"} if name == "db" else {})
