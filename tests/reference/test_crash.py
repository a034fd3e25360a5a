"""The agent dies by SIGKILL in mid-apply; its next start puts right what the kernel was left with."""

from __future__ import annotations

import json

import pytest

from tests.reference.conftest import Boot, crash_steps
from tests.reference.profiles import EVERY, on_every

SIGKILLED = 128 + 9
IN_CHANGE = [pytest.param(p, n, id=f"{p}-{n}") for p in EVERY for n in crash_steps(p).change]
IN_FIRST = [pytest.param(p, n, id=f"{p}-{n}") for p in EVERY for n in crash_steps(p).first]


@pytest.mark.parametrize(("boot", "n"), IN_CHANGE, indirect=["boot"])
def test_a_crash_between_two_divisions_leaves_a_journal(boot: Boot, n: int) -> None:
    assert boot.transcript[f"change.{n}"].code == SIGKILLED
    assert json.loads("\n".join(boot.transcript[f"change.{n}.journal"].out))["pending"]


@pytest.mark.parametrize(("boot", "n"), IN_CHANGE, indirect=["boot"])
def test_the_next_start_goes_back_to_the_division_before(boot: Boot, n: int) -> None:
    heal = boot.transcript[f"change.{n}.heal"]
    assert heal.code == 0
    # Healed before it was applied, so there was nothing left to do.
    assert heal.json["status"] == "unchanged"
    assert any("interrupted transaction" in line for line in heal.err)
    assert boot.transcript.state("run").differences(boot.transcript.state(f"change.{n}.heal")) == []


@on_every
def test_crashes_between_two_divisions_were_in_mid_apply(boot: Boot) -> None:
    before, after = boot.transcript.state("run"), boot.transcript.state("second")
    for n in crash_steps(boot.profile).change:
        crashed = boot.transcript.state(f"change.{n}")
        assert before.differences(crashed), f"the crash after step {n} left no trace in the kernel"
        assert after.differences(crashed), f"the crash after step {n} came after the last step"


@pytest.mark.parametrize(("boot", "n"), IN_FIRST, indirect=["boot"])
def test_a_crash_in_the_first_apply_is_undone_by_restore(boot: Boot, n: int) -> None:
    assert boot.transcript[f"fresh.{n}"].code == SIGKILLED
    assert boot.transcript.state("restored").differences(boot.transcript.state(f"fresh.{n}"))
    heal = boot.transcript[f"fresh.{n}.heal"]
    assert heal.code == 0
    assert boot.transcript.state("restored").differences(boot.transcript.state(f"fresh.{n}.heal")) == []
