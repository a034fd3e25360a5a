"""Each web server held to its share of a core, and its burner inside that share: cgroup v1 or v2.

osml-dispatch/web2         quota: the "virtual machine" of one core
osml-dispatch/web2/serve   the web server
osml-dispatch/web2/burn    the burner, with a weight that leaves the server mu_low / mu_high of the quota
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from osml.failure import Failure
from osml.trials.live.cgroups import Hierarchies

ROOT_NAME = "osml-dispatch"
PERIOD_US = 10_000  # the kernel's 100 ms would stop a server for longer than a request takes
SERVE_WEIGHT = 1000
EMPTY_WITHIN_S = 5.0


class ServerGroups:
    """The groups of one trial. `remove()` also clears what a killed trial left."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._v2 = hierarchies.v2 is not None
        self._top = (hierarchies.v2 or hierarchies.v1["cpu"]) / ROOT_NAME

    def create(self, server: str, share: float) -> None:
        """Groups of one server; share is CPU time over time."""
        for directory in (self._top, self._top / server, self.serve(server), self.burn(server)):
            directory.mkdir(exist_ok=True)
            if self._v2 and directory.parent.name not in {server}:
                (directory.parent / "cgroup.subtree_control").write_text("+cpu")
        if self._v2:
            (self._top / server / "cgroup.subtree_control").write_text("+cpu")
            (self._top / server / "cpu.max").write_text(f"{int(share * PERIOD_US)} {PERIOD_US}")
        else:
            (self._top / server / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._top / server / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
        self._weigh(self.serve(server), SERVE_WEIGHT)

    def slow_to(self, server: str, ratio: float) -> None:
        """While its burner runs, the server gets `ratio` of its quota."""
        self._weigh(self.burn(server), round(SERVE_WEIGHT * (1 / ratio - 1)))

    def serve(self, server: str) -> Path:
        """Where the web server belongs."""
        return self._top / server / "serve"

    def burn(self, server: str) -> Path:
        """Where the burner belongs."""
        return self._top / server / "burn"

    def remove(self) -> None:
        """End every task in the groups and remove them. Raises Failure, naming the group, where one stays."""
        if not self._top.is_dir():
            return
        groups = sorted((path for path in self._top.rglob("*") if path.is_dir()), reverse=True)
        for group in [*groups, self._top]:
            _end_tasks(group)
            try:
                group.rmdir()
            except OSError as error:
                raise Failure(f"cgroup {group} can't be removed: {error.strerror}") from None

    def _weigh(self, group: Path, weight: int) -> None:
        (group / ("cpu.weight" if self._v2 else "cpu.shares")).write_text(str(weight))


def _end_tasks(group: Path) -> None:
    deadline = time.monotonic() + EMPTY_WITHIN_S
    while pids := (group / "cgroup.procs").read_text().split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Failure(f"cgroup {group} still has tasks {', '.join(pids)} {EMPTY_WITHIN_S:g} s after SIGKILL")
        time.sleep(0.02)
