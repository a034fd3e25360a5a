"""Every call by which the agent changes something is the last before a kill once, and fails once.

Whatever came of it, a restore without faults brings the node back to what was found: nothing was forgotten.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.divided_node import Node, decision, node
from tests.kit.kernel_state import kernel_state

__all__ = ["node"]  # the fixture
FUSE = pytest.mark.parametrize("node", ["fuse"], indirect=True)
SOURCE = Path(__file__).parent / "system_call_faults.c"


@dataclass
class Faults:
    """The agent with the faults preloaded."""

    node: Node
    library: Path
    scratch: Path

    @property
    def config(self) -> Path:
        return self.node.directory / "agent.yaml"

    def agent(self, *arguments: str | Path, at: int = 0, error: int | None = None) -> int:
        """Exit code of the agent whose call number `at` fails with `error`, or kills it."""
        env = {
            "LD_PRELOAD": str(self.library),
            "OSML_FAULT_ROOT": str(self.node.directory),
            "OSML_FAULT_COUNT": str(self.scratch / "count"),
            "OSML_FAULT_AT": str(at),
        }
        if error is not None:
            env["OSML_FAULT_ERRNO"] = str(error)
        command = [self.node.agent, *arguments, "--config", self.config]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False).returncode

    def calls(self) -> int:
        return int((self.scratch / "count").read_text())

    def restore(self) -> None:
        done = self.node.run("restore", "--config", self.config)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def faults(node: Node, tmp_path: Path) -> Faults:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    library = tmp_path / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return Faults(node, library, tmp_path)


Scene = Callable[[Faults], None]


def nothing(faults: Faults) -> None:
    """The node as it was found."""


def divided(faults: Faults) -> None:
    faults.node.divide()


def interrupted(faults: Faults) -> None:
    """A transaction that was killed half-way, to be healed."""
    faults.node.divide()
    assert faults.agent("apply", decision_file(faults, 1), at=14) == -signal.SIGKILL


def decision_file(faults: Faults, shift: int) -> Path:
    file = faults.scratch / f"decision-{shift}.json"
    if not file.exists():
        file.write_text(json.dumps(decision(shift)))
    return file


SCENES: dict[str, tuple[Scene, Callable[[Faults], tuple[str | Path, ...]]]] = {
    "first-apply": (nothing, lambda faults: ("apply", decision_file(faults, 0))),
    "change": (divided, lambda faults: ("apply", decision_file(faults, 1))),
    "heal": (interrupted, lambda faults: ("apply", decision_file(faults, 2))),
    "restore": (divided, lambda _: ("restore",)),
}


@FUSE
@pytest.mark.timeout(900)
@pytest.mark.parametrize("error", [None, errno.EIO], ids=["killed", "fails"])
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"])
def test_no_call_is_one_too_many(faults: Faults, scene: str, error: int | None, step: int) -> None:
    prepare, arguments = SCENES[scene]
    faults.restore()
    found = kernel_state(faults.node.directory)
    prepare(faults)
    assert faults.agent(*arguments(faults)) == 0
    calls = faults.calls()
    assert calls > 10
    for at in range(1, calls + 1, step):
        faults.restore()
        assert kernel_state(faults.node.directory) == found, at
        prepare(faults)
        code = faults.agent(*arguments(faults), at=at, error=error)
        if error is None:
            assert code == -signal.SIGKILL, at
        elif scene == "restore" and code == 0:
            assert kernel_state(faults.node.directory) == found, f"restored, it says: call {at}"
        faults.restore()
        assert kernel_state(faults.node.directory) == found, at
