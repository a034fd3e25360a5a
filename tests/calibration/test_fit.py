"""Facts, the fit to those it may see, and the comparison with all."""

import json
import math
from importlib import resources

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from osml.simulator import catalogs
from osml.simulator.calibration.catalog_text import with_fitted
from osml.simulator.calibration.facts import parse_facts, shipped_facts
from osml.simulator.calibration.fit import fit_service
from osml.simulator.calibration.interference import ANTAGONISTS, tolerated_load_pct
from osml.simulator.calibration.validate import KINDS, check, within
from osml.simulator.catalogs import CatalogError
from osml.simulator.commands import app
from osml.simulator.models import ServiceModel

SERVICES = resources.files("osml.simulator").joinpath("catalog", "services.yaml")


def test_every_fact_can_be_shown_and_names_its_source():
    facts = shipped_facts()
    assert len(facts) > 100
    assert {fact.kind for fact in facts} <= set(KINDS)
    assert all(fact.source for fact in facts)
    assert {True, False} == {fact.held_back for fact in facts}
    for fact in facts:
        assert not fact.service or fact.service in catalogs.service_names()
        assert not fact.platform or fact.platform in catalogs.platform_names()


def test_what_is_held_back_is_the_cliffs_the_interference_table_and_the_entropies():
    held = {fact.kind for fact in shipped_facts() if fact.held_back}
    assert held == {"cliff", "cliff_kind", "oaa_threads", "interference", "ahq_mix"}
    assert {fact.kind for fact in shipped_facts() if not fact.held_back} == {
        "counter",
        "max_load",
        "ideal",
        "reserved",
        "cost",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- {id: a}", "missing required field `kind`"),
        ("[", "expected"),
        ("- {id: a, kind: ideal, source: s, published: x, tolerance: '1', held_back: true}", "Expected `float`"),
        ("- &a {id: a, kind: ideal, source: s, published: 1, tolerance: '1', held_back: true}\n- *a", "called 'a'"),
    ],
)
def test_wrong_facts_are_refused_in_one_sentence(text, sentence):
    with pytest.raises(CatalogError, match=r"mine\.yaml") as caught:
        parse_facts(text, "mine.yaml")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["moses", "mongodb", "specjbb", "img-dnn"])
def test_a_fit_gives_the_shipped_catalog(name):
    fitted = fit_service(name, shipped_facts())
    for platform_id, shipped in catalogs.deployments(name).items():
        ours = fitted[platform_id]
        for field in ("instructions", "cv2", "usable", "burstiness", "serial_ms", "disk_ios", "network_kib"):
            assert getattr(ours, field) == pytest.approx(getattr(shipped, field), rel=2e-3, abs=1e-9), field
        assert ours.memory.cpi == pytest.approx(shipped.memory.cpi, rel=1e-3)
        assert ours.memory.apki == pytest.approx(shipped.memory.apki, rel=1e-3)


def test_a_fit_never_looks_at_what_is_held_back():
    lies = [replace(f, published=f.published * 7 + 3) if f.held_back else f for f in shipped_facts()]
    assert fit_service("moses", lies) == fit_service("moses", shipped_facts())


def test_a_fitted_catalog_keeps_everything_else():
    text = SERVICES.read_text("utf-8")
    moses = catalogs.deployments("moses")
    changed = {key: ServiceModel(**{**vars(model), "instructions": 4.25e6}) for key, model in moses.items()}
    before, after = yaml.safe_load(text), yaml.safe_load(with_fitted(text, {"moses": changed}))
    for deployment in before["moses"]["deployments"].values():
        deployment["instructions"] = {"fitted": 4.25e6}
    assert after == before
    assert with_fitted(text, {}).splitlines()[:3] == text.splitlines()[:3]


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e6))
def test_tolerances_are_factors_shares_and_distances(published, ours):
    assert within(published, ours, "x1.5") == (published / 1.5 <= ours <= published * 1.5)
    assert within(published, published * 1.09, "10%")
    assert not within(published, published * 1.11, "10%")
    assert within(published, published + 15, "15")
    assert not within(published, math.inf, "x1.5")
    assert not within(published, math.nan, "15")


def test_facts_that_were_fitted_are_met():
    some = [fact for fact in shipped_facts() if not fact.held_back and fact.service in ("moses", "img-dnn", "nginx")]
    assert len(some) > 10
    assert [checked.fact.id for checked in check(some) if not checked.passed] == []


def test_whoever_shares_hyperthreads_with_a_burner_bears_little_load():
    platform = catalogs.platform("e5-2699v4")
    assert tolerated_load_pct(platform, catalogs.service("memcached", platform.id), ANTAGONISTS["hyperthread"]) == 0.0
    for name in ("xapian", "nginx", "moses"):
        assert tolerated_load_pct(platform, catalogs.service(name, platform.id), ANTAGONISTS["hyperthread"]) <= 10.0
    assert tolerated_load_pct(platform, catalogs.service("mongodb", platform.id), ANTAGONISTS["cpu"]) >= 90.0


def test_validate_prints_a_table_for_people_and_json_for_programs():
    lines = CliRunner().invoke(app, ["validate", "--only", "ahq.table2.8_cores"])
    assert lines.exit_code == 0
    assert "held back: " in lines.stdout
    document = json.loads(CliRunner().invoke(app, ["validate", "--only", "ahq.table2.8_cores", "--json"]).stdout)
    assert document["simulated"] is True
    assert document["total"] == 6
    assert set(document["facts"][0]) == {
        "id",
        "source",
        "fitted",
        "published",
        "ours",
        "tolerance",
        "pass",
        "note",
    }


def test_unknown_facts_and_services_are_refused(tmp_path):
    wrong = CliRunner().invoke(app, ["validate", "--only", "nothing"])
    assert "matches no fact" in str(wrong.exception)
    wrong = CliRunner().invoke(app, ["fit", "--service", "mosse", "--out", str(tmp_path / "x.yaml")])
    assert "unknown LC service, known are" in str(wrong.exception)
