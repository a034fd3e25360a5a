"""Decisions that this machine cannot follow are refused before anything is touched."""

from __future__ import annotations

import pytest

from tests.reference.conftest import Boot
from tests.reference.profiles import ALLOCATING, AMD_2S, EVERY, Profile

EXPECTED = {
    "unknown-service": "'mail' is not a service of this node",
    "too-many-cpus": "cpus 0-8 are not all CPUs of this node (0-7)",
    "half-written": "the decision is not valid JSON",
    "zero-ways": 'assignments[0].way_mask: "0", expected at least one way',
}
WAYS = {"too-wide": "is wider than the cache"}
HOLES = {"holes": "way_mask 5 is not contiguous"}
NO_WAYS = {"ways": "way_mask f cannot be set on this node: "}


def expected(profile: Profile) -> dict[str, str]:
    if profile not in ALLOCATING:
        return EXPECTED | NO_WAYS
    return EXPECTED | WAYS | ({} if profile == AMD_2S else HOLES)


CASES = [
    pytest.param(profile, name, words, id=f"{profile}-{name}")
    for profile in EVERY
    for name, words in expected(profile).items()
]


@pytest.mark.parametrize(("boot", "name", "words"), CASES, indirect=["boot"])
def test_a_bad_decision_is_refused_in_one_sentence(boot: Boot, name: str, words: str) -> None:
    step = boot.transcript[f"refused.{name}"]
    assert step.code == 2
    assert words in step.sentence


@pytest.mark.parametrize(("boot", "name", "words"), CASES, indirect=["boot"])
def test_a_bad_decision_changes_nothing(boot: Boot, name: str, words: str) -> None:
    before, after = boot.transcript.state("joined"), boot.transcript.state(f"refused.{name}")
    assert before.differences(after) == []
