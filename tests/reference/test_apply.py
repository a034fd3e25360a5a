"""`osml-agent apply` against the kernel's own files."""

from __future__ import annotations

import msgspec
import pytest

from osml.domain import Assignment, Decision
from osml.domain.cpulist import parse_cpulist
from tests.reference.conftest import Boot
from tests.reference.decisions import CGROUPS, first, second
from tests.reference.profiles import AMD_2S, MON_ONLY, NONE, SERVICES, Profile, on, on_allocating, on_every

DIVISIONS = pytest.mark.parametrize(
    ("name", "division"), [("first", first), ("second", second)], ids=["first", "second"]
)


def stored(profile: Profile, decision: Decision) -> list[Assignment]:
    """The assignments as the kernel keeps them: percentages rounded up to its step."""
    return [
        one if one.mba is None else msgspec.structs.replace(one, mba=profile.can.stored_mba(one.mba))
        for one in decision.assignments
    ]


@on_every
def test_dry_run_names_the_steps_and_changes_nothing(boot: Boot) -> None:
    step = boot.transcript["dry-run"]
    assert step.code == 0
    assert step.json["status"] == "dry_run"
    assert "web: cpus - -> 0-3" in step.json["message"].splitlines()
    assert boot.transcript.state("found").differences(boot.transcript.state("dry-run")) == []


@on_every
@DIVISIONS
def test_apply_says_applied(boot: Boot, name: str, division: object) -> None:
    assert boot.transcript[name].code == 0
    assert boot.transcript[name].json["status"] == "applied"


@on_every
def test_the_same_decision_again_is_unchanged(boot: Boot) -> None:
    assert boot.transcript["first.again"].json["status"] == "unchanged"


@on_every
@DIVISIONS
def test_show_is_the_decision(boot: Boot, name: str, division: object) -> None:
    assert callable(division)
    shown = msgspec.convert(boot.transcript[f"show.{name}"].json["assignments"], list[Assignment])
    assert shown == stored(boot.profile, division(boot.profile))


@on_every
@DIVISIONS
def test_cgroups_grant_the_cpus(boot: Boot, name: str, division: object) -> None:
    assert callable(division)
    state = boot.transcript.state(name)
    for one in division(boot.profile).assignments:
        effective = state.line(f"cgroup/{CGROUPS[one.service]}/cpuset.cpus.effective")
        assert parse_cpulist(effective) == parse_cpulist(one.cpus)


@on_every
def test_quota_and_weight_are_in_the_files(boot: Boot) -> None:
    state = boot.transcript.state("first")
    quota, period = state.line("cgroup/be/job/cpu.max").split()
    assert int(quota) / int(period) == pytest.approx(1.5)
    assert state.line("cgroup/be/job/cpu.weight") == "50"
    assert state.line("cgroup/lc/web/cpu.max").startswith("max")


@on_allocating
@DIVISIONS
def test_both_sockets_have_the_mask_and_the_bandwidth(boot: Boot, name: str, division: object) -> None:
    assert callable(division)
    state = boot.transcript.state(name)
    for one in stored(boot.profile, division(boot.profile)):
        mask = int(one.way_mask or "", 16)
        schemata = state.schemata(f"osml-{one.service}")
        assert schemata["L3"] == {0: mask, 1: mask}
        assert schemata["MB"] == {0: one.mba, 1: one.mba}


@on(AMD_2S)
def test_slow_memory_stays_unlimited(boot: Boot) -> None:
    state = boot.transcript.state("second")
    for name in SERVICES:
        assert state.schemata(f"osml-{name}")["SMBA"] == state.schemata(".")["SMBA"] == {0: 2048, 1: 2048}


@on_allocating
def test_every_thread_of_a_service_is_in_its_group(boot: Boot) -> None:
    state = boot.transcript.state("first")
    for name in SERVICES:
        threads = state.threads(CGROUPS[name])
        assert len(threads) >= 2, f"{name} should have several threads for this test"
        assert state.tasks(f"osml-{name}") == threads
    assert state.tasks(".") == set()


@on(MON_ONLY, NONE)
def test_cpus_alone_make_no_groups(boot: Boot) -> None:
    assert boot.transcript.state("first").groups() == boot.transcript.state("found").groups()


@on_allocating
def test_a_thread_born_in_the_service_is_in_the_group_at_once(boot: Boot) -> None:
    before, after = boot.transcript.state("first"), boot.transcript.state("born")
    newborn = after.threads("lc/web") - before.threads("lc/web")
    assert len(newborn) == 2
    assert len(newborn & after.tasks("osml-web")) == 1, "the thread, but not yet the process that came from outside"


@on_allocating
def test_a_process_that_came_from_outside_is_taken_in_by_the_next_apply(boot: Boot) -> None:
    assert boot.transcript["joined"].json["status"] == "applied"
    state = boot.transcript.state("joined")
    assert state.tasks("osml-web") == state.threads("lc/web")
