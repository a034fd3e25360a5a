"""What a training made, and the command that made it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osml.base.masking import masked


@dataclass(frozen=True)
class Made:
    """What came of a job: the folder of the model, its evaluation, what should be looked at."""

    folder: Path
    document: dict[str, Any]
    warnings: list[str]


def command_line() -> str:
    """The command that runs now, as one would type it, but for passwords in addresses."""
    program = Path(sys.argv[0]).name.replace("__main__.py", "osml")
    return masked(" ".join([program, *sys.argv[1:]]))
