"""Any platform and any services, for tests of what must hold always."""

from __future__ import annotations

from hypothesis import strategies as st

from osml.domain import Counters, KnobRange, Latency, MbaRange, Platform, Service

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]
amounts = st.one_of(st.none(), st.floats(0, 2e5))
knob_ranges = {
    "frequency_ghz": 2.2,
    "frequency_mhz": KnobRange(1200, 3600, 100),
    "memory_mib": KnobRange(1024, 120 * 1024, 1024),
    "disk_iops": KnobRange(13, 256, 13),
    "network_mbps": KnobRange(500, 3000, 500),
    "realtime": True,
}
EIGHTHS = MbaRange(1, 2048, 1, "eighth_gbps")
"""The throttle of AMD, whose way masks may have holes, too."""

latencies = st.one_of(st.none(), st.floats(0, 1e5), st.floats(8, 12))


@st.composite
def tenants(draw: st.DrawFn) -> list[Service]:
    services = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True)):
        least_cores, least_ways = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        limits = {
            "min_cores": least_cores,
            "min_ways": least_ways,
            "max_cores": draw(st.one_of(st.none(), st.integers(least_cores, 12))),
            "max_ways": draw(st.one_of(st.none(), st.integers(least_ways, 12))),
        }
        if draw(st.integers(0, 3)):
            limits = {}
        if draw(st.booleans()):
            target_ms = draw(st.sampled_from([1.0, 10.0, 100.0]))
            latency = Latency(p99_ms=draw(latencies))
            counters = Counters(rss_mib=draw(amounts), disk_iops=draw(amounts), network_mbps=draw(amounts))
            services.append(
                Service(name=name, kind="lc", target_ms=target_ms, latency=latency, counters=counters, **limits)
            )
        else:
            counters = Counters(ipc=draw(st.one_of(st.none(), st.floats(0, 3))))
            services.append(Service(name=name, kind="be", ipc_solo=1.0, counters=counters, **limits))
    return services


platforms = st.builds(
    lambda n_cpus, ways, floor, quantum, smt, groups, mba, knobs: Platform(
        id="p",
        cores=round(n_cpus / quantum),
        cpus=f"0-{n_cpus - 1}",
        core_quantum=quantum,
        siblings=[[i, i + n_cpus // 2] for i in range(n_cpus // 2)] if smt else [],
        ways=None if ways is None else max(ways, floor),
        min_way_bits=floor,
        max_groups=groups,
        mba=mba,
        sparse_masks=mba == EIGHTHS,
        **(knob_ranges if knobs else {}),
    ),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 20)),
    st.integers(1, 2),
    st.sampled_from([1.0, 0.1, 0.5]),
    st.booleans(),
    st.sampled_from([None, 4, 16]),
    st.sampled_from([None, MbaRange(10, 100, 10), EIGHTHS]),
    st.booleans(),
)
