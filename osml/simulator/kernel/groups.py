"""What a resctrl file system holds: its groups, and how the last command went."""

from __future__ import annotations

from dataclasses import dataclass, field

from osml.simulator.kernel import schemata
from osml.simulator.kernel.kernfs import Directory, directory, error


@dataclass(eq=False)
class Group:
    """A control group (parent is None) or one of its monitoring groups. The default group is the root."""

    name: str
    closid: int
    rmid: int
    values: schemata.Values
    parent: Group | None = None
    mode: str = "shareable"
    cpus: frozenset[int] = frozenset()
    monitors: dict[str, Group] = field(default_factory=dict[str, "Group"])
    directory: Directory = field(default_factory=directory)


class Status:
    """info/last_cmd_status."""

    def __init__(self) -> None:
        self._text = ""

    def clear(self) -> None:
        """Forget the last command."""
        self._text = ""

    def put(self, text: str) -> None:
        """Append; the kernel's buffer has 512 bytes."""
        self._text = (self._text + text)[:512]

    def show(self) -> str:
        """The content of the file."""
        return self._text or "ok\n"

    def refuse(self, code: int, text: str) -> OSError:
        """Append the text and return the error to raise."""
        self.put(text)
        return error(code)
