"""Where a program is run: a folder, a mark on all its processes, and nothing of it left at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path

from osml.lab.profile import processes
from osml.lab.profile.caches import Caches
from osml.lab.profile.instrument import Counts, find_tools
from osml.lab.trials.children import Child, Children
from osml.lab.trials.live import enter


class Bench:
    """Starts programs, with and without instrumentation. Ends every process of theirs when it is left."""

    def __init__(self, caches: Caches, user: str | None = None) -> None:
        self._caches = caches
        self._user = user if os.geteuid() == 0 else None

    def __enter__(self) -> Bench:
        """Raises MachineError where a tool is missing."""
        tools = find_tools()
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="osml-profile-")))
            self.folder.chmod(0o755)
            self._run = processes.Run(uuid.uuid4().hex)
            stack.callback(self._end_all)
            self._children = stack.enter_context(Children(self.folder / "logs"))
            self.counts = Counts(self.folder / "counts", self._caches, tools)
            if self._user is not None:
                shutil.chown(self.counts.path, self._user)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything."""
        self._stack.close()

    def _end_all(self) -> None:
        processes.end_all(self._run)

    def own_folder(self, name: str) -> Path:
        """A new folder that belongs to the user of the program."""
        folder = self.folder / name
        folder.mkdir()
        if self._user is not None:
            shutil.chown(folder, self._user)
        return folder

    def start(self, name: str, command: list[str], instrumented: bool) -> Child:
        """Start a program. It ends at the latest when this process does. Raises Failure where it can't be started."""
        line = self.counts.command(command) if instrumented else command
        mark = {processes.MARK: self._run.value}
        child = self._children.start(name, enter.command(line, user=self._user), mark)
        self._run.sessions.add(child.pid)
        return child

    def stop(self, child: Child) -> None:
        """Stop one program and what it left behind."""
        self._children.stop(child)
        self._end_all()

    def cpu_seconds(self) -> float:
        """CPU time of all processes of the programs that run now."""
        return processes.cpu_seconds(self._run)

    def ticks(self) -> tuple[int, int]:
        """Ticks of them outside of the kernel and in it."""
        return processes.ticks(self._run)

    def living(self) -> int:
        """How many processes of the programs run now."""
        return sum(1 for _ in processes.members(self._run))
