"""What the models said of a service, beside the decision that came of it."""

from __future__ import annotations

from msgspec import Struct


class Point(Struct, frozen=True, forbid_unknown_fields=True):
    """An allocation as a model predicts it: logical CPUs and ways, not rounded."""

    cores: float
    ways: float


class Forecast(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the good allocation (OAA) and the cliff (RCliff) of one service are, by a model.

    With the share `coverage` of all services like this one the cliff is not above `rcliff_upper` (conformal bound).
    Not `familiar`: something was measured outside of what the model was trained on. `action` (cores, ways) is what
    Model-C chose, of the value `q`; None where it was not asked.
    """

    service: str
    model: str
    rcliff: Point
    rcliff_upper: Point
    oaa: Point
    coverage: float
    familiar: bool = True
    oaa_bandwidth_gbps: float | None = None
    action: tuple[int, int] | None = None
    q: float | None = None
