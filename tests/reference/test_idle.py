"""Jobs behind services (cpu.idle) on real kernels: probe, apply, effect, the order with weights, crash, restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.printed import KERNELS, Printed, printed_by

CRASHES = 3
FOUND = {"web": "idle=0 weight=100", "job": "idle=0 weight=70"}


@pytest.fixture(scope="module", params=KERNELS)
def run(request: pytest.FixtureRequest, agent: Path) -> Printed:
    return printed_by("idle.sh", request.param, agent)


def share_of_job(run: Printed, name: str) -> float:
    job, web = run.numbers("share", name)
    return job / (job + web)


def test_probe_says_how_to_switch_it_on(run: Printed) -> None:
    assert run.mechanisms("probe-off")["cpu.idle"]["how_to_enable"] == "set levers.idle: on"
    assert run.mechanisms("probe-on")["cpu.idle"] == {
        "name": "cpu.idle",
        "available": True,
        "reason": "cgroup2",
        "how_to_enable": "",
    }


def test_a_dry_run_says_it_and_sets_nothing(run: Printed) -> None:
    assert "job: cpu_weight 70 -> idle" in run.said("dry")
    assert run.state("found") == run.state("dry") == FOUND


def test_a_job_is_idle_and_the_service_gets_the_cpu(run: Printed) -> None:
    assert run.code("apply") == 0, run.said("apply")
    idle = run.state("idle")
    assert idle["web"] == "idle=0 weight=200"
    assert idle["job"].startswith("idle=1 ")
    assert share_of_job(run, "found") > 0.2
    assert share_of_job(run, "idle") < 0.1


def test_weights_are_decided_on_and_the_kernel_is_not_asked_for_what_it_refuses(run: Printed) -> None:
    assert run.code("again") == 0, run.said("again")
    assert run.state("other")["web"] == "idle=0 weight=300"
    assert run.state("other")["job"].startswith("idle=1 ")
    assert run.code("kernel") != 0, "the kernel refuses a weight of an idle group"


def test_restore_and_every_crash_point_lead_back_to_what_was_found(run: Printed) -> None:
    assert run.code("restore") == 0
    assert run.state("restored") == FOUND
    for step in range(1, CRASHES + 1):
        assert run.code(f"healed{step}") == 0, run.said(f"healed{step}")
        assert run.state(f"healed{step}") == FOUND, step
    assert any(run.code(f"crash{step}") not in {0, 1, 2} for step in range(1, CRASHES + 1)), "it was killed"


def test_switched_off_the_decided_weight_holds(run: Printed) -> None:
    assert run.code("off") == 0, run.said("off")
    assert run.state("off") == {"web": "idle=0 weight=300", "job": "idle=0 weight=60"}
    assert run.state("end") == FOUND
