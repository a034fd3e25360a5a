"""The osml policy where models, neighbours or states are odd: it stays legal, says so, and forgets what is over."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from osml.decide.decide import RequestError, decide_by
from osml.decide.state import open_state, seal_state
from osml.domain import Latency, MbaRange, Partition, Region, Service
from osml.policies.osml import Osml, OsmlC
from osml.policies.osml.answers.models import Models, load_models
from osml.policies.osml.node import Cell
from osml.policies.osml.remembered.backoff import is_banned, with_ban
from osml.policies.osml.remembered.state import Pair
from osml.predictors import Prediction, models_folder
from tests.kit.fake_models import PLATFORM, Fake, Run, Values, job, metadata, needs, observe, service


@pytest.mark.parametrize("spread", [float("nan"), float("inf")])
def test_a_bound_that_is_no_number_leaves_the_decision_to_arqs_rules(spread: float) -> None:
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0, 1.0, 1.0], spread=spread)
    decision = decide_by(Osml(Models(a2=fake)), observe(service("a"), service("b")))
    assert "an impossible value: a bound of rcliff_cores that is" in decision.reasons[0].text
    assert decision.forecasts == []


def _spares() -> Any:
    points = tuple(f"{kind}_{what}" for kind in ("balanced", "core_dominated", "way_dominated") for what in ("c", "w"))
    return Fake(lambda row: [2.0, 0.0, 3.0, 0.0, 0.0, 1.0], metadata(points, ("slowdown", "cores"), kind="b"), 0.0)


def test_model_b_is_not_quoted_where_idle_units_are_enough() -> None:
    low: Any = Fake(lambda row: [2.0, 1.0, 8.0, 2.0, 1.0])
    run = Run(Osml(Models(a=low, a2=low, b=_spares())))
    run(service("a", 0.2), service("b", 0.2), times=5)
    run(service("a", 0.2), service("b", 0.2), service("c", 0.2))
    assert run.cores()["c"] >= 8
    assert "can give" not in run.words()


def test_a_cell_that_missed_at_a_low_load_stays_banned_there_when_a_larger_one_misses_at_a_high_load() -> None:
    bans = with_ban(with_ban([], Cell(4, 4), 10.0, 0.0), Cell(6, 6), 100.0, 0.0)
    assert is_banned(bans, Cell(4, 4), 10.0, 1.0)
    assert not is_banned(bans, Cell(6, 6), 10.0, 1.0)


def test_a_relaxed_target_forgets_what_missed_the_strict_one() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=5)
    for _ in range(4):
        run(service("a", 1.5), service("b"))
    assert run.cores()["a"] > 4
    run(replace(service("a"), target_ms=1000.0), service("b"), times=40)
    assert run.cores()["a"] == 4


def test_who_is_set_aside_is_kept_for_a_while_every_time() -> None:
    run = Run(Osml(needs(rate_10=14.0)))
    changes, before = 0, None
    for _ in range(200):
        run(*(service(name, 1.5 + 0.3 * k) for k, name in enumerate("abcd")))
        changes += run.decision.partition != before
        before = run.decision.partition
    assert changes <= 200 / 30 + 5


def test_model_c_alone_parts_the_node_though_even_parts_are_all_of_it() -> None:
    c: Any = Values(-2, 0)
    run = Run(OsmlC(Models(c=c)))
    run(service("a"), service("b"))
    assert run.cores() == {"a": 18, "b": 18}
    run(service("a"), service("b"), times=6)
    assert run.cores()["a"] < 18


def _few(ratio: float | None) -> Service:
    """Misses its target by less than the noise of its few requests; or was not measured."""
    latency = None if ratio is None else Latency(p99_ms=10.0 * ratio, requests_per_s=10.0, samples=10)
    return replace(service("a"), latency=latency)


def test_nothing_is_taken_back_from_a_service_that_misses_its_target_however_little() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(_few(1.05), service("b"), times=4)
    assert run.cores() == {"a": 18, "b": 4}
    run(_few(0.9), service("b"), times=2)
    assert run.cores() == {"a": 4, "b": 4}


@pytest.mark.parametrize(("ratio", "least"), [(0.5, 16), (1.05, 20), (None, 20)])
def test_only_from_a_service_that_meets_its_target_something_goes_to_a_neighbour(
    ratio: float | None, least: int
) -> None:
    run = Run(Osml(needs(rate_10=16.0)))
    parts = Partition([Region(["a"], 20, 10), Region(["b"], 16, 10)])
    run(_few(0.5), service("b"), partition=parts, times=3)
    run(_few(ratio), service("b", 1.5), partition=parts, times=2)
    cores = run.decision.partition.cores_of("a")
    assert cores >= least
    assert ratio != 0.5 or cores < 20


def test_throttles_stay_where_a_need_of_bandwidth_is_not_predicted_for_once() -> None:
    gbps = [5.0]
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0, 1.0, gbps[0]])
    run = Run(Osml(Models(a=fake, a2=fake)), replace(PLATFORM, mba=MbaRange(10, 100, 10)))
    run(service("a"), service("b"), times=6)
    before = run.decision.partition
    assert before.mba == {"a": 50, "b": 50}
    gbps[0] = -0.1
    run(service("a"), service("b"))
    assert run.decision.partition == before


def test_nobody_is_throttled_to_nothing_where_the_range_begins_there() -> None:
    platform = replace(PLATFORM, mba=MbaRange(0, 20, 1), bandwidth_gbps=10.0)
    run = Run(Osml(needs(rate_10=0.5, rate_50=30.0)), platform)
    decision = run(service("a", rate=10.0), service("b", rate=50.0), job())
    assert decision.partition.mba == {"a": 1, "b": 20, "job": 1}


def test_a_job_keeps_its_limit_of_ways_where_everybody_shares() -> None:
    run = Run(Osml(needs(rate_10=14.0)), replace(PLATFORM, realtime=True))
    decision = run(service("a"), service("b"), service("c"), replace(job(), max_ways=1))
    assert "all services share everything" in run.words()
    assert decision.partition.ways_of("job") == 1
    assert decision.partition.ways_of("a") == 19


def _faults_with(folder: Path, change: Callable[[Path], None]) -> tuple[str, ...]:
    """Of the shipped models where A' was changed, and the manifest has the checksums of that."""
    shutil.copytree(models_folder(), folder)
    change(folder / "a2-masked-e5-2697v4")
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["models"]:
        for name in entry["sha256"]:
            entry["sha256"][name] = hashlib.sha256((folder / entry["name"] / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return load_models(folder, "e5-2697v4").faults


def test_a_model_that_opens_and_can_not_be_run_is_a_fault_and_raises_nothing(tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    def change(folder: Path) -> None:
        model = onnx.load(str(folder / "model.onnx"))
        inputs = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value
        shape = onnx.helper.make_tensor("seven_rows", onnx.TensorProto.INT64, [2], [7, inputs])
        model.graph.initializer.append(shape)
        for node in model.graph.node:
            node.input[:] = ["odd" if name == "features" else name for name in node.input]
        model.graph.node.insert(0, onnx.helper.make_node("Reshape", ["features", "seven_rows"], ["odd"]))
        onnx.save(model, str(folder / "model.onnx"))

    (fault,) = _faults_with(tmp_path / "models", change)
    assert fault.startswith("model a2: ")
    assert "can't be used (Fail: " in fault


@pytest.mark.parametrize(
    ("operator", "more"),
    [("Cast", {"to": 11}), ("Concat", {"axis": 0})],
    ids=["doubles", "twice as many rows"],
)
def test_a_model_whose_answers_are_not_a_row_of_floats_for_each_row_is_a_fault(
    tmp_path: Path, operator: str, more: dict[str, int]
) -> None:
    onnx: Any = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    def odd(folder: Path) -> None:
        model = onnx.load(str(folder / "model.onnx"))
        for node in model.graph.node:
            node.output[:] = ["inner" if name == "points" else name for name in node.output]
            node.input[:] = ["inner" if name == "points" else name for name in node.input]
        twice = 2 if operator == "Concat" else 1
        model.graph.node.append(onnx.helper.make_node(operator, ["inner"] * twice, ["points"], **more))
        if operator == "Cast":
            model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
        onnx.save(model, str(folder / "model.onnx"))

    (fault,) = _faults_with(tmp_path / "models", odd)
    assert "can't be used" in fault


def test_a_model_of_another_kind_than_the_manifest_says_is_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")

    def change(folder: Path) -> None:
        file = folder / "metadata.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"kind": "a"}))

    wanted = "model a2: a2-masked-e5-2697v4 is of kind a, the manifest says a2"
    assert _faults_with(tmp_path / "models", change) == (wanted,)


def test_cells_that_give_way_to_the_minimum_of_a_job_say_so() -> None:
    run = Run(Osml(needs(rate_10=16.0)))
    run(service("a"), service("b"), times=6)
    run(service("a"), service("b"), replace(job(), min_cores=20))
    assert run.cores() == {"a": 8, "b": 8, "job": 20}
    assert "a changes by -8 cores and +0 ways: the limits or the BE jobs changed" in run.words()


def test_a_state_with_numbers_that_are_none_is_decided_on_without_them() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=3)
    state, _ = open_state(run.decision.policy_state, run.policy)
    nan = float("nan")
    odd = [
        replace(state, known={**state.known, "a": replace(state.known["a"], oaa=(nan, nan), count=9)}),
        replace(state, known={**state.known, "a": replace(state.known["a"], upper=(float("inf"), 1.0), count=9)}),
        replace(state, known={**state.known, "a": replace(state.known["a"], count=-1)}),
        replace(state, pairs=[Pair("a", "a", 1)]),
    ]
    for one in odd:
        assert run(service("a"), service("b"), policy_state=seal_state(run.policy, one)).reasons
    taken = replace(state, pairs=[Pair("a", "b", -100)])
    with pytest.raises(RequestError, match="policy_state is not a state"):
        run(service("a"), service("b"), policy_state=seal_state(run.policy, taken))


def test_a_state_with_a_need_that_no_machine_has_is_decided_on_without_it() -> None:
    slices = replace(PLATFORM, cores=360, core_quantum=0.1)
    run = Run(Osml(needs(rate_10=4.0)), slices)
    run(service("a"), service("b"), times=3)
    before = run.decision.partition
    state, _ = open_state(run.decision.policy_state, run.policy)
    odd = replace(state, known={**state.known, "a": replace(state.known["a"], oaa=(1e308, 1.0), count=9)})
    run(service("a"), service("b"), policy_state=seal_state(run.policy, odd))
    assert run.decision.partition == before


@pytest.mark.parametrize("gbps", [0.0, float("nan"), float("inf")])
def test_a_state_with_a_need_of_bandwidth_that_is_no_amount_is_decided_on_without_it(gbps: float) -> None:
    run = Run(Osml(needs(rate_10=4.0)), replace(PLATFORM, mba=MbaRange(10, 100, 10)))
    applied = run(service("a"), service("b"), times=2).partition
    state, _ = open_state(run.decision.policy_state, run.policy)
    odd = replace(state, known={name: replace(one, gbps=gbps) for name, one in state.known.items()})
    seal = seal_state(run.policy, odd)
    assert run(service("a", None), service("b", None), partition=replace(applied, mba={}), policy_state=seal).reasons


def test_a_model_that_answers_for_one_service_only_leaves_the_decision_to_arqs_rules() -> None:
    class OneRow(Fake):
        def predict(self, features: np.ndarray[Any, Any]) -> Prediction:
            return super().predict(features[:1])

    fake: Any = OneRow(lambda row: [3.0, 1.0, 4.0, 1.0, 1.0])
    decision = decide_by(Osml(Models(a2=fake)), observe(service("a"), service("b")))
    assert "model 'fake' answers (1, 5) for 2 services" in decision.reasons[0].text


def test_a_service_whose_ways_stay_is_not_said_to_give_any_while_another_is_set_aside() -> None:
    run = Run(Osml(needs(rate_10=24.0, rate_50=20.0)))
    run(service("a"), service("b", rate=50.0))
    for _ in range(60):
        before = run.decision.partition
        shared = before.cores_of("a") == 36
        run(service("a", 3.0 if shared else 0.5), service("b", 3.0, rate=50.0))
        if not shared and run.decision.partition.ways_of("a") == before.ways_of("a"):
            assert " ways: OAA" not in run.words()
    assert run.decision.infeasible.services == ["b"]
    assert run.decision.partition.ways_of("a") > 1


def test_a_target_missed_with_all_that_is_allowed_is_not_called_a_lack_of_cores() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(replace(service("a", 1.5), max_cores=3, max_ways=2), service("b"), times=20)
    lack = run.decision.infeasible
    assert lack is not None
    assert lack.services == ["a"]
    assert "all resources that exist or are allowed: a (3 cores, 2 ways)" in lack.message
    assert "OAAs fit" not in run.words()


def test_a_surplus_that_is_not_taken_from_who_was_not_measured_is_not_called_a_lack_of_cores() -> None:
    run = Run(Osml(needs(rate_10=4.0, rate_50=16.0)))
    parts = Partition([Region(["a"], 26, 10), Region(["b"], 10, 10)])
    run(service("a"), service("b"), partition=parts, times=2)
    run(service("a", None), service("b", 1.5, rate=50.0), partition=parts)
    lack = run.decision.infeasible
    assert lack is not None
    assert "all OAAs fit, but no service can give resources: each is above its target, was not measured" in lack.message
