import base64
import time
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.decide import decide as front
from osml.decide.decide import PolicyError, RequestError, decide
from osml.decide.registry import policy_names
from osml.decide.state import seal_state
from osml.domain import Assignment, CacheDomain, Decision, Observation, Partition, Platform, Region, Service
from osml.policies.arq import Arq, ArqState
from tests.kit.toy_node import ToyNode, demo_tenants


def observation(**changes: object) -> Observation:
    return replace(ToyNode(demo_tenants()).observe(policy=None), **changes)


def refused(wrong: Observation) -> RequestError:
    with pytest.raises(RequestError) as caught:
        decide(wrong)
    return caught.value


def test_the_decision_repeats_node_and_seq_and_carries_entropy_and_assignments() -> None:
    node = ToyNode(demo_tenants())
    node.run(3)
    decision = node.decision
    assert decision is not None
    assert (decision.node, decision.seq, decision.policy) == ("toy", 2, "arq")
    assert decision.entropy is not None
    assert decision.entropy.e_s is not None
    assert [a.service for a in decision.assignments] == [t.name for t in node.tenants]


def test_the_observation_names_the_policy_before_the_default_does() -> None:
    assert decide(observation(), default_policy="even").policy == "even"
    assert decide(observation(policy="parties"), default_policy="even").policy == "parties"


def test_an_unknown_policy_lists_the_known_ones() -> None:
    error = refused(observation(policy="magic"))
    assert error.field == "policy"
    assert "'magic' is unknown; known are arq, " in error.message
    assert all(name in error.message for name in policy_names())


def test_state_travels_through_the_wire() -> None:
    node = ToyNode(demo_tenants(), policy="parties")
    for _ in range(20):
        node.step()
        assert node.decision is not None
        wire = msgspec.json.encode(node.decision)
        node.decision = msgspec.json.decode(wire, type=Decision)
        seen = msgspec.json.decode(msgspec.json.encode(node.observe()), type=Observation)
        assert decide(seen) == decide(node.observe())


def test_the_state_of_another_policy_is_discarded_with_a_reason() -> None:
    node = ToyNode(demo_tenants(), policy="parties")
    node.run(5)
    decision = node.step(policy="arq")
    assert "policy switched from 'parties' to 'arq'" in decision.reasons[0].text


@pytest.mark.parametrize(
    "text",
    [
        "garbage!",
        "",
        "äöü",
        base64.urlsafe_b64encode(b"\x00").decode(),
        base64.urlsafe_b64encode(msgspec.msgpack.encode({"policy": "arq"})).decode(),
        base64.urlsafe_b64encode(b"\x91" * 60000).decode(),
        base64.urlsafe_b64encode(
            msgspec.msgpack.encode({"policy": "osml", "version": 1, "state": 1}).replace(b"osml", b"\xff\xfe\xff\xfe")
        ).decode(),
    ],
)
def test_a_tampered_state_is_refused(text: str) -> None:
    error = refused(observation(policy="arq", policy_state=text))
    assert error.field == "policy_state"
    assert "send back the string of the last decision" in error.message


@pytest.mark.parametrize("state", [5, {"last": 3}, []])
def test_a_state_of_another_build_is_discarded_with_a_reason(state: object) -> None:
    text = base64.urlsafe_b64encode(
        msgspec.msgpack.encode({"policy": "arq", "version": Arq.version, "state": state})
    ).decode()
    decision = decide(observation(policy="arq", policy_state=text))
    assert "the state of 'arq' cannot be read and is discarded" in decision.reasons[0].text
    assert decision.assignments == decide(observation(policy="arq")).assignments


def test_a_truncated_state_is_refused() -> None:
    text = decide(observation()).policy_state
    assert text is not None
    assert refused(observation(policy_state=text[:-8])).field == "policy_state"


def services(*more: Service) -> list[Service]:
    return [Service(name="a", kind="lc", target_ms=10.0), *more]


