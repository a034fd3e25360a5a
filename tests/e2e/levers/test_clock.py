"""The clock: a policy from the literature limits it, and nothing of that is left when the agent was killed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from osml.domain import KnobRange
from osml.domain.cpulist import parse_cpulist
from osml.lab.trials.children import Child, wait_until
from osml.lab.trials.records import Record, RecordReader
from tests.e2e.conftest import PATIENT_S, Bench

CPUS = 36
FOUND_KHZ = 3_600_000
NOMINAL_KHZ = 2_300_000  # where PARTIES begins


def policy_of(directory: Path, cpu: int) -> Path:
    return directory / f"sys/devices/system/cpu/cpufreq/policy{cpu}"


def add_clocks(directory: Path) -> None:
    """One clock for each CPU, as most servers have it."""
    for cpu in range(CPUS):
        policy = policy_of(directory, cpu)
        policy.mkdir(parents=True)
        (policy / "related_cpus").write_text(f"{cpu} \n")
        (policy / "scaling_driver").write_text("intel_pstate\n")
        for limit, khz in (("min", 1_200_000), ("max", FOUND_KHZ)):
            (policy / f"cpuinfo_{limit}_freq").write_text(f"{khz}\n")
            (policy / f"scaling_{limit}_freq").write_text(f"{khz}\n")


def clocks(directory: Path) -> list[int]:
    """A file is empty for the blink of a write."""
    return [int((policy_of(directory, cpu) / "scaling_max_freq").read_text() or 0) for cpu in range(CPUS)]


def limited(records: list[Record]) -> list[Record]:
    """Intervals that begin with a limit in force, as the agent read it back."""
    return [one for one in records if any(a.knobs and a.knobs.frequency_mhz for a in one.observation.assignments)]


def until_limited(record: Path, agent: Child) -> list[Record]:
    """The records so far, once there are several with limits in force."""
    reader = RecordReader(record)
    records: list[Record] = []

    def seen() -> bool:
        records.extend(reader.new())
        return len(limited(records)) > 3

    wait_until(seen, "limits in force", [agent], PATIENT_S)
    return records


def test_parties_limits_the_clock_and_restore_after_a_kill_brings_back_what_was_found(
    bench: Bench, tmp_path: Path
) -> None:
    add_clocks(bench.directory)
    bench.change_config(policy="parties", levers={"frequency": "on"}, on_exit="leave")
    record = tmp_path / "record.jsonl"
    agent = bench.start_agent("--record", str(record), name="first")
    records = until_limited(record, agent)
    agent.kill()
    assert records[0].observation.platform.frequency_mhz == KnobRange(1200, 3600, 100)
    first = limited(records)[0]
    decided = records[records.index(first) - 1].decision
    for assignment in decided.assignments:
        in_force = next(one for one in first.observation.assignments if one.service == assignment.service)
        assert assignment.knobs is not None
        assert assignment.knobs.frequency_mhz == NOMINAL_KHZ // 1000
        assert in_force.knobs == assignment.knobs
    assert min(clocks(bench.directory)) < FOUND_KHZ

    command = [str(bench.agent), "restore", "--config", str(bench.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert set(clocks(bench.directory)) == {FOUND_KHZ}


def test_a_started_agent_goes_on_where_the_killed_one_was_and_restores_at_its_end(bench: Bench, tmp_path: Path) -> None:
    add_clocks(bench.directory)
    bench.change_config(policy="parties", levers={"frequency": "on"})
    first = bench.start_agent(name="first")
    wait_until(lambda: min(clocks(bench.directory)) not in (0, FOUND_KHZ), "a limit", [first], PATIENT_S)
    first.kill()
    record = tmp_path / "record.jsonl"
    second = bench.start_agent("--record", str(record), name="second")
    records = until_limited(record, second)
    given = records[-1].observation
    assert given.platform.frequency_mhz == KnobRange(1200, 3600, 100), "not what the killed agent left there"
    cpus = {cpu for one in given.assignments for cpu in parse_cpulist(one.cpus or "")}
    assert cpus <= set(range(CPUS))
    second.stop()
    assert second.exit_code == 0
    assert set(clocks(bench.directory)) == {FOUND_KHZ}
