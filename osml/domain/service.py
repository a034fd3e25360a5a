"""A service or job on the node, and what was measured of it. A missing measurement is None, never 0."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from osml.domain.platform import Name, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Share

Percentile = Literal["p50", "p95", "p99", "mean"]
Source = Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[ -~]*\Z")]  # "pod NAMESPACE/NAME"


class Latency(Struct, frozen=True, forbid_unknown_fields=True):
    """Response times over the last interval. `age_s` is how old the newest sample is; stale latencies are not sent."""

    mean_ms: NonNegativeFloat | None = None
    p50_ms: NonNegativeFloat | None = None
    p95_ms: NonNegativeFloat | None = None
    p99_ms: NonNegativeFloat | None = None
    requests_per_s: NonNegativeFloat | None = None
    samples: NonNegativeInt | None = None
    age_s: NonNegativeFloat | None = None

    def at(self, percentile: Percentile) -> float | None:
        """Latency in ms at the percentile that a target is set for."""
        if percentile == "p99":
            return self.p99_ms
        if percentile == "p95":
            return self.p95_ms
        return self.p50_ms if percentile == "p50" else self.mean_ms


class Counters(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource use over the last interval."""

    cpu_usage_cores: NonNegativeFloat | None = None  # CPU time over wall time, in logical CPUs
    throttled_s: NonNegativeFloat | None = None  # time spent throttled by CPU quota in the interval
    threads: NonNegativeInt | None = None
    instructions: NonNegativeFloat | None = None  # count in the interval
    cycles: NonNegativeFloat | None = None
    ipc: NonNegativeFloat | None = None
    llc_misses: NonNegativeFloat | None = None
    llc_occupancy_mib: NonNegativeFloat | None = None
    bandwidth_gbps: NonNegativeFloat | None = None  # local memory traffic
    bandwidth_total_gbps: NonNegativeFloat | None = None
    frequency_ghz: NonNegativeFloat | None = None
    rss_mib: NonNegativeFloat | None = None
    vms_mib: NonNegativeFloat | None = None
    disk_iops: NonNegativeFloat | None = None  # reads per second
    network_mbps: NonNegativeFloat | None = None  # sent
    work_rate: NonNegativeFloat | None = None  # a BE job's own progress per second, in its own unit
    run_delay_s: NonNegativeFloat | None = None  # its threads were ready and had no CPU, throttled time included; sum
    switches: NonNegativeFloat | None = None  # times that a thread was put on a CPU in the interval
    cpu_pressure: Share | None = None  # share of the interval in which a task waited for a CPU, throttled or not
    memory_pressure: Share | None = None  # share of the interval in which a task waited for memory
    io_pressure: Share | None = None  # share of the interval in which a task waited for disks


class Service(Struct, frozen=True, forbid_unknown_fields=True):
    """One tenant of the node. LC services have `target_ms` at `percentile`; BE jobs have a solo speed to compare with.

    `ideal_ms` is the tail latency without interference (Ah-Q, TL_i0). `min_cores`/`max_cores`/`min_ways`/`max_ways`
    are the operator's limits, in core units and ways.
    """

    name: Name
    kind: Literal["lc", "be"] = field(name="class")
    target_ms: PositiveFloat | None = None
    percentile: Percentile = "p99"
    ideal_ms: PositiveFloat | None = None
    ipc_solo: PositiveFloat | None = None
    work_rate_solo: PositiveFloat | None = None
    min_cores: PositiveInt = 1
    max_cores: PositiveInt | None = None
    min_ways: PositiveInt = 1
    max_ways: PositiveInt | None = None
    latency: Latency | None = None
    counters: Counters = Counters()
    source: Source | None = None  # who asked for it on the node; None: the agent's configuration

    @property
    def latency_ms(self) -> float | None:
        """The measured latency that the target is compared with, ms."""
        latency = self.latency
        return None if latency is None else latency.at(self.percentile)

    @property
    def slack(self) -> float | None:
        """(target - latency)/target: negative means a QoS violation. None where latency or target is missing."""
        latency_ms, target_ms = self.latency_ms, self.target_ms
        if latency_ms is None or target_ms is None:
            return None
        return (target_ms - latency_ms) / target_ms

    @property
    def slowdown(self) -> float | None:
        """Solo speed over real speed of a BE job, >= 1; None where not measured.

        Its rate of work where that is known, else its IPC: IPC per cycle does not see that a job lost cores (a
        bandwidth-bound job has a higher IPC on one core than on all).
        """
        for solo, real in ((self.work_rate_solo, self.counters.work_rate), (self.ipc_solo, self.counters.ipc)):
            if solo is not None and real is not None:
                return float("inf") if real == 0 else max(1.0, solo / real)
        return None
