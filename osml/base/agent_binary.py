"""Where the agent's binary is, and what is built beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from osml.base.failure import InputError, MachineError

BUILD = Path(__file__).resolve().parents[2] / "actuator/build/release"
BUILT = BUILD / "osml-agent"


def find_agent(given: Path | None) -> Path:
    """The given path, else this checkout's release build, else the one on PATH.

    Raises InputError for a given path that is no file, MachineError where there is none at all.
    """
    if given is not None:
        if not given.is_file():
            raise InputError(f"--agent {given} is not a file, expected the osml-agent binary")
        return given
    if BUILT.is_file():
        return BUILT
    installed = shutil.which("osml-agent")
    if installed is None:
        raise MachineError("no osml-agent in the build folder or on PATH: build it with `make agent`")
    return Path(installed)
