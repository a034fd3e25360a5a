"""Memory that follows CPUs on real kernels with two NUMA nodes: probe, apply, effect, full node, crash, restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference.printed import KERNELS, Printed, printed_by

CRASHES = 5  # a fourth step is the last of the transaction
HELD_MIB = 38
SWAPPED = {"web": "mems=1", "job": "mems=0"}


@pytest.fixture(scope="module", params=KERNELS)
def run(request: pytest.FixtureRequest, agent: Path) -> Printed:
    return printed_by("memory_nodes.sh", request.param, agent)


def is_as_found(run: Printed, name: str) -> bool:
    """Up to Linux 6.12 a group with tasks cannot go back to no nodes of its own: it gets all by name."""
    state = run.state(name)
    return state["web"] == "mems=0-1" and state["job"] in {"mems=", "mems=0-1"}


def test_probe_says_how_to_switch_it_on(run: Printed) -> None:
    assert run.mechanisms("probe-off")["memory_nodes"] == {
        "name": "memory_nodes",
        "available": False,
        "reason": "cpu.memory_nodes is off in the agent's configuration",
        "how_to_enable": "set cpu.memory_nodes: follow",
    }
    assert run.mechanisms("probe-on")["memory_nodes"] == {
        "name": "memory_nodes",
        "available": True,
        "reason": "cgroup2",
        "how_to_enable": "",
    }


def test_nothing_moves_where_it_is_off_and_in_a_dry_run(run: Printed) -> None:
    assert run.code("off") == run.code("dry") == 0
    assert "web: memory_nodes 0-1 -> 1" in run.said("dry")
    for name in ("off", "found", "dry"):
        assert run.state(name) == {"web": "mems=0-1", "job": "mems="}, name


def test_pages_go_to_the_node_of_the_cpus(run: Printed) -> None:
    assert run.code("apply") == run.code("stays") == 0, run.said("apply")
    assert run.said("again") == "unchanged"
    assert run.state("swapped") == SWAPPED
    assert run.state("shared") == {"web": "mems=0-1", "job": "mems=0-1"}
    assert run.state("stays") == {"web": "mems=0", "job": "mems=1"}
    for name, (web, job) in {"found": (0, 1), "swapped": (1, 0), "stays": (0, 1), "roomy": (1, 0)}.items():
        assert run.numbers("memory", f"{name}-web")[web] >= HELD_MIB, name
        assert run.numbers("memory", f"{name}-job")[job] >= HELD_MIB, name
        assert run.numbers("memory", f"{name}-web")[1 - web] < HELD_MIB / 4, name


def test_a_full_node_is_not_forced_on_a_service(run: Printed) -> None:
    assert run.code("full") == run.code("roomy") == 0
    assert "memory_nodes.web: nodes 1 near its CPUs have" in run.said("full")
    assert run.state("full") == {"web": "mems=0-1", "job": "mems=0"}
    assert run.state("roomy") == SWAPPED


def test_what_another_program_wrote_is_set_again(run: Printed) -> None:
    assert run.state("overwritten") == SWAPPED


def test_restore_and_every_crash_point_end_as_found(run: Printed) -> None:
    assert run.code("restore") == 0
    assert is_as_found(run, "restored")
    for step in range(1, CRASHES + 1):
        assert run.code(f"crash{step}") == (137 if step < CRASHES else 0)
        assert run.code(f"healed{step}") == 0
        assert is_as_found(run, f"healed{step}"), step


def test_cgroup_v1_gets_the_switch_that_moves_pages_and_loses_it_again(run: Printed) -> None:
    assert run.mechanisms("probe-v1")["memory_nodes"]["reason"] == "cgroup1"
    found = {"web": "mems=0-1 migrate=0", "job": "mems=0-1 migrate=0"}
    assert run.state("found-v1") == found
    assert run.code("apply-v1") == run.code("restore-v1") == 0, run.said("apply-v1")
    assert run.state("swapped-v1") == {"web": "mems=1 migrate=1", "job": "mems=0 migrate=1"}
    assert run.said("again-v1") == "unchanged"
    assert run.state("restored-v1") == found