PLATFORM = Platform(id="p", cores=4, cpus="0-3", ways=4)
PLACING = replace(PLATFORM, regions_in_domains=True)


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        (
            {"services": services(Service(name="a", kind="be"))},
            "services[1].name",
            "give each service a name of its own",
        ),
        ({"services": services(Service(name="b", kind="lc"))}, "services[1].target_ms", "'b' is missing"),
        (
            {"services": services(Service(name="b", kind="be", min_cores=4, max_cores=2))},
            "services[1].max_cores",
            "less than min_cores 4",
        ),
        (
            {"services": services(Service(name="b", kind="lc", target_ms=float("inf")))},
            "services[1].target_ms",
            "finite",
        ),
        ({"time_s": float("inf")}, "time_s", "time_s is inf, expected a finite number of s"),
        ({"interval_s": float("inf")}, "interval_s", "finite"),
        ({"platform": replace(PLATFORM, id="x" * 201)}, "platform.id", "201 characters, expected at most 200"),
        ({"platform": replace(PLATFORM, cores=5)}, "platform.cores", "lists 4 CPUs; expected 4 cores"),
        ({"platform": replace(PLATFORM, cpus="0-3,x")}, "platform.cpus", "'x' is neither an id nor a range"),
        ({"platform": replace(PLATFORM, core_quantum=2.0, cores=2)}, "platform.core_quantum", "expected 1"),
        ({"platform": replace(PLATFORM, min_way_bits=5)}, "platform.ways", "expected 5 (min_way_bits) to 64"),
        ({"platform": replace(PLATFORM, siblings=[[0, 1], [1, 2]])}, "platform.siblings", "names a CPU twice"),
        (
            {"platform": replace(PLACING, domains=[CacheDomain(0, "0-1"), CacheDomain(0, "2-3")])},
            "platform.domains[1].id",
            "0 is the id of two cache domains",
        ),
        (
            {"platform": replace(PLACING, domains=[CacheDomain(0, "0-2"), CacheDomain(1, "2-3")])},
            "platform.domains[1].cpus",
            "has CPU 2, which another cache domain has too",
        ),
        (
            {"platform": replace(PLACING, domains=[CacheDomain(0, "all")])},
            "platform.domains[0].cpus",
            "'all' is neither",
        ),
        ({"platform": replace(PLATFORM, core_quantum=1e-5, cores=400_000)}, "platform.cores", "at most 16384"),
        ({"assignments": [Assignment(service="moses", cpus="5-1")]}, "assignments[0].cpus", "'5-1' is not ascending"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field_named(changes: dict, field: str, text: str) -> None:
    error = refused(observation(**changes))
    assert error.field == field
    assert text in error.message


@pytest.mark.parametrize("policy", ["unmanaged", "even"])
def test_domains_of_an_agent_that_takes_no_regions_in_them_are_not_checked(policy: str) -> None:
    for domains in ([CacheDomain(0, "0-2"), CacheDomain(0, "2-3")], [CacheDomain(0, "all"), CacheDomain(1, "")]):
        seen = observation(platform=replace(PLATFORM, domains=domains), policy=policy)
        assert decide(seen).partition.by_domain == {}


def test_an_illegal_plan_is_the_policys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    even = front.load_policy("even")

    class Greedy:
        name, version, State = "greedy", 1, even.State

        def initial(self, seen: Observation, seed: int) -> object:
            return even.initial(seen, seed)

        def decide(self, seen: Observation, state: object) -> tuple[Plan, object]:
            plan, state = even.decide(seen, state)
            return replace(plan, partition=replace(plan.partition, regions=[])), state

    monkeypatch.setattr(front, "load_policy", lambda _: Greedy())
    with pytest.raises(PolicyError, match=r"policy 'greedy': .* reaches 0 cores"):
        decide(observation())


@pytest.mark.parametrize("place", ["prepared", "initial", "decide"])
def test_a_policy_that_refuses_a_sound_request_is_at_fault(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def refuse(*_given: object) -> None:
        raise RequestError("services has no service", "services")

    even = front.load_policy("even")
    initial, decided = (refuse if place == name else getattr(even, name) for name in ("initial", "decide"))
    picky = SimpleNamespace(name="picky", version=1, State=even.State, initial=initial, decide=decided)
    monkeypatch.setattr(front, "load_policy", lambda _: picky)
    if place == "prepared":
        monkeypatch.setattr(front, "prepared", refuse)
    with pytest.raises(PolicyError, match=r"policy 'picky' refuses .* services has no service"):
        decide(observation())


def test_masks_that_reach_through_others_are_explained_when_they_change() -> None:
    names = ["moses", "img-dnn", "xapian", "stream"]
    own = [Region([name], 1, ways) for name, ways in zip(names, (5, 3, 2), strict=False)]
    wanted = Partition([*own, Region(names, 33, 10)])
    state = seal_state(Arq(), ArqState(wanted=wanted))
    seen = observation(partition=wanted, policy="arq", policy_state=state)
    first = decide(seen)
    assert [r.service for r in first.reasons if "masks are contiguous here" in r.text] == ["moses"]
    again = decide(replace(seen, assignments=first.assignments))
    assert again.assignments == first.assignments
    assert not [r for r in again.reasons if "masks are contiguous here" in r.text]


def test_layouts_of_large_requests_are_not_kept() -> None:
    many = [Service(name=f"s{number}-{'x' * 58}", kind="lc", target_ms=10.0) for number in range(64)]
    platform = Platform(id="p", cores=64, cpus="0-63", ways=16)
    kept = len(front._layouts)
    for name in ("a", "b"):
        decide(observation(policy="even", services=many, platform=replace(platform, id=name)))
    assert len(front._layouts) == kept


@pytest.mark.parametrize("policy", ["unmanaged", "even", "parties", "arq"])
def test_a_decision_for_four_services_takes_about_a_millisecond(policy: str) -> None:
    node = ToyNode(demo_tenants(), policy=policy)
    node.run(20)
    costs = []
    for _ in range(50):
        seen = node.observe()
        start = time.process_time()
        decide(seen)
        costs.append(time.process_time() - start)
        node.step()
    assert sorted(costs)[len(costs) // 2] < 0.003  # three times the aim: shared test machines are slow
