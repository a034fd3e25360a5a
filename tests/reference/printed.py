"""What a script of levers printed in a virtual machine: see lever_steps.sh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.reference.conftest import BOOT_LIMIT_S, HERE, VM, run_machine

KERNELS = ("7.2", "6.12")


class Printed:
    """The lines of a script, by the names that it gave its steps."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [line.split() for line in text.splitlines()]

    def code(self, name: str) -> int:
        """Exit code of the agent in a step."""
        return next(int(line[2]) for line in self.lines if line[:2] == ["exit", name])

    def said(self, name: str) -> str:
        """What the agent printed in a step."""
        start = f"said {name} "
        return "\n".join(line.removeprefix(start) for line in self.text.splitlines() if line.startswith(start))

    def state(self, name: str) -> dict[str, str]:
        """What the kernel's files held, by group."""
        return {line[2]: " ".join(line[3:]) for line in self.lines if line[:2] == ["state", name]}

    def mechanisms(self, name: str) -> dict[str, dict[str, Any]]:
        """Mechanisms by name, of a step that ran `probe --json`."""
        return {one["name"]: one for one in json.loads(self.said(name))["mechanisms"]}

    def numbers(self, kind: str, name: str) -> tuple[float, float]:
        """The two numbers of a line "KIND NAME A B"."""
        return next((float(line[2]), float(line[3])) for line in self.lines if line[:2] == [kind, name])


def printed_by(script: str, kernel: str, agent: Path) -> Printed:
    """Boot a kernel, run a script of this folder there, power off."""
    command = [str(VM), "-k", kernel, "-p", "none", "-m", "none", "-t", str(BOOT_LIMIT_S), "--"]
    command += ["bash", str(HERE / script), str(agent)]
    done = run_machine(command)
    assert "end 0" in done.stdout, done.stdout + done.stderr
    return Printed(done.stdout)
