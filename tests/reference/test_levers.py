"""Memory, disk and real-time priority on real kernels: probe, apply, effect, refusal, crash, restore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reference.printed import KERNELS, Printed, printed_by

CRASHES = 6  # a fifth step is the last of the transaction
READS = 200
FOUND = {
    "lc/web": "high=max io= policy=SCHED_OTHER 0 nice= 0",
    "be/job": "high=899997696 io=254:0 rbps=max wbps=1048576 riops=max wiops=max policy=SCHED_BATCH 0 nice= 5",
}


@pytest.fixture(scope="module", params=KERNELS)
def run(request: pytest.FixtureRequest, agent: Path) -> Printed:
    return printed_by("levers.sh", request.param, agent)


def reads_per_s(run: Printed, name: str) -> float:
    start, end = run.numbers("reading", name)
    return READS / (end - start)


def test_probe_lists_every_lever_and_how_to_switch_it_on(run: Printed) -> None:
    off = run.mechanisms("probe-off")
    on = run.mechanisms("probe-on")
    keys = {"memory.high": "levers.memory", "io.max": "levers.disk", "sched_policy": "levers.realtime"}
    for name, key in keys.items():
        assert off[name] == {
            "name": name,
            "available": False,
            "reason": f"{key} is off in the agent's configuration",
            "how_to_enable": f"set {key}: on",
        }
        assert on[name]["available"], on[name]
    assert {"cpu.idle", "cpu.weight", "cpufreq", "network", "l3", "mba"} <= set(on)
    platform = json.loads(run.said("probe-on"))["platform"]
    assert platform["memory_mib"] == {"min": 30, "max": 600, "step": 30}
    assert platform["disk_iops"] == {"min": 50, "max": 1000, "step": 50}
    assert platform["realtime"] is True


def test_nothing_is_set_where_it_is_off_and_in_a_dry_run(run: Printed) -> None:
    assert run.code("off") == 2
    assert "memory_mib 300 cannot be set on this node: levers.memory is off" in run.said("off")
    assert run.code("dry") == 0
    assert "web: realtime_priority - -> 10" in run.said("dry")
    assert run.state("found") == run.state("dry") == FOUND


def test_a_decision_sets_all_three(run: Printed) -> None:
    assert run.code("apply") == run.code("change") == 0
    assert run.said("again") == "unchanged"
    divided, changed = run.state("divided"), run.state("changed")
    assert divided["lc/web"].startswith(
        f"high={300 * 2**20} io=254:0 rbps=max wbps=max riops=900 wiops=max policy=SCHED_RR 10"
    )
    job = f"high={200 * 2**20} io=254:0 rbps=max wbps=1048576 riops=50 wiops=max policy=SCHED_BATCH 0 nice= 5"
    assert divided["be/job"] == job
    assert "riops=900 wiops=max policy=SCHED_RR 20" in changed["be/job"]
    assert changed["lc/web"].endswith("riops=50 wiops=max policy=SCHED_OTHER 0 nice= 0")


def test_the_kernel_keeps_the_disk_limit(run: Printed) -> None:
    most = 75  # the limit is 50, and the kernel allows a burst
    assert reads_per_s(run, "divided") < most
    assert reads_per_s(run, "found") > most
    assert reads_per_s(run, "restored") > most


def test_nobody_is_pushed_below_the_memory_that_he_works_with(run: Printed) -> None:
    assert run.code("greedy") == 2
    assert "an eighth more than the" in run.said("greedy")
    assert run.state("greedy") == run.state("divided")


def test_restore_and_every_crash_point_end_as_found(run: Printed) -> None:
    assert run.state("restored") == FOUND
    for step in range(1, CRASHES + 1):
        assert run.code(f"crash{step}") == (137 if step < CRASHES else 0)
        assert run.code(f"healed{step}") == 0
        assert run.state(f"healed{step}") == FOUND, step
