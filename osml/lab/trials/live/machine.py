"""What the trial needs of the machine: root, programs, cgroups, and nobody else who runs one."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from osml.base.failure import MachineError
from osml.lab.trials.live.services import KINDS

WORK = Path("/run/osml-live")  # sockets, pages, state; fixed, so that a killed trial's is found
LOCK = Path("/run/osml-live.lock")
USER = "nobody"  # whom the services run as


def require_root() -> None:
    """Raise MachineError for anybody else."""
    if os.geteuid() != 0:
        raise MachineError("osml run live needs root, for cgroups and for the priority of the load generator: use sudo")


def require_programs() -> None:
    """Raise MachineError that names every missing program and Debian's package for it."""
    wanted = {kind.program: kind.package for kind in KINDS.values()} | {"stress-ng": "stress-ng"}
    # nginx is in /usr/sbin, which is not in everybody's PATH.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    missing = {program: package for program, package in wanted.items() if shutil.which(program) is None}
    if missing:
        raise MachineError(
            f"{', '.join(missing)} not found: install with `apt-get install {' '.join(sorted(missing.values()))}`"
        )


@contextmanager
def only_trial() -> Generator[None]:
    """Hold the machine-wide lock. Raises MachineError where another trial runs: both would use the same cgroups."""
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MachineError(f"another live trial is running on this machine (lock on {LOCK})") from None
        yield


@contextmanager
def work_directory() -> Generator[Path]:
    """A fresh WORK that everybody may enter, removed at the end."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    WORK.chmod(0o755)
    try:
        yield WORK
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


def service_directory(name: str) -> Path:
    """A directory in WORK that belongs to USER."""
    directory = WORK / name
    directory.mkdir()
    shutil.chown(directory, USER)
    return directory
