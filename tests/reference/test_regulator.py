"""The software regulator on a real kernel: real freezer, real resctrl files, counters fed by hand."""

from __future__ import annotations

from pathlib import Path

from tests.reference.conftest import BOOT_LIMIT_S, HERE, VM, run_machine


def test_a_job_keeps_its_budget_by_standing_still_and_is_let_go_in_the_end(agent: Path) -> None:
    command = [str(VM), "-p", "mon-only", "-t", str(BOOT_LIMIT_S), "--", "bash", str(HERE / "regulated.sh"), str(agent)]
    done = run_machine(command)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["left", "0", "0"] in lines
    seen = [(float(a), int(b), int(c)) for a, b, c in (line for line in lines if len(line) == 3 and line[0] != "left")]
    assert len(seen) == 60
    (start_s, _, first), (end_s, _, last) = seen[5], seen[-1]
    mbps = 2 * (last - first) / (end_s - start_s) / 1e6  # both sockets show the same counter
    assert 60 < mbps < 140
    assert {frozen for _, frozen, _ in seen} == {0, 1}
