"""The example of docs/how-to/new-policy.md: a package of its own, in the bench beside the others."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from osml.decide.state import open_state, seal_state
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "proportional"
MIX = parse_mix("moses=0.4,img-dnn=0.6,xapian=0.5,be:stream")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("proportional", EXAMPLE / "proportional.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_package_names_the_policy_in_the_entry_point_group(example: ModuleType) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["osml.policies"]["proportional"].split(":")
    assert module == "proportional"
    assert getattr(example, name).name == "proportional"


def test_it_is_legal_pure_and_its_state_travels(example: ModuleType) -> None:
    policy = example.Proportional()
    loop = ClosedLoop(node_of(MIX, "e5-2697v4"), MIX.loads, policy, seed=1)
    intervals = loop.run(60)
    assert all(interval.fault is None for interval in intervals)
    last = intervals[-1].decision
    assert last is not None
    state, why = open_state(last.policy_state or "", policy)
    assert why is None
    assert seal_state(policy, state) == last.policy_state
    assert set(state.weights) == {"moses", "img-dnn", "xapian", "stream"}


def test_it_fits_in_an_afternoon(example: ModuleType) -> None:
    lines = [line for line in (EXAMPLE / "proportional.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= 45
