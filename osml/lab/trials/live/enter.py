"""Becomes another program inside given cgroups: `python -m osml.lab.trials.live.enter [options] -- PROGRAM ARGS...`.

A program of its own because everything that a service ever starts must be born inside its cgroups, and because a child
must not outlive a trial that is killed: the kernel sends it `--death-signal` when its parent dies.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pwd
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(number: int, parent: int) -> None:
    """Ask the kernel for signal `number` at the parent's death. Raises ProcessLookupError where it died already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        raise ProcessLookupError("the trial that started this program has ended")


def become(user: str) -> None:
    """Give up root for good."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def main(arguments: list[str]) -> None:
    """Join, drop, exec; does not return."""
    parser = argparse.ArgumentParser(prog="enter")
    parser.add_argument("--parent", type=int, required=True, help="pid of the parent; this program ends with it")
    parser.add_argument("--group", action="append", default=[], type=Path, help="cgroup directory to join")
    parser.add_argument("--user", help="user to become")
    parser.add_argument("--death-signal", default="SIGKILL")
    parser.add_argument("program", nargs="+")
    given = parser.parse_args(arguments)
    for group in given.group:
        (group / "cgroup.procs").write_text("0\n")  # 0 = the writer
    if given.user:
        become(given.user)
    # After the change of user, which would clear it; exec keeps it.
    die_with_parent(signal.Signals[given.death_signal], given.parent)
    os.execvp(given.program[0], given.program)  # noqa: S606 - an argument list, no shell


def command(
    program: list[str],
    groups: list[Path] | None = None,
    user: str | None = None,
    death_signal: str = "SIGKILL",
) -> list[str]:
    """The command line that starts `program` this way from the calling process."""
    line = [sys.executable, "-m", "osml.lab.trials.live.enter", "--parent", str(os.getpid())]
    line += ["--death-signal", death_signal]
    for group in groups or []:
        line += ["--group", str(group)]
    if user is not None:
        line += ["--user", user]
    return [*line, "--", *program]


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, KeyError) as error:
        sys.exit(f"{' '.join(sys.argv[1:])}: {error}")
