"""What a run of a program says besides its counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Load:
    """How a server was asked while it was measured. Times of the CPU are per request, in ms; None: not measured.

    `native` ones are of the same program without instrumentation, just before, and
    `native_user_share` is the part of its time outside of the kernel.
    """

    utilisation: float
    rate: float
    cpu_ms: float
    native_rate: float
    native_cpu_ms: float
    native_user_share: float | None
    requests: int
    errors: int


@dataclass
class Outcome:
    """A run: the report of osml-stackdist, how long it took, and what is special about it.

    `whole` is true for a program that was measured from its first instruction to its last. `complete` is false where
    Ctrl-C ended the run. `requests` are those of the measured stretch; None where nobody counted them.
    """

    report: dict[str, Any]
    seconds: float
    whole: bool
    complete: bool = True
    requests: int | None = None
    load: Load | None = None
    exit_code: int | None = None
    notes: list[str] = field(default_factory=list[str])
