"""The osml policy where a service is like nothing that the models know: that service alone is run without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from osml.domain import Counters, Service
from osml.policies.osml import Osml
from osml.policies.osml.answers.forecast import ModelFault, ask
from osml.policies.osml.answers.models import Models
from osml.predictors import FeatureSpec, Margin
from tests.kit.fake_models import FEATURES as FAKE_FEATURES
from tests.kit.fake_models import PLATFORM, Fake, Run, metadata, needs, observe, service

FEATURES = ("latency_over_target", "cores", "requests_per_s", "target_ms", "threads")


def _narrow(asked: list[Any] | None = None) -> Models:
    """Models that were trained on 18 to 36 threads and on targets of 1 to 20 ms; a service needs 4 cores."""

    def answer(row: np.ndarray[Any, Any]) -> list[float]:
        if asked is not None:
            asked.append(row)
        return [3.0, 1.0, 4.0, 1.0, 1.0]

    high = {"target_ms": 20.0, "threads": 36.0}
    features = [FeatureSpec(name, None, 18.0 if name == "threads" else 1.0, high.get(name, 1e9)) for name in FEATURES]
    fake: Any = Fake(answer, replace(metadata(features=FEATURES), features=features))
    return Models(a=fake, a2=fake)


def _odd(name: str, ratio: float = 0.5, **more: Any) -> Service:
    """A service with a target like no other."""
    found = service(name, ratio, **more)
    assert found.latency is not None
    latency = replace(found.latency, p99_ms=ratio * 1e6)
    return replace(found, target_ms=1e6, latency=latency)


@pytest.mark.parametrize("threads", [6, 60])
def test_an_optional_feature_outside_of_the_training_is_taken_as_not_measured(threads: int) -> None:
    asked: list[Any] = []
    run = Run(Osml(_narrow(asked), without=["probe"]))
    odd = service("a", counters=Counters(threads=threads))
    run(odd, service("b", counters=Counters(threads=20)), times=6)
    assert run.cores() == {"a": 4, "b": 4}
    assert np.isnan(asked[0][4])
    assert asked[1][4] == 20
    assert "count as not measured: threads of a" in run.words()
    assert all(forecast.familiar for forecast in run.decision.forecasts)


def test_one_unfamiliar_service_keeps_what_it_has_and_the_others_are_predicted_as_ever() -> None:
    run = Run(Osml(_narrow(), without=["probe"]))
    run(_odd("a"), service("b"), service("c"), times=6)
    assert run.cores() == {"a": 12, "b": 4, "c": 4}
    assert "a is out-of-distribution for the models (target_ms 1e+06, trained on 1 to 20)" in run.words()
    assert "can't be asked" not in run.words()
    assert [(f.service, f.familiar) for f in run.decision.forecasts] == [("a", False), ("b", True), ("c", True)]


def test_an_unfamiliar_service_that_misses_its_target_gets_plain_steps() -> None:
    run = Run(Osml(_narrow(), without=["probe"]))
    run(_odd("a"), service("b"), service("c"), times=6)
    run(_odd("a", 1.5), service("b"), service("c"), times=3)
    assert run.cores()["a"] > 12


def test_an_unfamiliar_service_gives_cores_that_it_does_not_use_while_it_has_slack() -> None:
    run = Run(Osml(_narrow(), without=["probe"]))
    idle = _odd("a", counters=Counters(cpu_usage_cores=3.0))
    run(idle, service("b"), service("c"), times=200)
    assert run.cores()["a"] == 6  # half of that is in use


def test_services_are_believed_again_after_some_familiar_intervals_only() -> None:
    run = Run(Osml(_narrow(), without=["probe"]))
    for k in range(20):  # flaps in every interval
        run(_odd("a") if k % 2 else service("a"), service("b"))
        assert "can't be asked" not in run.words()
        assert k == 0 or "a is out-of-distribution for the models" in run.words()
    run(service("a"), service("b"), times=20)
    assert run.cores() == {"a": 4, "b": 4}


def test_an_answer_for_one_service_that_is_no_place_on_the_machine_concerns_that_service_alone() -> None:
    fake: Any = Fake(lambda row: [3.0, 1.0, 500.0 if row[2] > 30 else 4.0, 1.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake)))
    run(service("a"), service("b", rate=50.0), times=6)
    assert run.cores() == {"a": 4, "b": 18}
    assert "model 'fake' predicts an impossible value: oaa_cores 500 on a node with 36" in run.words()
    assert [forecast.service for forecast in run.decision.forecasts] == ["a"]


def test_where_nobody_is_familiar_the_reason_names_services_and_features() -> None:
    run = Run(Osml(_narrow(), without=["probe"]))
    run(_odd("a"), _odd("b"))
    assert run.words().startswith("a is out-of-distribution for the models (target_ms 1e+06")
    assert "b is out-of-distribution" in run.words()
    assert [forecast.familiar for forecast in run.decision.forecasts] == [False, False]


def test_eight_services_are_predicted_though_no_model_knows_so_many_neighbours() -> None:
    run = Run(Osml(needs(rate_10=3.0)))
    run(*(service(name) for name in "abcdefgh"), times=6)
    assert "can't be asked" not in run.words()


@pytest.mark.parametrize(
    ("learned_from", "seen"), [(["p"], True), (["p", "q"], True), (["P", "q"], True), (["q", "r"], False)]
)
def test_on_a_machine_that_is_new_to_a_model_of_many_its_services_are_strangers(
    learned_from: list[str], seen: bool
) -> None:
    wide = {c: Margin([8.0] * 5, [8.0] * 5) for c in ("0.9", "0.95")}
    fake: Any = Fake(lambda _row: [3.0, 1.0, 4.0, 1.0, 1.0], metadata(platforms=learned_from, margins_unseen=wide))
    forecast = ask(observe(service("a"), service("b")), [service("a")], Models(a2=fake))
    assert isinstance(forecast, dict)
    assert forecast["a"].seen is seen
    assert forecast["a"].upper[0] == 3.0 + 0.5 * (1.0 if seen else 8.0)


def test_a_service_whose_margins_nobody_knows_is_run_by_the_formula() -> None:
    """The margins of known services are too narrow for it: a transferred model may have no others."""
    fake: Any = Fake(lambda _row: [3.0, 1.0, 4.0, 1.0, 1.0], metadata(margins_unseen={}))
    forecast = ask(observe(service("a"), service("new")), [service("a"), service("new")], Models(a2=fake))
    assert isinstance(forecast, dict)
    assert (forecast["a"].model, forecast["a"].seen, forecast["a"].strange) == ("fake", True, None)
    assert forecast["new"].model == "none"
    assert forecast["new"].strange == "model 'fake' has no margins for services outside its training"
    run = Run(Osml(Models(a2=fake), without=["probe"]))
    run(service("a"), service("new"))
    assert "new is out-of-distribution for the models" in run.words()


def test_a_model_of_many_machines_is_not_asked_about_one_unlike_all_of_them() -> None:
    def of_many(most_cores: float) -> Models:
        seen = [FeatureSpec(n, None, 4.0, most_cores if n == "platform_cores" else 1e9) for n in FAKE_FEATURES]
        about = metadata(platforms=["q", "r"], features=FAKE_FEATURES)
        fake: Any = Fake(lambda _row: [3.0, 1.0, 4.0, 1.0, 1.0], replace(about, features=seen))
        return Models(a2=fake)

    asked = observe(service("a"), service("b"))  # on 36 CPUs
    fault = ask(asked, [service("a")], of_many(30.0))
    assert isinstance(fault, ModelFault)
    assert "was not trained on a machine like this (platform_cores 36, trained on 4 to 30)" in fault.text
    assert isinstance(ask(asked, [service("a")], of_many(33.0)), dict)


def _of_one_size() -> tuple[Models, list[str]]:
    """A model of a machine with 64 CPUs that knows the service `a` alone, and one of all machines; who was asked."""
    asked: list[str] = []

    def answering(name: str, cores: float, most_cores: float, services: list[str], **more: Any) -> Any:
        def answer(_row: np.ndarray[Any, Any]) -> list[float]:
            asked.append(name)
            return [cores - 1.0, 1.0, cores, 1.0, 1.0]

        about = metadata(features=FAKE_FEATURES, name=name, services=services, **more)
        seen = [FeatureSpec(n, None, 4.0, most_cores if n == "platform_cores" else 1e9) for n in FAKE_FEATURES]
        return Fake(answer, replace(about, features=seen))

    own = answering("own", 4.0, 64.0, ["a"], margins_unseen={})
    general = answering("general", 6.0, 128.0, [], platforms=["q", "r"])
    return Models(a2=own, general=general), asked


def test_a_service_that_the_machines_own_model_does_not_know_is_asked_of_the_model_of_all_machines() -> None:
    models, asked = _of_one_size()
    services = [service("a"), service("new")]
    found = ask(observe(*services), services, models)
    assert isinstance(found, dict)
    assert {name: (one.model, one.oaa[0], one.strange) for name, one in found.items()} == {
        "a": ("own", 4.0, None), "new": ("general", 6.0, None),
    }  # fmt: skip
    assert asked == ["own", "own", "general"]  # only about who is strange to the first


def test_another_size_of_a_cpu_is_asked_of_the_model_of_all_machines() -> None:
    models, _ = _of_one_size()
    large = replace(PLATFORM, cores=110, cpus="0-109")
    services = [service("a"), service("b")]
    found = ask(observe(*services, platform=large), services, models)
    assert isinstance(found, dict)
    assert [one.model for one in found.values()] == ["general", "general"]
    run = Run(Osml(models, without=["probe"]), large)
    run(*services)
    assert "it needs 6 and 1" in run.words()
    assert "out-of-distribution" not in run.words()


def test_who_is_strange_to_all_models_is_run_by_the_formula_as_the_own_model_says() -> None:
    models, _ = _of_one_size()
    huge = replace(PLATFORM, cores=400, cpus="0-399")
    found = ask(observe(service("a"), service("b"), platform=huge), [service("a")], models)
    assert isinstance(found, dict)
    assert found["a"].strange is not None
    assert "trained on 4 to 64" in found["a"].strange
    assert models.only("a", "c2").general is None
    assert models.only("a2").general is models.general
