"""What the trial needs of the machine: root, programs, cgroups, and nobody else who runs one."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from osml.base.extras import how_to_install
from osml.base.failure import MachineError
from osml.lab.trials.live.jobs import Job, job_named
from osml.lab.trials.live.services import USER, Service, service_named
from osml.lab.trials.live.settings import LOADS

WORK = Path("/run/osml-live")  # sockets, pages, state; fixed, so that a killed trial's is found
LOCK = Path("/run/osml-live.lock")


def require_root(command: str = "osml run live") -> None:
    """Raise MachineError for anybody else."""
    if os.geteuid() != 0:
        raise MachineError(f"{command} needs root, for cgroups and for the priority of the load generator: use sudo")


def require_trial_programs() -> None:
    """What `osml run live` starts. Raises MachineError as require_programs does."""
    require_programs([*(service_named(load.name) for load in LOADS), job_named("stress")])


def require_programs(wanted: Sequence[Service | Job]) -> None:
    """Raise MachineError that names every missing program with Debian's package, or else every missing module."""
    missing = dict(found for each in wanted if (found := missing_program(each)) is not None)
    if missing:
        raise MachineError(
            f"{', '.join(missing)} not found: install with `apt-get install {' '.join(sorted(missing.values()))}`"
        )
    without = {each.name: modules for each in wanted if (modules := missing_modules(each))}
    if without:
        modules = sorted({module for found in without.values() for module in found})
        hows = dict.fromkeys(how_to_have_modules(each) for each in wanted if each.name in without)
        raise MachineError(f"Python modules {', '.join(modules)} not found: {', and '.join(hows)}")


def missing_program(wanted: Service | Job) -> tuple[str, str] | None:
    """Program and Debian's package where the program is not here."""
    # nginx is in /usr/sbin, which is not in everybody's PATH.
    path = os.environ.get("PATH", os.defpath)
    if "/usr/sbin" not in path.split(":"):
        os.environ["PATH"] = path + ":/usr/sbin:/sbin"
    return None if shutil.which(wanted.program) is not None else (wanted.program, wanted.package)


def missing_modules(wanted: Service | Job) -> list[str]:
    """Python modules that it needs and that are not installed."""
    return [module for module in wanted.modules if importlib.util.find_spec(module) is None]


def how_to_have_modules(wanted: Service | Job) -> str:
    """The command that installs its Python modules."""
    package, extra = wanted.extra if isinstance(wanted, Job) else ("osml", "real-services")
    return how_to_install(extra, package=package)


@contextmanager
def only_trial() -> Generator[None]:
    """Hold the machine-wide lock. Raises MachineError where another trial runs: both would use the same cgroups."""
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MachineError(f"another live trial is running on this machine (lock on {LOCK})") from None
        yield


def prepare(service: Service) -> None:
    """Make what the service needs and what takes long, once on a machine."""
    if service.prepare is not None:
        service.prepared.mkdir(parents=True, exist_ok=True)
        service.prepare(service.prepared)


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
