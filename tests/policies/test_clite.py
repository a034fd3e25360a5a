"""CLITE (HPCA 2020): its score, bootstrap, windows, model and ends, one by one; and whole runs."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.special import gamma, kv

from osml.allocation.compositions import Cut
from osml.base.failure import MachineError
from osml.decide.decide import decide
from osml.decide.registry import load_policy
from osml.decide.state import open_state, seal_state
from osml.domain import Counters, Latency, Observation, Outcome, Partition, Platform, Region, Service
from osml.policies.clite import surrogate
from osml.policies.clite.policy import Clite, CliteState
from osml.policies.clite.score import score
from osml.policies.clite.search import MAX_SAMPLES, Sample, bootstrap, propose
from osml.policies.clite.space import Kept, Space
from osml.policies.clite.surrogate import EXPLORATION, Surrogate
from osml.simulator import catalogs
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.state import Node
from osml.simulator.surface import tail_ms
from tests.kit.toy_node import Tenant, ToyNode

PLATFORM = Platform(id="p", cores=12, cpus="0-11", ways=12)
CUTS = [Cut(["a", "b", "c", ""], 12, [1] * 4, [12] * 4), Cut(["a", "b", "c", ""], 10, [1] * 4, [10] * 4)]


def lc(name: str, p99_ms: float | None, target_ms: float = 10.0, rate: float | None = None, **more: object) -> Service:
    latency = Latency(p99_ms=p99_ms, requests_per_s=rate)
    return Service(name=name, kind="lc", target_ms=target_ms, latency=latency, **more)


def be(ipc: float | None = 1.0) -> Service:
    return Service("job", "be", ipc_solo=2.0, counters=Counters(ipc=ipc))


class Bench:
    """Feeds chosen services to the policy, one interval after the other."""

    def __init__(self, interval_s: float = 1.0, platform: Platform = PLATFORM) -> None:
        self.time_s, self.interval_s, self.platform, self.seq = 50.0, interval_s, platform, 0
        self.decision = None

    def step(self, services: list[Service], **more: object) -> Partition:
        partition = None if self.decision is None else self.decision.partition
        state = None if self.decision is None else self.decision.policy_state
        observation = Observation(
            "n",
            self.seq,
            self.time_s,
            self.interval_s,
            self.platform,
            services,
            policy="clite",
            partition=partition,
            policy_state=state,
        )
        self.decision = decide(replace(observation, **more), seed=1)
        self.time_s += self.interval_s
        self.seq += 1
        return self.decision.partition

    @property
    def state(self) -> CliteState:
        assert self.decision is not None
        return open_state(self.decision.policy_state or "", load_policy("clite"))[0]

    @property
    def words(self) -> str:
        assert self.decision is not None
        return "; ".join(reason.text for reason in self.decision.reasons)

    def until_holding(self, services: list[Service]) -> None:
        for _ in range(400):
            self.step(services)
            if self.state.holding:
                return
        pytest.fail("sampling did not end")


def parts(partition: Partition, *names: str) -> list[tuple[int, int]]:
    return [(partition.cores_of(name), partition.ways_of(name)) for name in names]


def test_the_score_while_targets_are_missed_is_half_the_mean_of_target_ratios() -> None:
    services = [lc("a", 40.0), lc("b", 5.0), be()]
    assert score(services) == pytest.approx(0.5 * (0.25 * 1.0) ** 0.5)


def test_the_score_with_all_targets_met_is_the_performance_of_jobs_or_of_services_without_them() -> None:
    assert score([lc("a", 9.0), be(ipc=0.5)]) == pytest.approx(0.5 + 0.5 * 0.25)
    both = [lc("a", 8.0, ideal_ms=2.0), lc("b", 4.0, ideal_ms=4.0)]
    assert score(both) == pytest.approx(0.5 + 0.5 * (0.25 * 1.0) ** 0.5)
    assert score([lc("a", 4.0)]) == pytest.approx(0.5 + 0.5 * 0.6)  # no ideal known: the slack


def test_no_score_without_all_latencies_and_a_job_that_stands_still_is_no_division_by_zero() -> None:
    assert score([lc("a", 9.0), lc("b", None)]) is None
    assert score([be(ipc=None)]) is None
    assert 0.5 <= (score([lc("a", 9.0), be(ipc=0.0)]) or 0.0) < 0.51


def test_it_bootstraps_with_the_equal_split_and_then_the_most_for_each_part_two_seconds_each() -> None:
    bench, services = Bench(), [lc("a", 5.0, ideal_ms=1.0), lc("b", 5.0, ideal_ms=1.0), be()]
    seen = [parts(bench.step(services), "a", "b", "job") for _ in range(8)]
    assert seen[0] == seen[1] == [(4, 4)] * 3
    assert seen[2] == seen[3] == [(10, 10), (1, 1), (1, 1)]
    assert seen[4] == seen[5] == [(1, 1), (10, 10), (1, 1)]
    assert seen[6] == seen[7] == [(1, 1), (1, 1), (10, 10)]


@pytest.mark.parametrize(("interval_s", "intervals"), [(0.5, 4), (1.0, 2), (2.0, 1), (10.0, 1)])
def test_the_window_is_two_seconds_whatever_the_interval(interval_s: float, intervals: int) -> None:
    bench, services = Bench(interval_s), [lc("a", 5.0), lc("b", 5.0)]
    seen = [bench.step(services) for _ in range(2 * intervals)]
    assert seen[0] == seen[intervals - 1] != seen[intervals]


def test_extremes_and_equal_parts_keep_the_operator_s_limits() -> None:
    cuts = [Cut(["a", "b", ""], 12, [2, 1, 1], [5, 12, 12])]
    assert [point.ravel().tolist() for point in bootstrap(Space(cuts))] == [[4, 4, 4], [5, 4, 3], [2, 9, 1], [2, 1, 9]]


def test_a_sample_without_a_measurement_is_not_used() -> None:
    bench, blind = Bench(), [lc("a", 5.0), lc("b", None)]
    for _ in range(5):
        bench.step(blind)
    assert [sample.score for sample in bench.state.samples] == [None]
    assert "not used: no latency of b" in bench.words
    bench.until_holding(blind)
    assert "equal parts until latencies are measured" in bench.words
    bench.step([lc("a", 5.0), lc("b", 5.0)])
    assert "all latencies are measured again" in bench.words
    assert not bench.state.holding


def test_what_is_refused_twice_is_not_asked_for_again() -> None:
    bench, services = Bench(), [lc("a", 5.0), lc("b", 5.0), lc("c", 5.0)]
    first = bench.step(services)
    for _ in range(2):
        bench.step(services)
    wanted = bench.state.point
    assert bench.step(services, partition=first, outcome=Outcome(2, "refused", "no")) is not None
    assert bench.state.point == wanted
    bench.step(services, partition=first, outcome=Outcome(3, "refused", "no"))
    assert bench.state.point != wanted
    assert Sample(wanted, None) in bench.state.samples
    bench.until_holding(services)
    assert sum(sample.units == wanted for sample in bench.state.samples) == 1
    assert bench.state.point != wanted


def test_an_agent_that_refuses_all_first_samples_is_named_as_the_reason() -> None:
    bench, services = Bench(), [lc("a", 5.0), lc("b", 5.0)]
    bench.step(services)
    stays = Partition([Region(["a"], 7, 5), Region(["b"], 5, 7)])
    for seq in range(60):
        bench.step(services, partition=stays, outcome=Outcome(seq, "refused", "no"))
        if bench.state.holding:
            break
    assert "none of the first samples was both applied and measured" in bench.words


def test_nothing_applied_asks_for_the_same_again() -> None:
    bench, services = Bench(), [lc("a", 5.0), lc("b", 5.0)]
    first = bench.step(services)
    for _ in range(5):
        assert bench.step(services, partition=None) == first


def test_after_sampling_the_best_stays() -> None:
    bench, services = Bench(), [lc("a", 5.0, ideal_ms=4.9), lc("b", 5.0, ideal_ms=4.9)]
    bench.until_holding(services)
    best = max(bench.state.samples, key=lambda sample: sample.score or 0.0)
    assert bench.state.point == best.units
    held = bench.decision.partition
    assert [bench.step(services) for _ in range(20)] == [held] * 20
    assert "all targets met" in bench.words


def held_bench(rate: float | None = None) -> tuple[Bench, list[Service]]:
    bench, good = Bench(), [lc("a", 5.0, ideal_ms=4.9, rate=rate), lc("b", 5.0, ideal_ms=4.9, rate=rate)]
    bench.until_holding(good)
    bench.step(good)
    return bench, good


def test_a_miss_that_lasts_starts_the_search_again_and_a_short_one_does_not() -> None:
    bench, good = held_bench()
    missed = [lc("a", 15.0), lc("b", 5.0)]
    for _ in range(4):
        bench.step(missed)
    bench.step(good)
    assert bench.state.holding
    for _ in range(7):
        bench.step(missed)
    assert not bench.state.holding
    assert "a p99 15 ms > 10 ms target" in bench.words or bench.state.samples == []
    assert bench.state.failures == 1


def test_a_search_that_met_no_target_goes_on_with_its_samples() -> None:
    bench, missed = Bench(), [lc("a", 4000.0), lc("b", 40.0)]
    bench.until_holding(missed)
    first = bench.state.samples
    for _ in range(20):
        bench.step(missed)
        if "sampling goes on" in bench.words:
            break
    assert f"sampling goes on after {len(first)} samples" in bench.words
    assert bench.state.samples == first
    assert bench.state.failures == 1
    bench.step([lc("a", 5.0), lc("b", 5.0), lc("c", 5.0)])
    assert bench.state.resumed_at == 0


def test_improvements_are_compared_with_the_best_score_where_a_search_goes_on() -> None:
    space = Space(CUTS)
    samples = [
        Sample(point.ravel().tolist(), score)
        for point, score in zip(bootstrap(space), (0.07, 0.011, 0.009, 0.004), strict=False)
    ]
    assert propose(space, samples, np.random.default_rng(1)) is None
    found = propose(space, samples, np.random.default_rng(1), relative=True)
    assert found is not None
    assert 0.0007 <= found.improvement < 0.01


def test_a_queue_that_drains_is_given_the_time() -> None:
    bench, _ = held_bench()
    for second in range(20):
        bench.step([lc("a", 400.0 - 15 * second), lc("b", 5.0)])
    assert bench.state.holding


def test_what_is_refused_twice_while_nothing_is_applied_is_not_asked_again_and_the_agents_words_are_told() -> None:
    bench, services = Bench(), [lc("a", 5.0), lc("b", 5.0)]
    first = bench.step(services)
    nothing = {"partition": None, "outcome": Outcome(0, "refused", "way_mask 3 has 2 ways")}
    assert bench.step(services, **nothing) == first
    assert bench.decision is not None and bench.decision.infeasible is None
    assert bench.step(services, **nothing) != first
    assert "this partition is not requested again" in bench.words
    assert bench.decision.infeasible is not None
    assert bench.decision.infeasible.message.endswith("request: way_mask 3 has 2 ways")
    unknown = bench.decision.partition
    for _ in range(4):  # nobody refused anything: the agent has just started again
        assert bench.step(services, partition=None) == unknown


def test_a_change_of_load_starts_the_search_again_and_noise_does_not() -> None:
    bench, _ = held_bench(rate=1000.0)
    for rate in [1000.0, 1060.0, 950.0, 1090.0, 920.0] * 3:
        bench.step([lc("a", 5.0, rate=rate), lc("b", 5.0, rate=1000.0)])
    assert bench.state.holding
    for _ in range(6):
        bench.step([lc("a", 5.0, rate=500.0), lc("b", 5.0, rate=1000.0)])
    assert not bench.state.holding
    assert bench.state.failures == 0


@pytest.mark.parametrize(
    "services",
    [[lc("a", 5.0)], [lc("a", 5.0), lc("b", 5.0, target_ms=20.0)], [lc("a", 5.0), lc("b", 5.0), lc("c", 5.0)]],
)
def test_other_services_or_targets_start_the_search_again(services: list[Service]) -> None:
    bench, _ = held_bench()
    bench.step(services)
    assert len(bench.state.samples) == 0
    assert "have changed" in bench.words


def test_without_ways_the_cores_are_searched_and_one_service_has_nothing_to_search() -> None:
    bench = Bench(platform=replace(PLATFORM, ways=None))
    bench.until_holding([lc("a", 5.0, ideal_ms=4.9), lc("b", 5.0, ideal_ms=4.9)])
    assert bench.decision.partition.ways == 0
    assert bench.decision.partition.cores == 12
    alone = Bench()
    assert parts(alone.step([lc("a", 50.0)]), "a") == [(12, 12)]
    assert alone.state.holding
    for _ in range(20):
        alone.step([lc("a", 50.0)])
    assert alone.state.holding


def test_the_state_of_the_largest_node_fits_into_an_observation() -> None:
    platform = Platform(id="p", cores=2000, cpus="0-1999", ways=64)
    services = [lc(f"{i:02d}-{'x' * 60}", 50.0) for i in range(64)]
    observation = Observation("n", 0, 1.0, 1.0, platform, services)
    _, state = Clite().decide(observation, Clite().initial(observation, 0))
    rng = np.random.default_rng(1)
    units = rng.integers(300, 2000, 128).tolist()
    samples = [Sample(units, float(rng.random())) for _ in range(65 + MAX_SAMPLES)]
    by_name = {service.name: 1.5 for service in services}
    full = replace(state, samples=samples, loads=by_name, missed_ms=by_name)
    assert len(seal_state(Clite(), full)) <= 131072


def test_a_proposal_is_new_and_legal_and_keeps_one_part_of_the_best() -> None:
    space, rng = Space(CUTS), np.random.default_rng(2)
    points = [*bootstrap(space), *space.draw(10, rng, None)]
    samples = [
        Sample(point.ravel().tolist(), float(value), str(rng.choice(["a", "b", "c"])))
        for point, value in zip(points, 0.6 * rng.random(15), strict=True)
    ]
    leader = space.parts.index(max(samples, key=lambda sample: sample.score or 0.0).leader or "")
    best = np.array(max(samples, key=lambda sample: sample.score or 0.0).units).reshape(2, 4)
    kept_once = 0
    for seed in range(10):
        found = propose(space, samples, np.random.default_rng(seed))
        if found is None:
            continue
        assert found.point.sum(axis=1).tolist() == [12, 10]
        assert (found.point >= 1).all()
        assert found.point.ravel().tolist() not in [sample.units for sample in samples]
        if found.kept is not None:
            kept_once += 1
            assert found.kept == leader
            assert (found.point[:, found.kept] == best[:, found.kept]).all()
    assert kept_once > 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.one_of(st.none(), st.integers(0, 3)))
def test_neighbours_are_legal_and_differ_by_one_move(seed: int, part: int | None) -> None:
    space, rng = Space(CUTS), np.random.default_rng(seed)
    point = space.draw(1, rng, None)[0]
    found = space.neighbours(point[None], rng, None if part is None else Kept(part, point))
    assert (found.sum(axis=2) == [12, 10]).all()
    assert (found >= 1).all()
    changed = found != point
    assert (changed.sum(axis=(1, 2)) == 2).all()
    assert part is None or not changed[:, :, part].any()


def test_the_model_is_a_gaussian_process_with_a_matern_kernel_and_truncated_expected_improvement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surrogate, "LENGTH_SCALES", (0.3,))
    rng = np.random.default_rng(3)
    known, scores, asked = rng.random((12, 4)), rng.random(12), rng.random((5, 4))
    model = Surrogate(known, scores)

    def matern(x: np.ndarray, y: np.ndarray) -> np.ndarray:  # the general formula, not the closed form of nu = 5/2
        r = np.linalg.norm(x[:, None] - y[None], axis=2) / 0.3 * 5**0.5 + 1e-12
        return 2 ** (1 - 2.5) / gamma(2.5) * r**2.5 * kv(2.5, r)

    inverse = np.linalg.inv(matern(known, known) + model.noise * np.eye(12))
    cross = matern(asked, known)
    mean = scores.mean() + cross @ inverse @ (scores - scores.mean())
    deviation = scores.std() * np.sqrt(np.maximum(1 - np.einsum("ij,jk,ik->i", cross, inverse, cross), 0))
    draws = np.minimum(mean + deviation * rng.standard_normal((400_000, 5)), 1.0)
    expected = np.maximum(draws - scores.max() - EXPLORATION, 0).mean(axis=0)
    assert model.expected_improvement(asked) == pytest.approx(expected, abs=3e-4)
    assert expected.max() > 0.004


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surrogate, "find_spec", lambda _: None)
    with pytest.raises(MachineError, match=r"needs scikit-learn.*run `.*clite"):
        Bench().step([lc("a", 5.0)])


def test_importing_the_policy_does_not_import_scikit_learn() -> None:
    code = "import sys, osml.policies.clite; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_it_ends_by_expected_improvement_and_stays_with_the_best_of_its_samples() -> None:
    tenants = [Tenant("a", load=7.0, taste=0.3), Tenant("b", load=2.0, taste=0.1), Tenant("c", load=2.5, taste=0.2)]
    node = ToyNode(tenants, cores=24, policy="clite", seed=1)
    for _ in range(140):
        node.step()
        state = open_state(node.policy_state or "", load_policy("clite"))[0]
        if state.holding:
            break
    assert state.holding
    assert len(state.samples) < 4 + MAX_SAMPLES  # not because there were enough
    scores = [sample.score for sample in state.samples]
    assert state.point == state.samples[scores.index(max(scores))].units


def test_services_of_case_a_converge_on_the_virtual_node_and_it_repeats_itself() -> None:
    # At the loads of the paper (0.4, 0.6, 0.5) it finds no partition here in 90 s (seeds 1 to 4); the oracle has one.
    # At these, seeds 2 to 5 stay with what they found; 1 and 6 miss targets by chance and search again.
    loads = {"moses": 0.1, "img-dnn": 0.2, "xapian": 0.2}
    platform = catalogs.platform("e5-2697v4")

    def run(seconds: int) -> list[tuple[Partition, bool]]:
        services = tuple(catalogs.service(name, platform.id) for name in loads)
        loop = ClosedLoop(Node(platform, services, ()), loads, "clite", seed=3)
        return [
            (
                step.decision.partition,
                all(tail_ms(f, s.percentile) <= s.target_ms for f, s in zip(step.flows, services, strict=True)),
            )
            for step in loop.run(seconds)
            if step.decision is not None
        ]

    trace = run(60)
    assert not all(met for _, met in trace[:12])  # the bootstrap starves everybody once
    assert all(met for _, met in trace[-20:])
    assert all(one == other for (one, _), (other, _) in pairwise(trace[-20:]))
    assert run(20) == trace[:19]
