"""Model-C sees the same of one situation in an observation, in the environment and in a row of traces."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("pyarrow")

from osml_training.collect.rows import schema_of, table_of
from osml_training.collect.sweep import Run, Sweep
from osml_training.dqn.state import PAPER, STATE, environment_state, trace_state
from osml_training.tables.example_rows import TraceColumns

from osml.domain import Observation, Partition, Region
from osml.predictors import FEATURES, feature_row
from osml.simulator import catalogs
from osml.simulator.closed_loop import describe, observed_service
from osml.simulator.colocation.config import EnvironmentConfig
from osml.simulator.colocation.episodes import Episode
from osml.simulator.colocation.nodes import ColocationNodes
from osml.simulator.engine import flows_of
from osml.simulator.fleet import EMPTY
from osml.simulator.measure import measure
from osml.simulator.models import on_platform
from osml.simulator.node_platform import domain_platform
from osml.simulator.state import Grant, Node
from osml.simulator.steady import MEASURED_S, steady_rows

PLATFORM = "e5-2697v4"
LOADS = {"moses": 0.4, "xapian": 0.4}  # these cells bear it: a growing queue would show when each way looks
CORES, WAYS = {"moses": 12, "xapian": 6}, {"moses": 8, "xapian": 3}


class Quiet:
    """The means of the noise of a monitor."""

    def poisson(self, mean: float) -> float:
        return round(mean)

    def dirichlet(self, weights: Any) -> Any:
        return np.asarray(weights) / np.sum(weights)

    def standard_normal(self) -> float:
        return 0.0


def _rest(given: dict[str, int], total: int, job: bool) -> int:
    return total - sum(given.values()) if job else 0


def _observed(job: bool) -> np.ndarray[Any, Any]:
    platform = catalogs.platform(PLATFORM)
    jobs = (on_platform(catalogs.job("stream"), platform),) if job else ()
    node = Node(platform, tuple(catalogs.service(name, PLATFORM) for name in LOADS), jobs)
    cores, ways = dict(CORES), dict(WAYS)
    if job:
        cores["stream"], ways["stream"] = _rest(CORES, platform.cpus, job), _rest(WAYS, platform.ways, job)
    grants: list[Grant] = []
    cpu = way = 0
    for name in node.names:
        cpus = frozenset(platform.cpu_order()[cpu : cpu + cores[name]])
        grants.append(Grant(cpus, ((1 << ways[name]) - 1) << way))
        cpu, way = cpu + cores[name], way + ways[name]
    flows = flows_of(node, steady_rows(node, grants, LOADS), MEASURED_S)
    quiet = cast(Any, Quiet())
    services = [
        observed_service(known, measure([flow], quiet))
        for known, flow in zip(describe(node, LOADS), flows, strict=True)
    ]
    regions = [Region([name], cores[name], ways[name]) for name in node.names]
    observation = Observation("n", 0, 0.0, 1.0, domain_platform(platform), services, partition=Partition(regions))
    return feature_row(observation, "moses", STATE)


def _in_environment(job: bool) -> np.ndarray[Any, Any]:
    config = EnvironmentConfig(
        platform=PLATFORM, services=("moses", "xapian"), jobs=("stream",), max_services=2, noise=False, warmup=60
    )
    nodes = ColocationNodes(config, 1)
    loads = np.full((3, config.horizon + 1), np.nan)
    loads[0], loads[1] = LOADS["moses"], LOADS["xapian"]
    if job:
        loads[2] = 0.0
    kinds = np.array([0, 1, 2 if job else EMPTY])
    cores, ways = (np.array([given["moses"], given["xapian"], 0]) for given in (CORES, WAYS))
    nodes.begin(np.zeros(1, np.int64), [Episode(kinds, loads, cores, ways, 0)])
    return environment_state(nodes.features)[0, 0]


def _in_traces(job: bool) -> np.ndarray[Any, Any]:
    platform = catalogs.platform(PLATFORM)
    sweep = Sweep((PLATFORM,), ("moses",), ("xapian",), samples=1, noise=False)
    jobs = ("stream",) if job else ()
    # What moses leaves, but for one each, goes to xapian and to the job, or to nobody.
    spare = [platform.cpus - CORES["moses"] - 1 - job, CORES["xapian"] - 1]
    shares = (float(spare[1]), float(spare[0] - spare[1]))
    shares = (*shares, 0.0) if job else shares
    run = Run(
        PLATFORM,
        "moses",
        catalogs.service("moses", PLATFORM).threads,
        LOADS["moses"],
        (("xapian", 0.4),),
        jobs,
        shares,
        0,
    )
    table = table_of(run, sweep, schema_of(sweep, PLATFORM))
    column = TraceColumns(table)
    rows = trace_state(column, column.latency())
    found = np.nonzero((column("cores") == CORES["moses"]) & (column("ways") == WAYS["moses"]))[0]
    return rows[found[0]]


@pytest.mark.parametrize("job", [False, True])
def test_three_ways_to_the_same_vector(job: bool) -> None:
    ways = {"observation": _observed(job), "environment": _in_environment(job), "traces": _in_traces(job)}
    counts = [STATE.index(name) for name in ("cores", "ways", "cache_mib", "neighbour_cores", "neighbour_ways")]
    for name, found in ways.items():
        assert np.isfinite(found).all(), name
        np.testing.assert_array_equal(found[counts], ways["observation"][counts], err_msg=name)
        # Caches fill over seconds in the environment, and are taken as settled elsewhere.
        np.testing.assert_allclose(found, ways["observation"], rtol=0.03, err_msg=f"{name}: {STATE}")


def test_the_paper_s_inputs_are_eight_and_all_can_be_observed() -> None:
    assert len(PAPER) == 8
    assert set(PAPER) < set(STATE)
    assert set(STATE) <= set(FEATURES)


def test_what_was_not_measured_is_missing() -> None:
    nothing = environment_state(np.zeros(26, np.float32))
    assert np.isnan(nothing[[STATE.index(n) for n in ("latency_ms", "mean_ms", "requests_per_s", "ipc")]]).all()
    assert nothing[STATE.index("cores")] == 0
    observation = Observation(
        "n",
        0,
        0.0,
        1.0,
        domain_platform(catalogs.platform(PLATFORM)),
        describe(Node(catalogs.platform(PLATFORM), (catalogs.service("moses", PLATFORM),)), LOADS),
    )
    unmeasured = feature_row(observation, "moses", STATE)
    latencies = [STATE.index(name) for name in ("latency_ms", "mean_ms", "latency_over_target", "requests_per_s")]
    assert np.isnan(unmeasured[latencies]).all()
