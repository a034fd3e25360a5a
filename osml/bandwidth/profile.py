"""What profiling a service found: its tail latency over request rates, one line for each reserved bandwidth.

This is the first prediction graph of OMBM (section 3.2, figure 5) and the file that keeps it (JSON).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from osml.base.failure import InputError
from osml.base.json_file import NO_JSON
from osml.domain import Percentile

MAX_BYTES = 4 * 2**20
_Text = Annotated[str, Meta(max_length=500)]


class Point(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One profiling: the tail latency in ms at a request rate.

    One that is not `measured` stands for the line below it, which was calm at this rate: so is this one.
    """

    qps: float
    latency_ms: float
    measured: bool = True


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """Profilings with the same bandwidth reserved for the service, by ascending rate."""

    bandwidth_gbps: float
    points: list[Point]


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """A service on a platform, beside STREAM on all other cores.

    `method` is how the samples were chosen: "classic" (algorithm 1; predictions by straight lines, as in the paper) or
    "adaptive" (predictions along equal latencies). It was profiled on `cores` units of `core_quantum` logical CPUs with
    `ways` of the cache, and `peak_gbps` is the bandwidth of the machine. Lines ascend by bandwidth. `run_s` is the
    length of one measurement in seconds, from which adaptive predictions tell a backlog; None where it is not known.
    """

    service: Annotated[str, Meta(min_length=1, max_length=63)]
    platform: Annotated[str, Meta(min_length=1, max_length=200)]
    method: Literal["classic", "adaptive"]
    percentile: Percentile
    cores: Annotated[int, Meta(ge=1, le=16_384)]
    ways: Annotated[int, Meta(ge=0, le=64)]
    peak_gbps: float
    lines: list[Line]
    simulated: bool
    source: _Text = ""
    run_s: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    core_quantum: Annotated[float, Meta(ge=1e-3, le=1e3)] = 1.0
    schema: Literal["osml/bandwidth-profile/v1"] = "osml/bandwidth-profile/v1"

    @property
    def least_qps(self) -> float:
        """The lowest rate that every line covers."""
        return max(line.points[0].qps for line in self.lines)

    @property
    def most_qps(self) -> float:
        """The highest rate that every line covers."""
        return min(line.points[-1].qps for line in self.lines)

    def units(self, core_quantum: float) -> int:
        """As many CPUs as were profiled, in units of `core_quantum` logical CPUs."""
        return max(1, round(min(self.cores * self.core_quantum / core_quantum, 1e9)))

    @property
    def profilings(self) -> int:
        """How many measurements there are."""
        return sum(point.measured for line in self.lines for point in line.points)


def profile_error(profile: Profile) -> str | None:
    """What is wrong with a profile, in one sentence; None where it can be used.

    Latencies that fall with the rate or rise with the bandwidth are measurements, not mistakes: predictions take the
    worse one (`Predictor.notes` says so).
    """
    if not (math.isfinite(profile.peak_gbps) and profile.peak_gbps > 0):
        return f"peak_gbps is {profile.peak_gbps}, expected GB/s above 0"
    if len(profile.lines) < 2:
        return f"lines has {len(profile.lines)} bandwidth sample(s), expected at least 2: profile another bandwidth"
    last_gbps = 0.0
    for i, line in enumerate(profile.lines):
        where = f"lines[{i}]"
        if not (math.isfinite(line.bandwidth_gbps) and line.bandwidth_gbps > last_gbps):
            return f"{where}.bandwidth_gbps is {line.bandwidth_gbps}, expected more than {last_gbps:g} (ascending)"
        if line.bandwidth_gbps > profile.peak_gbps * 1.0001:
            return f"{where}.bandwidth_gbps is {line.bandwidth_gbps:g}, more than peak_gbps {profile.peak_gbps:g}"
        if len(line.points) < 2:
            return f"{where}.points has {len(line.points)} sample(s), expected at least 2 request rates"
        last_gbps, last_qps = line.bandwidth_gbps, 0.0
        for j, point in enumerate(line.points):
            if not (math.isfinite(point.qps) and point.qps > last_qps):
                return f"{where}.points[{j}].qps is {point.qps}, expected more than {last_qps:g} (ascending)"
            if not (math.isfinite(point.latency_ms) and point.latency_ms > 0):
                return f"{where}.points[{j}].latency_ms is {point.latency_ms}, expected ms above 0"
            last_qps = point.qps
    if profile.least_qps >= profile.most_qps:
        return "the lines share no range of request rates, expected every line to cover the same range"
    return None


def parse_profile(data: bytes, where: str) -> Profile:
    """A checked profile; InputError names the file and what is wrong."""
    if len(data) > MAX_BYTES:
        raise InputError(f"{where}: {len(data)} bytes, expected a profile of at most {MAX_BYTES}")
    try:
        profile = msgspec.json.decode(data, type=Profile)
    except NO_JSON as error:
        raise InputError(f"{where}: not a bandwidth profile ({error}); make one with `osml lab ombm profile`") from None
    wrong = profile_error(profile)
    if wrong is not None:
        raise InputError(f"{where}: {wrong}")
    return profile


def load_profile(path: Path) -> Profile:
    """The profile in a file; InputError where there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); make one with `osml lab ombm profile`") from None
    return parse_profile(data, str(path))


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile as readable JSON; InputError where that is not possible."""
    wrong = profile_error(profile)
    if wrong is not None:
        raise InputError(f"{path}: not written: {wrong}")
    text = msgspec.json.format(msgspec.json.encode(profile), indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
