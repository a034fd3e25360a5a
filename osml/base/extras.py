"""How to install what an optional part needs: one command for the environment that osml runs in."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDERS = {"osml": ".", "osml-serving": "./serving", "osml-training": "./training"}


def how_to_install(*extras: str, package: str = "osml") -> str:
    """What to do to have a package of the checkout with these extras: "run `COMMAND` in the checkout of osml".

    An environment that uv made has no pip. There, another pip on PATH would install into another environment. `uv sync`
    fills the checkout's own environment `.venv`, and no other.
    """
    target = f"'{_FOLDERS[package]}{'[' + ','.join(extras) + ']' if extras else ''}'"
    prefix = Path(sys.prefix)
    if not _is_of_uv(prefix):
        command = f"{sys.executable} -m pip install {target}"
    elif prefix.name != ".venv" or not (prefix.parent / "serving" / "pyproject.toml").is_file():
        command = f"uv pip install --python {sys.executable} {target}"
    else:
        options = "".join(f" --extra {extra}" for extra in extras)
        command = f"uv sync --frozen --inexact --no-default-groups --package {package}{options}"
    return f"run `{command}` in the checkout of osml"


def _is_of_uv(environment: Path) -> bool:
    try:
        text = (environment / "pyvenv.cfg").read_text()
    except OSError:  # not a virtual environment
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in text.splitlines())
