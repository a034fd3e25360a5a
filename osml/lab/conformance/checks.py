"""The promises of the contract, each as a check against a running server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx
import msgspec

from osml.decide.legality import decision_error
from osml.domain import Counters, Decision, Latency, Observation, Partition, Platform, Service, partition_error
from osml.domain.cpulist import parse_cpulist

JSON = {"content-type": "application/json"}
INTERVALS = 6


class Broken(Exception):  # noqa: N818 - a promise, not a fault of this program
    """The server broke a promise; the text says how."""


class Found(NamedTuple):
    """One check: its name, and what is wrong (None: nothing)."""

    name: str
    fault: str | None


@dataclass(frozen=True)
class Server:
    """The server, and the node that the token is for."""

    client: httpx.Client
    node: str

    def observation(self, **changes: Any) -> Observation:
        """A small node whose first service misses its target."""
        first = Observation(
            node=self.node,
            seq=0,
            time_s=100.0,
            interval_s=1.0,
            platform=Platform(id="conformance", cores=8, cpus="0-7", ways=11),
            services=[
                Service("web", "lc", target_ms=10.0, latency=Latency(p99_ms=14.0, requests_per_s=500)),
                Service("cache", "lc", target_ms=2.0, latency=Latency(p99_ms=0.9, requests_per_s=4000)),
                Service("batch", "be", ipc_solo=1.4, counters=Counters(ipc=0.8)),
            ],
        )
        return msgspec.structs.replace(first, **changes)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """The answer to a JSON body, or to bytes as they are."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return self.client.post(path, content=content, headers={**JSON, **headers})

    def decide(self, body: Any) -> Decision:
        """The decision on an observation. Raises Broken for another answer."""
        answer = self.post("/v1/decisions", body)
        expect(answer.status_code == 200, f"POST /v1/decisions answered {answer.status_code}: {answer.text[:300]}")
        try:
            return msgspec.json.decode(answer.content, type=Decision)
        except msgspec.MsgspecError as error:
            raise Broken(f"the answer is not a decision: {error}") from None


def expect(condition: bool, otherwise: str) -> None:
    """Raise Broken where a condition does not hold."""
    if not condition:
        raise Broken(otherwise)


def check_alive(server: Server) -> None:
    """Probes need no token and say that the server is ready."""
    for path in ("/healthz", "/readyz"):
        address = server.client.base_url.copy_with(path=server.client.base_url.path.rstrip("/") + path)
        answer = httpx.get(address, timeout=10)
        expect(answer.status_code == 200, f"GET {path} without a token answered {answer.status_code}, expected 200")


def check_decision(server: Server) -> None:
    """A decision is for the observation, and legal on the platform."""
    observation = server.observation()
    _check_legal(observation, server.decide(observation))


def _check_legal(observation: Observation, decision: Decision) -> None:
    """What every agent checks before it applies a decision."""
    names = [service.name for service in observation.services]
    fault = partition_error(decision.partition, observation.platform, names)
    expect(fault is None, f"the partition is illegal: {fault}")
    fault = decision_error(observation, decision)
    expect(fault is None, f"{fault}")
    _check_agreement(decision)
    expect(bool(decision.reasons), "a decision has no reason")


def _check_agreement(decision: Decision) -> None:
    """The assignments give what the partition counts, and no region has CPUs or ways of another."""
    partition = decision.partition
    cpus = {each.service: set(parse_cpulist(each.cpus or "")) for each in decision.assignments}
    ways = {each.service: _bits(each.way_mask) for each in decision.assignments}
    for what, wanted, given in (("CPUs", partition.cores_of, cpus), ("ways", partition.ways_of, ways)):
        for name, own in given.items():
            expect(
                len(own) == wanted(name),
                f"'{name}' is assigned {len(own)} {what}, but the partition counts {wanted(name)}",
            )
        for name, other in itertools.combinations(given, 2):
            common = given[name] & given[other]
            most = _common(partition, name, other, what)
            expect(
                len(common) == most,
                f"'{name}' and '{other}' are assigned {len(common)} {what} in common, expected {most}",
            )


def _bits(mask: str | None) -> set[int]:
    number = int(mask or "0", 16)
    return {bit for bit in range(number.bit_length()) if number >> bit & 1}


def _common(partition: Partition, name: str, other: str, what: str) -> int:
    """CPUs or ways of the regions that both services own."""
    shared = [region for region in partition.regions if name in region.owners and other in region.owners]
    return sum(region.cores if what == "CPUs" else region.ways for region in shared)


def check_run(server: Server) -> None:
    """A run of intervals works, the state travels, and the same observation gets the same decision."""
    observation = server.observation()
    for seq in range(INTERVALS):
        decision = server.decide(observation)
        _check_legal(observation, decision)
        again = server.decide(observation)
        expect(again == decision, f"interval {seq}: the same observation got two different decisions")
        observation = server.observation(
            seq=seq + 1,
            time_s=100.0 + seq + 1,
            partition=decision.partition,
            assignments=decision.assignments,
            policy_state=decision.policy_state,
        )


