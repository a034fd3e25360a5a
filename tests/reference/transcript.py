"""What the scenario printed: per step what a command said and how it ended, and the kernel's files in between."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

MARK = "@@ "


@dataclass
class Step:
    """One command: standard output, standard error, exit code (128 + n where signal n ended it)."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    code: int | None = None

    @property
    def json(self) -> Any:
        """The document on standard output."""
        return json.loads("\n".join(self.out))

    @property
    def sentence(self) -> str:
        """What went wrong; the agent says it in one line."""
        assert len(self.err) == 1, f"expected one line on standard error, got {self.err}"
        return self.err[0]


class State:
    """The kernel's own files at one moment, as lines by path below /sys/fs.

    `resctrl/GROUP/tasks` has only threads of the services: the root group holds all others.
    """

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = defaultdict(list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and dict(self.files) == dict(other.files)

    def __hash__(self) -> int:
        return id(self)

    def line(self, path: str) -> str:
        """The content of a one-line file; empty where the file is empty."""
        return self.files[path][0] if self.files.get(path) else ""

    def groups(self) -> set[str]:
        """Directories of resctrl groups, "." is the root."""
        return {path.split("/", 1)[1].removesuffix("/tasks") for path in self.files if path.endswith("/tasks")}

    def tasks(self, group: str) -> set[int]:
        """Threads of the services in a group."""
        return {int(line) for line in self.files[f"resctrl/{group}/tasks"] if line}

    def threads(self, cgroup: str) -> set[int]:
        """Threads of a service, those of cgroups below its own included."""
        return {
            int(line)
            for path, lines in self.files.items()
            if path.startswith(f"cgroup/{cgroup}/") and path.endswith("/cgroup.threads")
            for line in lines
            if line
        }

    def schemata(self, group: str) -> dict[str, dict[int, int]]:
        """Resource -> domain -> value, masks as numbers."""
        parsed: dict[str, dict[int, int]] = {}
        for line in self.files[f"resctrl/{group}/schemata"]:
            resource, _, values = line.partition(":")
            if not resource.strip():
                continue
            base = 16 if resource.strip().startswith("L") else 10
            pairs = [part.split("=") for part in values.split(";")]
            parsed[resource.strip()] = {int(domain): int(value, base) for domain, value in pairs}
        return parsed

    def differences(self, other: State) -> list[str]:
        """Files that differ, in words, for the message of a failing test."""
        paths = sorted(self.files.keys() | other.files.keys())
        return [
            f"{path}: {self.files.get(path)} -> {other.files.get(path)}"
            for path in paths
            if self.files.get(path) != other.files.get(path)
        ]


class Transcript:
    """All steps and states of one boot."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps: dict[str, Step] = defaultdict(Step)
        self.states: dict[str, State] = {}
        self._parse()

    def _parse(self) -> None:
        name, kind = "", ""
        for line in self.text.splitlines():
            if line.startswith(MARK):
                name, kind, *rest = line.removeprefix(MARK).split(" ")
                if kind == "exit":
                    self.steps[name].code = int(rest[0])
                elif kind == "state":
                    self.states[name] = State()
                elif kind == "same":
                    self.states[name] = self.states[rest[0]]
            elif kind in {"out", "err"}:
                getattr(self.steps[name], kind).append(line)
            elif kind == "state":
                path, _, value = line.partition("|")
                lines = self.states[name].files[path]
                if value:
                    lines.append(value)

    def __getitem__(self, step: str) -> Step:
        found = self.steps.get(step)
        assert found is not None and found.code is not None, f"no step '{step}' in the transcript:\n{self.text[-3000:]}"
        return found

    def state(self, name: str) -> State:
        """The kernel's files at this point of the scenario."""
        assert name in self.states, f"no state '{name}' in the transcript:\n{self.text[-3000:]}"
        return self.states[name]
