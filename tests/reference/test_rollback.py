"""The kernel refuses a step in mid-apply: everything before it is undone, and the message has the kernel's words."""

from __future__ import annotations

from tests.reference.conftest import Boot
from tests.reference.profiles import AMD_2S, INTEL_2S, INTEL_20WAY, OLD_KERNEL, on, on_allocating, on_every


def assert_rolled_back(boot: Boot, step: str, words: str) -> None:
    outcome = boot.transcript[step]
    assert outcome.code == 1
    assert outcome.json["status"] == "rolled_back"
    assert words in outcome.json["message"]
    assert words in outcome.sentence
    before, after = boot.transcript.state(f"{step}.before"), boot.transcript.state(f"{step}.after")
    assert before.differences(after) == []


@on_every
def test_fewer_cpus_than_asked_for_roll_back(boot: Boot) -> None:
    assert_rolled_back(boot, "small-parent", "the agent set CPUs 4-5, but the kernel allows 0-3")


@on_allocating
def test_ways_that_somebody_holds_exclusively_roll_back(boot: Boot) -> None:
    assert boot.transcript.state("taken.before").line("resctrl/other/mode") == "exclusive"
    assert_rolled_back(boot, "taken", "(kernel: Overlaps with exclusive group)")


@on(INTEL_2S)
def test_too_few_groups_are_refused_before_any_is_made(boot: Boot) -> None:
    outcome = boot.transcript["crowded"]
    assert outcome.code == 2
    assert "the assignments need 3 cache groups, but this node has room for 2" in outcome.sentence
    before, after = boot.transcript.state("crowded.before"), boot.transcript.state("crowded.after")
    assert before.differences(after) == []


@on(INTEL_20WAY, AMD_2S, OLD_KERNEL)
def test_the_same_decision_passes_once_the_ways_are_shared(boot: Boot) -> None:
    assert boot.transcript["crowded"].json["status"] == "applied"
    before, after = boot.transcript.state("crowded.before"), boot.transcript.state("crowded.restored")
    assert before.differences(after) == []
