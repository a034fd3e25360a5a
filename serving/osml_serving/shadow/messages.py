"""What goes between the server and the process of the shadow policies."""

from __future__ import annotations

from msgspec import Struct


class Task(Struct):
    """One interval of one node: a line of JSON, then the observation and its decision as they were on the wire."""

    policies: list[str]
    observation_bytes: int
    decision_bytes: int


class Shadowed(Struct, omit_defaults=True):
    """What a shadow policy would have decided in one interval, beside what was decided.

    `cores` and `ways` are what changes hands between the two: half of the sum of absolute differences, in core units
    and ways. `lc_cores` is how many more core units the shadow policy gives to LC services. `e_s` and `e_s_decided` are
    predicted by the node's twin; None without one. `failed` says why there is no decision.
    """

    node: str
    policy: str
    seq: int
    cores: float = 0.0
    ways: float = 0.0
    lc_cores: float = 0.0
    infeasible: bool = False
    reasons: list[str] = []
    e_s: float | None = None
    e_s_decided: float | None = None
    failed: str | None = None

    @property
    def same(self) -> bool:
        """True where it would have decided the same cores and ways."""
        return self.failed is None and self.cores == 0 and self.ways == 0