def check_lost_state(server: Server) -> None:
    """An agent that lost the state, or restarted, gets a decision."""
    decision = server.decide(server.observation())
    restarted = server.observation(seq=0, time_s=0.0, partition=decision.partition, policy_state=None)
    _check_legal(restarted, server.decide(restarted))


def check_missing_measurements(server: Server) -> None:
    """What was not measured may be missing or null."""
    services = [msgspec.structs.replace(s, latency=None, counters=Counters()) for s in server.observation().services]
    observation = server.observation(services=services)
    full = msgspec.to_builtins(observation)
    short = _without_nulls(full)
    expect(server.decide(full) == server.decide(short), "a missing key and null got different decisions")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}  # pyright: ignore[reportUnknownVariableType]
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def check_unknown_keys(server: Server) -> None:
    """Keys of a newer agent are left out, and named in a header."""
    newer = msgspec.to_builtins(server.observation())
    newer["from_the_future"] = 1
    newer["services"][0]["from_the_future"] = {"a": [1]}
    expect(server.decide(newer) == server.decide(server.observation()), "unknown keys changed the decision")
    named = server.post("/v1/decisions", newer).headers.get("osml-unknown-keys", "")
    keys = {key.strip() for key in named.split(",")}
    wanted = {"from_the_future", "services[0].from_the_future"}
    expect(wanted <= keys, f"the header osml-unknown-keys is '{named}', expected {' and '.join(sorted(wanted))}")


def check_batch(server: Server) -> None:
    """A batch gives each observation its own decision or error, in their order."""
    wrong = msgspec.to_builtins(server.observation())
    wrong["seq"] = -1
    good = msgspec.to_builtins(server.observation())
    answer = server.post("/v1/decisions:batch", {"observations": [good, wrong, good]})
    expect(answer.status_code == 200, f"POST /v1/decisions:batch answered {answer.status_code}: {answer.text[:300]}")
    kinds = [next((key for key in ("decision", "error") if item.get(key)), "") for item in answer.json()["decisions"]]
    expect(kinds == ["decision", "error", "decision"], f"the items are {kinds}, expected decision, error, decision")


def check_errors(server: Server) -> None:
    """Errors have one shape, the right status, and name the field."""
    good = msgspec.to_builtins(server.observation())
    negative = {**good, "seq": -1}
    wrong_target = json.loads(json.dumps(good))
    wrong_target["services"][0]["target_ms"] = 0
    cases: list[tuple[str, Any, int, str | None]] = [
        ("no JSON", b"{", 400, None),
        ("a negative seq", negative, 422, "seq"),
        ("a target of 0", wrong_target, 422, "services[0].target_ms"),
        ("an unknown policy", {**good, "policy": "no-such-policy"}, 422, "policy"),
        ("another major version", {**good, "schema": "osml/observation/v999"}, 422, "schema"),
    ]
    for name, body, status, field in cases:
        answer = server.post("/v1/decisions", body)
        expect(answer.status_code == status, f"{name} got status {answer.status_code}, expected {status}")
        error: dict[str, Any] = answer.json()["error"]
        expect({"code", "message"} <= error.keys(), f"{name}: the error has no code or message")
        expect(error.get("field") == field, f"{name}: error.field is {error.get('field')}, expected {field}")
    plain = server.post("/v1/decisions", good, **{"content-type": "text/plain"})
    expect(plain.status_code == 415, f"text/plain got status {plain.status_code}, expected 415")


def check_document(server: Server) -> None:
    """The document describes the operations."""
    document = server.client.get("/openapi.json").json()
    missing = {"/v1/decisions", "/v1/decisions:batch", "/v1/experiences"} - document.get("paths", {}).keys()
    expect(not missing, f"/openapi.json lacks {', '.join(sorted(missing))}")


def check_experiences(server: Server) -> None:
    """Experiences are stored once, or the server says with 404 that it keeps none."""
    before = server.observation()
    decision = server.decide(before)
    after = server.observation(seq=1, time_s=101.0, partition=decision.partition)
    batch = {"experiences": [{"before": before, "decision": decision, "after": after}]}
    answers = [server.post("/v1/experiences", batch) for _ in range(2)]
    statuses = [answer.status_code for answer in answers]
    expect(statuses in ([202, 202], [404, 404]), f"the same batch twice got {statuses}, expected 202 or 404 for both")
    if statuses == [202, 202]:
        receipt: dict[str, Any] = answers[1].json()
        expect(
            receipt.get("duplicates") == 1,
            f"the same experience again got the receipt {receipt}, expected 1 of duplicates",
        )


CHECKS: tuple[Callable[[Server], None], ...] = (
    *(check_alive, check_decision, check_run, check_lost_state, check_missing_measurements, check_unknown_keys),
    *(check_batch, check_errors, check_document, check_experiences),
)


def run_checks(server: Server) -> list[Found]:
    """All checks, whatever one of them finds."""
    return [Found((check.__doc__ or check.__name__).rstrip("."), _fault_of(check, server)) for check in CHECKS]


def _fault_of(check: Callable[[Server], None], server: Server) -> str | None:
    try:
        check(server)
    except Broken as broken:
        return str(broken)
    except (httpx.HTTPError, ValueError, LookupError, AttributeError, TypeError) as error:
        return f"no usable answer: {error!r}"
    return None
