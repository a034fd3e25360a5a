"""The osml policy where models, neighbours or states are odd: it stays legal, says so, and forgets what is over."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from osml.domain import Latency, MbaRange, Partition, Region, Service
from osml.policies.decide import RequestError, decide_by
from osml.policies.osml import Osml, OsmlC
from osml.policies.osml_memory import Known, banned, with_ban
from osml.policies.osml_models import Models, load_models
from osml.policies.osml_node import Cell
from osml.policies.osml_state import Pair
from osml.policies.state import open_state, seal_state
from osml.predictors import models_folder
from osml.tests.test_policies_osml import Values
from osml.tests.test_policies_osml_models import PLATFORM, Fake, Run, job, metadata, needs, observe, service


@pytest.mark.parametrize("spread", [float("nan"), float("inf")])
def test_a_bound_that_is_no_number_leaves_the_decision_to_arqs_rules(spread: float) -> None:
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0, 1.0, 1.0], spread=spread)
    decision = decide_by(Osml(Models(a2=fake)), observe(service("a"), service("b")))
    assert "answers a bound of rcliff_cores that is" in decision.reasons[0].text
    assert decision.forecasts == []
