"""What would come of an allocation, for those who can tell: plugged in, so that no server needs a simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, cast

from osml.base.failure import InputError
from osml.domain import Assignment, Observation

GROUP = "osml.outlooks"


class Outlook(Protocol):
    """Predicts the system entropy of a node."""

    def e_s(self, observation: Observation, options: Sequence[Sequence[Assignment]]) -> list[float] | None:
        """E_S of the node under each option, in place of the assignments of the observation.

        None where nothing is known of the node, or where nothing was measured in this interval.
        """
        ...


def check_outlook(name: str, folder: Path) -> None:
    """Raise InputError where the outlook is not installed, or has no folder. Loads nothing."""
    _entry(name)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder, expected one with a twin of each node, NODE.json")


def load_outlook(name: str, folder: Path) -> Outlook:
    """The outlook of that name, which has its files in a folder. Raises InputError where it is not installed."""
    return cast(Callable[[Path], Outlook], _entry(name).load())(folder)


def _entry(name: str) -> EntryPoint:
    entry = next((one for one in entry_points(group=GROUP) if one.name == name), None)
    if entry is None:
        raise InputError(f"outlook '{name}' is not installed; install osml[simulator] for the twin")
    return entry
