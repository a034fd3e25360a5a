"""The machines that the tests boot, and what the agent has to find on each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from osml.domain import MbaRange

SERVICES = ("web", "db", "job")
CPUS = "0-7"  # two sockets of two cores with two threads each
DOMAINS = {0: "0-3", 1: "4-7"}
PERCENT = MbaRange(min=10, max=100, step=10, unit="percent")
EIGHTHS = MbaRange(min=1, max=2048, step=1, unit="eighth_gbps")


@dataclass(frozen=True)
class Allocation:
    """Cache and bandwidth control: what the profile has, and two legal divisions of it among web, db and job.

    `first_mba` and `second_mba` are asked for; the kernel stores percentages rounded up to the step.
    """

    ways: int
    groups: int  # the default one included
    sparse: bool
    mba: MbaRange
    first_masks: tuple[str, str, str]
    second_masks: tuple[str, str, str]
    first_mba: tuple[int, int, int]
    second_mba: tuple[int, int, int]

    def stored_mba(self, wanted: int) -> int:
        """The value that the kernel keeps."""
        if self.mba.unit != "percent":
            return wanted
        return -(-wanted // self.mba.step) * self.mba.step


@dataclass(frozen=True)
class Profile:
    """One virtual machine: which CPU it plays, on which kernel."""

    name: str
    allocation: Allocation | None
    monitors: bool
    kernel: str = "7.2"

    def __str__(self) -> str:
        return self.name if self.kernel == "7.2" else f"{self.name}-{self.kernel}"

    @property
    def can(self) -> Allocation:
        """What it allocates; only asked for in tests that run where it does."""
        assert self.allocation is not None, f"{self} does not allocate"
        return self.allocation


INTEL_20WAY = Profile(
    "intel-20way",
    Allocation(
        ways=20,
        groups=8,
        sparse=False,
        mba=PERCENT,
        first_masks=("3ff", "7c00", "f8000"),
        second_masks=("f", "1ff0", "fe000"),
        first_mba=(100, 50, 20),
        second_mba=(90, 70, 15),
    ),
    monitors=True,
)
INTEL_2S = Profile(
    "intel-2s",
    Allocation(
        ways=11,
        groups=4,
        sparse=False,
        mba=PERCENT,
        first_masks=("f", "70", "780"),
        second_masks=("3", "1c", "7e0"),
        first_mba=(100, 50, 20),
        second_mba=(90, 70, 15),
    ),
    monitors=True,
)
AMD_2S = Profile(
    "amd-2s",
    Allocation(
        ways=16,
        groups=16,
        sparse=True,
        mba=EIGHTHS,
        first_masks=("f5", "f00", "f00a"),  # with holes
        second_masks=("5", "ff8", "f002"),
        first_mba=(2048, 800, 83),
        second_mba=(1600, 900, 41),
    ),
    monitors=True,
)
MON_ONLY = Profile("mon-only", None, monitors=True)
NONE = Profile("none", None, monitors=False)
OLD_KERNEL = replace(INTEL_20WAY, kernel="6.12")  # pads schemata, lets messages pile up in last_cmd_status

ALLOCATING = (INTEL_20WAY, INTEL_2S, AMD_2S, OLD_KERNEL)
EVERY = (*ALLOCATING[:3], MON_ONLY, NONE, OLD_KERNEL)

on_every = pytest.mark.parametrize("boot", EVERY, indirect=True, ids=str)
on_allocating = pytest.mark.parametrize("boot", ALLOCATING, indirect=True, ids=str)


def on(*profiles: Profile) -> pytest.MarkDecorator:
    """Runs a test on these machines only."""
    return pytest.mark.parametrize("boot", profiles, indirect=True, ids=str)
