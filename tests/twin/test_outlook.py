"""The twin of a node as an outlook: what E_S other assignments would bring."""

from functools import cache
from pathlib import Path

import msgspec
import pytest

from osml.base.failure import InputError, MachineError
from osml.decide import outlook as outlooks
from osml.decide.decide import decide
from osml.decide.outlook import check_outlook, load_outlook
from osml.domain import DRY_RUN, Assignment
from osml.twin.document import save
from osml.twin.make import made
from osml.twin.outlook import TwinOutlook
from tests.kit.twin_records import managed


@cache
def twin():
    return made(managed(120), seed=0)


@pytest.fixture
def outlook(tmp_path: Path) -> TwinOutlook:
    save(msgspec.structs.replace(twin(), node="node-1"), tmp_path / "node-1.json")
    save(twin(), tmp_path / "node-3.json")  # a copy of the twin of another node
    (tmp_path / "broken.json").write_text("{}")
    return load_outlook("twin", tmp_path)


def seen(node: str):
    return msgspec.structs.replace(managed(120).lines[100].observation, node=node)


def test_the_allocation_in_force_keeps_what_was_measured(outlook):
    observation = seen("node-1")
    now = decide(observation).entropy
    (same,) = outlook.e_s(observation, [observation.assignments])
    assert now is not None
    assert same == pytest.approx(now.e_s, abs=1e-6)


def test_a_service_that_loses_its_cores_makes_it_worse(outlook):
    observation = seen("node-1")
    service = next(one for one in observation.services if one.kind == "lc")
    starved = [
        msgspec.structs.replace(one, cpus="0") if one.service == service.name else one
        for one in observation.assignments
    ]
    before, after = outlook.e_s(observation, [observation.assignments, starved])
    assert after > before


def test_where_the_agent_only_watches_nothing_was_in_force(outlook):
    """The assignments of a dry run are what decisions would have set."""
    observation = msgspec.structs.replace(seen("node-1"), missing={DRY_RUN: "applies nothing"})
    now = decide(observation).entropy
    assert now is not None
    supposed, watched = outlook.e_s(observation, [observation.assignments, []])
    assert watched == pytest.approx(now.e_s, abs=1e-6)
    assert abs(supposed - now.e_s) > 1e-3


def test_an_unknown_node_a_broken_twin_and_a_new_service_have_no_prediction(outlook):
    options: list[list[Assignment]] = [[]]
    assert outlook.e_s(seen("node-2"), options) is None
    assert outlook.e_s(seen("broken"), options) is None
    assert outlook.e_s(seen("node-3"), options) is None
    observation = seen("node-1")
    stranger = msgspec.structs.replace(observation.services[0], name="stranger")
    assert outlook.e_s(msgspec.structs.replace(observation, services=[stranger]), options) is None


def test_a_service_that_the_twin_knows_as_a_job_has_no_prediction(outlook):
    """What the twin changes of it is its speed, and a higher speed is no longer latency."""
    observation = seen("node-1")
    services = [
        msgspec.structs.replace(one, kind="lc", target_ms=5.0) if one.kind == "be" else one
        for one in observation.services
    ]
    assert outlook.e_s(msgspec.structs.replace(observation, services=services), [[]]) is None


def test_a_load_that_nobody_counts_is_not_taken_as_none(outlook):
    observation = seen("node-1")
    services = [
        msgspec.structs.replace(one, latency=msgspec.structs.replace(one.latency, requests_per_s=None))
        if one.latency is not None
        else one
        for one in observation.services
    ]
    assert outlook.e_s(observation, [[]]) is not None
    assert outlook.e_s(msgspec.structs.replace(observation, services=services), [[]]) is None


def test_an_outlook_that_is_not_installed_is_named(tmp_path):
    with pytest.raises(InputError, match="outlook 'oracle' is not installed"):
        load_outlook("oracle", tmp_path)


def test_a_server_without_the_libraries_of_twins_says_what_to_install(tmp_path, monkeypatch):
    check_outlook("twin", tmp_path)
    monkeypatch.setattr(outlooks, "find_spec", lambda name: None if name == "numba" else object())
    with pytest.raises(MachineError, match=r"--twins needs the Python package 'numba'.*run `.*simulator"):
        check_outlook("twin", tmp_path)
