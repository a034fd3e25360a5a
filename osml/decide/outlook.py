"""What would come of an allocation, for those who can tell: plugged in, so that no server needs a simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

from msgspec import Struct

from osml.base.extras import how_to_install
from osml.base.failure import InputError, MachineError
from osml.domain import Assignment, Observation

GROUP = "osml.outlooks"


class CauseNow(Struct, frozen=True):
    """A share of what a service suffers now: in ms, and in E_S.

    `culprit` is a neighbour, or the service itself for its own limit or load; None where nobody can be named.
    `confidence` is the share of the predictions in which it has a part of at least 10 %. It is None where nothing was
    measured of what the culprit needs of the cache and the memory, and for the cache of a machine that has several.
    """

    culprit: str | None
    resource: str
    ms: float
    e_s: float
    confidence: float | None


class ServiceNow(Struct, frozen=True):
    """One service: its measured latency, the one that it would have alone, and the causes, the largest first."""

    name: str
    measured_ms: float
    alone_ms: float
    suffers_ms: float
    explained: bool
    words: str
    causes: list[CauseNow]


class BlameNow(Struct, frozen=True):
    """Who slows the services of a node that miss their targets or nearly do, over its last `intervals`.

    `reason` is why there are no services, or why nothing can be told of some that are late.
    """

    node: str
    intervals: int
    services: list[ServiceNow]
    reason: str | None = None


class Outlook(Protocol):
    """Predicts what others would do to the services of a node."""

    def e_s(self, observation: Observation, options: Sequence[Sequence[Assignment]]) -> list[float] | None:
        """E_S of the node under each option, in place of what was in force (nothing where the agent only watches).

        None where nothing is known of the node, or where nothing was measured in this interval.
        """
        ...

    def blame(self, observations: Sequence[Observation]) -> BlameNow:
        """Who slows the services of a node, by its last observations, the newest at the end.

        Raises InputError where nothing is known of the node as it is now.
        """
        ...


NEEDS = ("numba", "scipy")
"""Packages of the extra `simulator`, on which every outlook of osml stands."""


def check_outlook(name: str, folder: Path) -> None:
    """Raise InputError without such an outlook or a folder, MachineError without its packages. Loads nothing."""
    _entry(name)
    missing = [package for package in NEEDS if find_spec(package) is None]
    if missing:
        raise MachineError(
            f"--twins needs the Python package '{missing[0]}', which is not installed: {how_to_install('simulator')}"
        )
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder, expected one with a twin of each node, NODE.json")


def load_outlook(name: str, folder: Path) -> Outlook:
    """The outlook of that name, which has its files in a folder. Raises InputError where it is not installed."""
    return cast(Callable[[Path], Outlook], _entry(name).load())(folder)


def _entry(name: str) -> EntryPoint:
    entry = next((one for one in entry_points(group=GROUP) if one.name == name), None)
    if entry is None:
        raise InputError(f"outlook '{name}' is not installed, expected the name of an installed one, such as twin")
    return entry
