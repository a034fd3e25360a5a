"""Environments of the other servers: made once by uv from a list of exact versions, never mixed with ours."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
FOLDER = Path("out/model-servers")
TIMEOUT_S = 900
MADE = "made-from.sha256"


class NoEnvironmentError(Exception):
    """An environment can't be made; the message says why and what to do."""


def environment(name: str, folder: Path = FOLDER) -> Path:
    """The `bin` of the environment for `programs/NAME.txt`; made anew where that file has changed since.

    Raises NoEnvironmentError where uv is missing or can't install a package.
    """
    requirements = PROGRAMS / f"{name}.txt"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    place = (folder / name).absolute()
    made = place / MADE
    if made.is_file() and made.read_text("utf-8") == wanted:
        return place / "bin"
    uv = shutil.which("uv")
    if uv is None:
        raise NoEnvironmentError("uv is not installed, expected it in PATH: `make setup-run` puts it into .tools/bin")
    _run(name, uv, "venv", "--clear", "--python", sys.executable, str(place))
    _run(name, uv, "pip", "sync", "--python", str(place / "bin" / "python"), str(requirements))
    made.write_text(wanted, "utf-8")  # last: an environment that is half made has none
    return place / "bin"


def _run(name: str, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NoEnvironmentError(
            f"the environment of {name} took more than {TIMEOUT_S} s: look at the network"
        ) from None
    if done.returncode != 0:
        why = " ".join(done.stderr.split())[-300:]
        raise NoEnvironmentError(f"the environment of {name} can't be made: {why}")


def version(name: str) -> str:
    """The version of a server that its list of packages has."""
    lines = (PROGRAMS / f"{name}.txt").read_text("utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))
