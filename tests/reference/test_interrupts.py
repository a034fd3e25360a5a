"""Interrupts off the CPUs of services, on real kernels: probe, apply, devices that go on, crash, restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.printed import KERNELS, Printed, printed_by

CRASHES = 9  # two services and six interrupts: the ninth step is none
SERVICE, OTHERS = "0-3", "4-7"
DISK, PINNED = "22", "23"  # numbers of the first virtio devices


@pytest.fixture(scope="module", params=KERNELS)
def run(request: pytest.FixtureRequest, agent: Path) -> Printed:
    return printed_by("interrupts.sh", request.param, agent)


def lists(run: Printed, name: str) -> dict[str, str]:
    """CPUs by number of the interrupt."""
    return {number: words.split()[1] for number, words in run.state(name).items()}


def test_probe_says_how_to_switch_it_on(run: Printed) -> None:
    assert run.mechanisms("probe-off")["irq"] == {
        "name": "irq",
        "available": False,
        "reason": "levers.interrupts is off in the agent's configuration",
        "how_to_enable": "set levers.interrupts: on",
    }
    on = run.mechanisms("probe-on")["irq"]
    assert (on["available"], on["reason"]) == (True, "6 interrupts")


def test_a_dry_run_says_it_and_moves_nothing(run: Printed) -> None:
    assert f"irq/{DISK}: cpus 0-7 -> {OTHERS}" in run.said("dry")
    assert f"irq/{PINNED}: cpus 2 -> {OTHERS}" in run.said("dry")
    assert run.state("dry") == run.state("found")


def test_interrupts_leave_the_cpus_of_the_service_and_devices_go_on(run: Printed) -> None:
    assert run.code("apply") == 0, run.said("apply")
    assert set(lists(run, "divided").values()) == {OTHERS}
    assert run.code("reads") == 0, "the disk still answers"
    assert run.said("again") == "unchanged"


def test_they_follow_the_service(run: Printed) -> None:
    assert run.code("turn") == 0, run.said("turn")
    turned = lists(run, "turned")
    assert turned.pop(PINNED) == "2", "nobody owns its CPU any more"
    assert set(turned.values()) == {SERVICE}


def test_restore_and_every_crash_point_end_as_found(run: Printed) -> None:
    found = run.state("found")
    assert run.code("restore") == run.code("alone") == 0
    assert run.state("restored") == run.state("alone") == found
    for step in range(1, CRASHES + 1):
        assert run.code(f"crash{step}") == (137 if step < CRASHES else 0)
        assert run.code(f"healed{step}") == 0
        assert run.state(f"healed{step}") == found, step


def test_only_those_that_are_named_and_none_when_it_is_switched_off(run: Printed) -> None:
    found, named = lists(run, "found"), lists(run, "named")
    moved = {number for number, cpus in named.items() if cpus != found[number]}
    assert moved == {DISK, PINNED}
    assert run.state("off") == run.state("end") == run.state("found")
