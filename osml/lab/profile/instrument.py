"""QEMU's user mode with the plugin of `osml-stackdist`: the command line, and the file where counts arrive."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osml.base.agent_binary import BUILD
from osml.base.failure import Failure, InputError, MachineError
from osml.lab.profile.caches import Caches

TOOL = BUILD / "stackdist/osml-stackdist"
PLUGIN = BUILD / "stackdist/libosml-stackdist-plugin.so"
_EMULATOR = "qemu-x86_64"
# Copies with REP MOVSB, which QEMU runs byte by byte, are left out: the C library then copies by vectors.
_CPU = "max,erms=off,fsrm=off"
_ELF, _X86_64, _MOST_SCRIPTS = b"\x7fELF", 62, 4


@dataclass(frozen=True)
class Tools:
    """What instruments: QEMU, the plugin in it, and the program that owns the file of counts."""

    emulator: str
    plugin: Path
    tool: Path


def find_tools() -> Tools:
    """Raises MachineError that says what is missing and how to get it."""
    if platform.machine() != "x86_64":
        raise MachineError(f"this machine is {platform.machine()}, expected x86_64: `osml look profile` needs it")
    emulator = shutil.which(_EMULATOR)
    if emulator is None:
        raise MachineError(f"{_EMULATOR} not found: install with `apt-get install qemu-user`")
    for path in (TOOL, PLUGIN):
        if not path.is_file():
            raise MachineError(f"{path.name} is not built: build it with `make agent`")
    return Tools(emulator, PLUGIN, TOOL)


def resolved(command: Sequence[str]) -> list[str]:
    """The command with the program as a path, and a script behind its interpreter: QEMU starts only binaries.

    Raises InputError where there is no such program or it is no x86-64 binary.
    """
    words = list(command)
    if not words:
        raise InputError("the command is empty, expected a program after --, as in `-- xz -k FILE`")
    for _ in range(_MOST_SCRIPTS):
        found = shutil.which(words[0])
        if found is None:
            raise InputError(f"program '{words[0]}' is not found or not executable, expected one on PATH or a path")
        words[0] = found
        with Path(found).open("rb") as stream:
            head = stream.read(256)
        if head.startswith(_ELF):
            if int.from_bytes(head[18:20], "little") != _X86_64:
                raise InputError(f"program '{found}' is no x86-64 program, expected one that runs on this machine")
            return words
        if not head.startswith(b"#!"):
            raise InputError(f"program '{found}' is neither a binary nor a script that names its interpreter")
        words = [*_interpreter(found, head), *words]
    raise InputError(f"script '{command[0]}' has more than {_MOST_SCRIPTS} interpreters, expected a program")


def _interpreter(script: str, head: bytes) -> list[str]:
    """The words of a script's first line; of `env NAME` only the name, since what env starts would not be seen."""
    line = head[2:].split(b"\n", 1)[0].decode(errors="replace")
    words = line.split(maxsplit=1)
    if not words:
        raise InputError(f"script '{script}' names no interpreter after #!, expected one")
    if Path(words[0]).name == "env" and len(words) == 2:
        named = words[1].removeprefix("-S").split() if words[1].startswith("-S") else [words[1].strip()]
        if named and not named[0].startswith("-") and "=" not in named[0]:
            return named
    return words


class Counts:
    """The file of counts of one run: made here, filled by every process of the program, read here."""

    def __init__(self, path: Path, caches: Caches, tools: Tools) -> None:
        self._path = path
        self._tools = tools
        self._tool("create", str(path), *caches.arguments())

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def command(self, program: Sequence[str]) -> list[str]:
        """The command line that runs `program` under instrumentation, at the same addresses every time."""
        plugin = f"{self._tools.plugin},model={self._path}"
        emulator = [self._tools.emulator, "-cpu", _CPU, "-plugin", plugin]
        return ["setarch", "--addr-no-randomize", *emulator, *resolved(program)]

    def start(self) -> None:
        """Count from now on; the caches stay warm."""
        self._tool("start", str(self._path))

    def stop(self) -> None:
        """Count no more."""
        self._tool("stop", str(self._path))

    def report(self) -> dict[str, Any]:
        """What was counted (actuator/stackdist/report.h)."""
        return json.loads(self._tool("report", str(self._path)))

    def _tool(self, *arguments: str) -> str:
        done = subprocess.run([str(self._tools.tool), *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(done.stderr.strip().removeprefix("osml-stackdist: ") or "osml-stackdist failed")
        return done.stdout
