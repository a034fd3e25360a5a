"""What goes between the server and the process of a slow policy: one line of JSON each way."""

from __future__ import annotations

from msgspec import Struct

from osml.domain import Decision
from osml_serving.errors import ErrorBody


class Started(Struct):
    """First line of the process: the policy can decide, or why it cannot."""

    fault: str | None = None
    detail: str = ""


class Reply(Struct, omit_defaults=True):
    """The answer to one observation. `cpu_s` is what it cost.

    `detail` is for the log: why the policy failed, or could not use its state.
    """

    cpu_s: float
    decision: Decision | None = None
    status: int = 200
    refused: ErrorBody | None = None
    failed: str | None = None
    detail: str = ""
