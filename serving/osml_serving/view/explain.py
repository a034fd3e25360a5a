"""Why a node holds what it holds: its last decision, and for each LC service the way that led there, on its grid."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from osml.domain import Entropy, Forecast, Infeasible, Point, Reason
from osml_serving.view.history import NodeHistory
from osml_serving.view.interval import Cell, Interval, Now


class ModelInUse(Struct):
    """A model that the server decides with. `sha256` is that of its ONNX file."""

    name: str
    kind: str
    version: str
    platform: str
    sha256: str


class Grid(Struct):
    """What the node has to give, in the units of all cells here. A core is `core_quantum` logical CPUs."""

    id: str
    cores: int
    ways: int | None
    core_quantum: float


class Step(Struct):
    """One interval of one service.

    `latency_ms` was measured while it had `held` (None: nothing was applied then); `cell` is what it has from then on.
    `oaa`, `rcliff` and `rcliff_upper` are predictions, in core units; `action` is Model-C's (cores, ways).
    """

    seq: int
    at: float
    time_s: float
    held: Cell | None
    latency_ms: float | None
    target_ms: float | None
    cell: Cell
    oaa: Point | None
    rcliff: Point | None
    rcliff_upper: Point | None
    action: tuple[int, int] | None


class ServicePath(Struct):
    """One LC service: its cell now, what the models say of it (in core units), and the steps to here, oldest first."""

    name: str
    percentile: str
    target_ms: float | None
    latency_ms: float | None
    cores_max: int
    ways_max: int | None
    cell: Cell
    forecast: Forecast | None
    path: list[Step]


class Explanation(Struct):
    """The last decision of a node, with all that is known about how it came about.

    `forecasts` are the decision's, in logical CPUs; `models` are those that the server has for the node's platform.
    """

    node: str
    seq: int
    at: float
    time_s: float
    policy: str
    platform: Grid
    reasons: list[Reason]
    entropy: Entropy | None
    infeasible: Infeasible | None
    forecasts: list[Forecast]
    models: list[ModelInUse]
    services: list[ServicePath]


_interval = msgspec.json.Decoder(Interval)
_now = msgspec.json.Decoder(Now)


class TooLargeError(Exception):
    """The history has no interval of the node, because one is larger than a node may be among so many."""


def explain(node: str, history: NodeHistory, steps: int, models_of: Callable[[str], list[ModelInUse]]) -> Explanation:
    """The newest decision, with the last `steps` intervals of each LC service and the models of the node's platform."""
    intervals = [_interval.decode(encoded) for encoded in list(history.intervals)[-steps:]]
    if not intervals:
        raise TooLargeError
    now, last = _now.decode(history.now), intervals[-1]
    platform = now.platform
    grid = Grid(platform.id, platform.cores, platform.ways, platform.core_quantum)
    return Explanation(
        node=node,
        seq=last.seq,
        at=last.at,
        time_s=last.time_s,
        policy=last.policy,
        platform=grid,
        reasons=last.reasons,
        entropy=now.entropy,
        infeasible=now.infeasible,
        forecasts=last.forecasts,
        models=models_of(platform.id),
        services=[_path(s.name, intervals, grid) for s in last.services if s.kind == "lc"],
    )


def _path(name: str, intervals: list[Interval], grid: Grid) -> ServicePath:
    path: list[Step] = []
    forecast: Forecast | None = None
    percentile = ""
    for interval in intervals:
        service = next((s for s in interval.services if s.name == name), None)
        if service is None:
            continue  # it was not there yet
        percentile = service.percentile
        forecast = next((_in_units(f, grid) for f in interval.forecasts if f.service == name), None)
        path.append(
            Step(
                seq=interval.seq,
                at=interval.at,
                time_s=interval.time_s,
                held=service.held,
                latency_ms=service.latency_ms,
                target_ms=service.target_ms,
                cell=Cell(service.cores, service.ways),
                oaa=forecast and forecast.oaa,
                rcliff=forecast and forecast.rcliff,
                rcliff_upper=forecast and forecast.rcliff_upper,
                action=forecast and forecast.action,
            )
        )
    last = path[-1]
    return ServicePath(
        name, percentile, last.target_ms, last.latency_ms, grid.cores, grid.ways, last.cell, forecast, path
    )


def _in_units(forecast: Forecast, grid: Grid) -> Forecast:
    """A forecast in core units instead of logical CPUs."""
    if grid.core_quantum == 1:
        return forecast

    def units(place: Point) -> Point:
        return Point(place.cores / grid.core_quantum, place.ways)

    return msgspec.structs.replace(
        forecast,
        oaa=units(forecast.oaa),
        rcliff=units(forecast.rcliff),
        rcliff_upper=units(forecast.rcliff_upper),
    )
