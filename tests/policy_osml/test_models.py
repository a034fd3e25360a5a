"""Models of known answers for tests of the osml policy; and what the policy does when models are wrong or missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from osml.decide.decide import decide_by
from osml.domain import Partition, Region
from osml.policies.osml import Osml, OsmlFormula
from osml.policies.osml.answers.models import Models, load_models
from osml.predictors import ModelMetadata, Prediction, models_folder
from tests.kit.fake_models import FEATURES, PLATFORM, Fake, Run, metadata, needs, observe, service

NAN = float("nan")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([NAN] * 5, "an impossible value: rcliff_cores nan"),
        ([3.0, 1.0, 500.0, 1.0, 1.0], "an impossible value: oaa_cores 500 on a node with 36"),
        ([3.0, -7.0, 4.0, 1.0, 1.0], "an impossible value: rcliff_ways -7"),
    ],
)
def test_needs_are_those_of_the_formula_where_a_model_answers_nonsense(answer: list[float], why: str) -> None:
    fake: Any = Fake(lambda row: answer)
    seen = observe(service("a"), service("b", 1.5))
    ours, theirs = decide_by(Osml(Models(a2=fake)), seen), decide_by(OsmlFormula(), seen)
    assert ours.partition == theirs.partition
    assert why in ours.reasons[0].text
    assert "square-root staffing" in ours.reasons[0].text
    assert ours.forecasts == []


def test_needs_are_those_of_the_formula_where_a_model_raises() -> None:
    class Broken(Fake):
        def predict(self, features: np.ndarray[Any, Any]) -> Prediction:
            raise RuntimeError("wrong shape")

    broken: Any = Broken(lambda row: [])
    decision = decide_by(Osml(Models(a2=broken)), observe(service("a"), service("b")))
    assert "can't answer (RuntimeError: wrong shape)" in decision.reasons[0].text


def test_what_was_not_in_training_has_needs_by_the_formula_for_as_long_as_it_lasts() -> None:
    known = needs(rate_10=4.0)
    strange = metadata(features=FEATURES)
    strange = ModelMetadata(
        **{f: getattr(strange, f) for f in strange.__struct_fields__ if f != "features"},
        features=[replace(spec, high=36.0) if spec.name == "platform_cores" else spec for spec in strange.features],
    )
    fake: Any = known.a2
    fake.metadata = strange
    run = Run(Osml(known))
    run(service("a"), service("b"))
    assert "square-root staffing" not in run.words()
    wide = replace(PLATFORM, cores=96, cpus="0-95")
    run(service("a"), service("b"), platform=wide)
    assert "a is out-of-distribution for the models (platform_cores 96, trained on 0 to 36)" in run.words()
    run(service("a"), service("b"), times=4)
    assert "a is out-of-distribution for the models (in-distribution for 4 of 5 intervals)" in run.words()
    run(service("a"), service("b"))
    assert "square-root staffing" not in run.words()


def test_a_folder_without_models_says_so_and_raises_nothing(tmp_path: Path) -> None:
    found = load_models(tmp_path, "e5-2697v4")
    assert found.a2 is None
    assert any("no model a2 for platform 'e5-2697v4'" in fault for fault in found.faults)
    decision = decide_by(Osml(found), observe(service("a"), service("b")))
    assert "no model a2" in decision.reasons[0].text


def test_a_file_with_another_checksum_is_not_used(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "models"
    shutil.copytree(models_folder(), folder)
    with (folder / "a2-masked-e5-2697v4" / "model.onnx").open("ab") as file:
        file.write(b"x")
    found = load_models(folder, "e5-2697v4")
    assert found.a2 is None
    assert found.c2 is not None
    assert any("sha256" in fault for fault in found.faults)


def test_shipped_models_load_without_fault() -> None:
    pytest.importorskip("onnxruntime")
    assert load_models(models_folder(), "e5-2697v4").faults == ()


def test_cells_are_taken_up_when_the_models_can_be_asked_again() -> None:
    fine = needs(rate_10=4.0)
    run = Run(Osml(Models()))
    run(service("a"), service("b", 1.5), times=6)
    assert "square-root staffing" in run.words()
    run.policy = Osml(fine)
    run(service("a"), service("b"), times=5)
    assert run.decision.partition.cores_of("a") >= 4
    assert run.decision.forecasts[0].oaa.cores == pytest.approx(4.0)


def test_a_partition_of_somebody_else_is_no_obstacle() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    odd = Partition([Region(["a", "b"], 3, 2), Region(["a"], 5, 5), Region(["b"], 5, 5)])
    run(service("a"), service("b"), partition=odd)
    assert run.cores()["a"] >= 4
