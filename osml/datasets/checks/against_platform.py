"""Rows against the description of their machine, and against each other: what cannot both be true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.datasets.arrow import numbers
from osml.datasets.checks.columns import unit_hint
from osml.datasets.checks.finding import Finding, Place, Severity
from osml.datasets.description import Fingerprint

Floats = NDArray[np.float64]
Read = Callable[[str], Floats]

MISSING = ("logical_cpus", "cpu_model", "kernel")
"""Of a real machine's description these should be known."""


_SLACK = 1.05
"""So much more than there is a sensor may say: clocks, bandwidth and CPU time are averages of short samples."""


_USED = 0.05
"""In the right unit the largest number of a group is at least so much of its limit: else the limit is wrong."""


class MachineLimit(NamedTuple):
    """`most` of what is in `column`, the same for all rows; None says nothing."""

    column: str
    what: str
    most: float | None


class _Limit(NamedTuple):
    """`most` of what is in `column`, row by row; None and NaN say nothing."""

    column: str
    what: str
    most: Floats | float | None
    severity: Severity = "error"


def machine_limits(p: Fingerprint) -> list[MachineLimit]:
    """What no row of this machine passes."""
    traffic = f"platform's bandwidth, times {_SLACK}"
    return [
        MachineLimit("cores", "CPUs of the platform", p.logical_cpus),
        MachineLimit("ways", "ways of the platform", p.llc_ways),
        MachineLimit("cache_mib", "cache of the platform", _times(p.llc_mib, 1.01)),
        MachineLimit("bandwidth_gbps", traffic, _times(p.bandwidth_gbps, _SLACK)),
        MachineLimit("neighbour_bandwidth_gbps", traffic, _times(p.bandwidth_gbps, _SLACK)),
        MachineLimit("frequency_ghz", f"platform's turbo, times {_SLACK}", _times(p.turbo_ghz, _SLACK)),
        MachineLimit("rss_mib", "memory of the platform", _times(p.memory_gib, 1024.0)),
        MachineLimit("llc_occupancy_mib", f"cache of the platform, times {_SLACK}", _times(p.llc_mib, _SLACK)),
    ]


def _row_limits(read: Read, p: Fingerprint) -> list[_Limit]:
    """What follows from the other columns of a row."""
    cores = read("cores")
    return [
        _Limit("neighbour_cores", "CPUs that the service does not use", _rest(p.logical_cpus, cores), "warning"),
        _Limit("neighbour_ways", "ways that the service does not use", _rest(p.llc_ways, read("ways")), "warning"),
        _Limit("cpu_usage_cores", f"CPUs allocated, times {_SLACK} and 0.05", _SLACK * cores + 0.05),
        _Limit("rss_mib", "virtual memory", 1.001 * read("vms_mib") + 1.0),
        _Limit("p50_ms", "p95_ms", read("p95_ms") * 1.0001),
        _Limit("p95_ms", "p99_ms", read("p99_ms") * 1.0001),
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _rest(total: int | None, own: Floats) -> Floats | None:
    if total is None:
        return None
    left = total - own
    # Whoever may use all shares it with who is beside; whoever has more than there is, is found by that.
    return np.where(left <= 0, np.nan, left + 0.01)


def check_same(dataset: Fingerprint, file: Fingerprint, place: Place) -> Iterator[Finding]:
    """The two descriptions of a machine, of dataset.json and of a traces file; None says nothing."""
    for name in Fingerprint.__struct_fields__:
        said, found = getattr(dataset, name), getattr(file, name)
        if said is not None and found is not None and said != found:
            yield place.error(None, f"{name} of '{file.id}' is {found} in this file, but {said} in dataset.json")


def check_rows(table: Any, platform: Fingerprint, place: Place) -> Iterator[Finding]:
    """Upper limits by the platform and by the other columns of the same row; the smaller checks stand on their own."""
    names = set(table.column_names)

    def read(name: str) -> Floats:
        return numbers(table, name) if name in names else np.full(len(table), np.nan)

    for limit in (*(_Limit(*one) for one in machine_limits(platform)), *_row_limits(read, platform)):
        if limit.column not in names or limit.most is None:
            continue
        values, most = read(limit.column), np.broadcast_to(np.asarray(limit.most, np.float64), len(table))
        beyond: NDArray[np.int64] = np.nonzero(values > most)[0]
        if len(beyond):
            worst = int(beyond[np.argmax(values[beyond] - most[beyond])])
            value, allowed = float(values[worst]), float(most[worst])
            message = f"{len(beyond)} rows are above the {limit.what}, such as {value:g} above {allowed:g}"
            message += unit_hint(limit.column, value, _USED * allowed, allowed)
            yield Finding(limit.severity, place.file, place.row_group, limit.column, message)
    yield from _products(read, platform, place)


def _products(read: Read, platform: Fingerprint, place: Place) -> Iterator[Finding]:
    """Columns that follow from others."""
    for cache, ways in (("cache_mib", "ways"), ("neighbour_cache_mib", "neighbour_ways")):
        if platform.way_mib is not None:
            yield from _equal(read(cache), read(ways) * platform.way_mib, cache, f"{ways} x way_mib", 0.02, 0.05, place)
    rate = read("requests") / read("interval_s")
    yield from _equal(read("requests_per_s"), rate, "requests_per_s", "requests / interval_s", 0.05, 1.0, place)


def _equal(
    found: Floats, wanted: Floats, column: str, what: str, relative: float, absolute: float, place: Place
) -> Iterator[Finding]:
    off: NDArray[np.int64] = np.nonzero(np.abs(found - wanted) > relative * np.abs(wanted) + absolute)[0]
    if len(off):
        first = int(off[0])
        yield place.error(
            column,
            f"{len(off)} rows are not {what}, such as {found[first]:g} against {wanted[first]:g}"
            + unit_hint(column, float(found[first]), 0.9 * float(wanted[first]), 1.1 * float(wanted[first])),
        )


def check_description(platform: Fingerprint, kind: str, place: Place) -> Iterator[Finding]:
    """The description of the machine in itself."""
    if platform.logical_cpus is None:
        yield place.error(None, f"platform '{platform.id}': logical_cpus is missing, labels need it")
    if platform.logical_cpus and platform.physical_cores and platform.logical_cpus < platform.physical_cores:
        yield place.error(
            None, f"platform '{platform.id}': {platform.logical_cpus} logical CPUs on {platform.physical_cores} cores"
        )
    if platform.llc_mib and platform.llc_ways and platform.way_mib:
        product = platform.llc_ways * platform.way_mib
        if abs(product - platform.llc_mib) > 0.02 * platform.llc_mib:
            yield place.error(
                None,
                f"platform '{platform.id}': {platform.llc_ways} ways of {platform.way_mib:g} MiB are "
                f"{product:g} MiB, but llc_mib is {platform.llc_mib:g}",
            )
    if kind == "real":
        for name in MISSING:
            if getattr(platform, name) is None:
                yield place.warning(
                    None, f"platform '{platform.id}': {name} is missing, needed to group data sets by it"
                )
