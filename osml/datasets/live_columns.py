"""The columns of `traces.parquet`: name, type, unit, meaning, where from. data/observation.schema.json is made of them.

Run `python -m osml.datasets.live_columns > data/observation.schema.json` after a change; a test compares both.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

SCHEMA = "osml/traces/v1"


class Column(NamedTuple):
    """One column. `nullable`: null means that it was not measured or does not exist on this node, never 0."""

    name: str
    type: str  # string | int64 | double
    unit: str | None
    meaning: str
    source: str  # observation | decision | generator | trial
    nullable: bool = True


COLUMNS = (
    Column("phase", "string", None, "phase of the trial: unmanaged or managed", "trial", False),
    Column("policy", "string", None, "policy that decided", "decision", False),
    Column("node", "string", None, "name of the node", "observation", False),
    Column("seq", "int64", None, "number of the observation, counted by the agent", "observation", False),
    Column("time_s", "double", "s", "node time (monotonic, any origin)", "observation", False),
    Column("interval_s", "double", "s", "time since the last observation", "observation", False),
    Column("platform", "string", None, "id of the platform", "observation", False),
    Column("platform_cores", "int64", "core units", "capacity of the node", "observation", False),
    Column("core_quantum", "double", "logical CPUs", "size of a core unit", "observation", False),
    Column("platform_ways", "int64", "ways", "LLC ways; null where the cache cannot be partitioned", "observation"),
    Column("service", "string", None, "name of the service", "observation", False),
    Column("class", "string", None, "lc (latency-critical) or be (best-effort)", "observation", False),
    Column("target_ms", "double", "ms", "latency target at `percentile`; null for be", "observation"),
    Column("percentile", "string", None, "percentile that the target is set for: p50, p95, p99, mean", "observation"),
    Column("ideal_ms", "double", "ms", "latency at `percentile` when the service runs alone", "observation"),
    Column("work_rate_solo", "double", "work/s", "speed of a be job alone, in the unit of work_rate", "observation"),
    Column("ipc_solo", "double", "1", "instructions per cycle of a be job alone", "observation"),
    Column("mean_ms", "double", "ms", "mean latency, from the scheduled time of each request", "observation"),
    Column("p50_ms", "double", "ms", "median latency", "observation"),
    Column("p95_ms", "double", "ms", "95th percentile of latency", "observation"),
    Column("p99_ms", "double", "ms", "99th percentile of latency", "observation"),
    Column("requests_per_s", "double", "1/s", "requests answered", "observation"),
    Column("samples", "int64", None, "latencies in the percentiles", "observation"),
    Column("age_s", "double", "s", "age of the newest latency sample", "observation"),
    Column("offered_per_s", "double", "1/s", "requests scheduled", "generator"),
    Column("lateness_p99_ms", "double", "ms", "delay of the generator's sends, 99th percentile", "generator"),
    Column("errors", "int64", None, "requests refused, lost or abandoned; failed connects", "generator"),
    Column("waiting", "int64", None, "due requests that wait for a free connection", "generator"),
    Column("cpu_usage_cores", "double", "logical CPUs", "CPU time over wall time", "observation"),
    Column("throttled_s", "double", "s", "time throttled by CPU quota in the interval", "observation"),
    Column("threads", "int64", None, "threads", "observation"),
    Column("instructions", "double", None, "instructions in the interval", "observation"),
    Column("cycles", "double", None, "cycles in the interval", "observation"),
    Column("ipc", "double", "1", "instructions per cycle", "observation"),
    Column("llc_misses", "double", None, "last-level cache misses in the interval", "observation"),
    Column("llc_occupancy_mib", "double", "MiB", "last-level cache held", "observation"),
    Column("bandwidth_gbps", "double", "GB/s", "local memory traffic", "observation"),
    Column("bandwidth_total_gbps", "double", "GB/s", "memory traffic, remote included", "observation"),
    Column("frequency_ghz", "double", "GHz", "mean frequency", "observation"),
    Column("rss_mib", "double", "MiB", "resident memory", "observation"),
    Column("vms_mib", "double", "MiB", "virtual memory", "observation"),
    Column("disk_iops", "double", "1/s", "reads from disk", "observation"),
    Column("network_mbps", "double", "Mbit/s", "sent", "observation"),
    Column("work_rate", "double", "work/s", "progress of a be job; of `osml run live`: cpu-seconds/s", "observation"),
    Column("run_delay_s", "double", "s", "its threads were ready and had no CPU, sum over threads", "observation"),
    Column("switches", "double", None, "times that a thread was put on a CPU in the interval", "observation"),
    Column("cpu_pressure", "double", "1", "share of the interval in which a task waited for a CPU", "observation"),
    Column("memory_pressure", "double", "1", "share of the interval in which a task waited for memory", "observation"),
    Column("io_pressure", "double", "1", "share of the interval in which a task waited for disks", "observation"),
    Column("steal", "double", "1", "share of CPU time that a hypervisor gave to others, of the machine", "observation"),
    Column("cpus", "string", None, "CPU list in force during the interval, read back", "observation"),
    Column("cpu_quota", "double", "logical CPUs", "CPU quota in force, read back", "observation"),
    Column("cpu_weight", "int64", None, "CPU weight in force (cgroup v2's scale), read back", "observation"),
    Column("way_mask", "string", None, "LLC way mask in force (hexadecimal), read back", "observation"),
    Column("beside_cores", "double", "logical CPUs", "CPUs that all others can use, shared ones once", "observation"),
    Column("beside_ways", "double", "ways", "LLC ways that all others can use, shared ones once", "observation"),
    Column("mba", "int64", "platform's", "memory-bandwidth throttle in force, read back", "observation"),
    Column("knobs", "string", None, "frequency, memory, disk, network, priority in force (JSON)", "observation"),
    Column("next_cores", "int64", "core units", "core units within reach after the decision", "decision", False),
    Column("next_ways", "int64", "ways", "ways within reach after the decision", "decision"),
    Column("e_lc", "double", "1", "entropy of the latency-critical services, 0 to 1", "decision"),
    Column("e_be", "double", "1", "entropy of the best-effort jobs, 0 to 1", "decision"),
    Column("e_s", "double", "1", "system entropy, 0 to 1", "decision"),
)


def document() -> dict[str, Any]:
    """The published description of the columns."""
    return {
        "schema": SCHEMA,
        "title": "Traces of `osml run live`: one row for each service and interval",
        "compression": "zstd",
        "null": "not measured, or does not exist on this node; never 0",
        "metadata": "the file's key-value metadata has `osml.schema` (this schema's name) and `osml.provenance` (JSON)",
        "columns": [column._asdict() for column in COLUMNS],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=1) + "\n")
