"""A container runtime as an NRI plugin meets it: the Go library of containerd and CRI-O, in a process of its own."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

SOURCES = Path(__file__).parent / "nri_runtime"
PATIENCE_S = 60.0
Event = dict[str, Any]


def build(folder: Path) -> Path:
    """The program. Its modules come from the network where they are not in Go's cache."""
    program = folder / "nri-runtime"
    command = ["go", "build", "-o", str(program), "."]
    subprocess.run(command, cwd=SOURCES, check=True, timeout=900)
    return program


@dataclass
class NriRuntime:
    """For use in a `with` block. It listens from `listen()` on."""

    program: Path
    folder: Path
    updates: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    synchronized: int = 0

    @property
    def socket(self) -> Path:
        return self.folder / "runtime.sock"

    def __enter__(self) -> Self:
        plugins = self.folder / "plugins"
        plugins.mkdir(exist_ok=True)
        self.socket.unlink(missing_ok=True)
        with (self.folder / "runtime.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.program, self.socket, plugins], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self._answers: queue.Queue[Event] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: Event = json.loads(line)
            if event["event"] == "updates":
                self.updates.append(event["all"])
            elif event["event"] == "synchronized":
                self.synchronized += 1
            else:
                self._answers.put(event)

    def do(self, what: str, **with_: str) -> Event:
        """One event of the runtime: what came of it. Raises queue.Empty where it hangs."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"Do": what, **with_}).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answers.get(timeout=PATIENCE_S)
        assert answer["event"] == what
        assert "error" not in answer, answer
        return answer

    def listen(self) -> None:
        self.do("listen")

    def told(self, container: str) -> str | None:
        """The CPUs of a container as the plugin told them last, of its own accord."""
        of_it = [update[container] for update in self.updates if container in update]
        return of_it[-1] if of_it else None

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
