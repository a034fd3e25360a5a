"""Mixes in one line of text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.engine import MAX_LOAD
from osml.simulator.mix import Mix, loads_on, node_of, parse_mix, scaling_notes


def test_services_and_jobs_keep_their_order() -> None:
    mix = parse_mix("moses=0.4, img-dnn=0.6,be:stream ,xapian=.5,be:blackscholes")
    assert list(mix.loads.items()) == [("moses", 0.4), ("img-dnn", 0.6), ("xapian", 0.5)]
    assert mix.jobs == ("stream", "blackscholes")
    assert parse_mix(str(mix)) == mix


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "entry 1 is ''"),
        ("moses", "entry 1 is 'moses', expected NAME=LOAD or be:NAME"),
        ("moses=0.4,", "entry 2 is ''"),
        ("=0.4", "entry 1 is '=0.4'"),
        ("be:", "entry 1 is 'be:'"),
        ("be:stream=0.5", "entry 1 is 'be:stream=0.5'"),
        ("moses=", "load of 'moses' is ''"),
        ("moses=abc", "load of 'moses' is 'abc'"),
        ("moses=nan", "load of 'moses' is 'nan'"),
        ("moses=inf", "load of 'moses' is 'inf'"),
        ("moses=0", "load of 'moses' is '0'"),
        ("moses=-0.1", "load of 'moses' is '-0.1'"),
        ("moses=2.5", "above 0 and up to 2"),
        ("moses=0.1,moses=0.2", "'moses' occurs twice"),
        ("be:stream,be:stream", "'stream' occurs twice"),
        ("a" * 5000, "5000 characters"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_mix(text)
    assert says in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_mix_or_one_sentence(text: str) -> None:
    try:
        assert isinstance(parse_mix(text), Mix)
    except InputError as error:
        assert "mix" in str(error)


@given(load=st.floats(0.0, MAX_LOAD, exclude_min=True))
def test_a_mix_reads_its_own_text(load: float) -> None:
    mix = Mix({"moses": load}, ("stream",))
    assert parse_mix(str(mix)) == mix


def test_loads_are_by_the_names_that_services_have_on_the_node(tmp_path: Path) -> None:
    own = tmp_path / "shop.yaml"
    entry = yaml.safe_load(catalogs.shipped_text("services.yaml"))["xapian"]
    own.write_text(yaml.safe_dump({"shop": entry}))
    mix = parse_mix(f"{own}=0.3,moses=0.2")
    assert loads_on(node_of(mix, "e5-2697v4"), mix.loads) == {"shop": 0.3, "moses": 0.2}


def test_a_platform_and_a_service_of_own_files_go_together(tmp_path: Path) -> None:
    shop, box = tmp_path / "shop.yaml", tmp_path / "box.yaml"
    entry = yaml.safe_load(catalogs.shipped_text("services.yaml"))["xapian"]
    machine = yaml.safe_load(catalogs.shipped_text("platforms.yaml"))["e5-2697v4"]
    box.write_text(yaml.safe_dump({"box": machine}))
    home = next(iter(entry["deployments"]))
    shop.write_text(yaml.safe_dump({"shop": entry | {"deployments": {"box": entry["deployments"][home]}}}))
    node = node_of(parse_mix(f"{shop}=0.3"), str(box))
    assert [service.name for service in node.services] == ["shop"]
    assert scaling_notes(node) == []  # its load is known for this very machine
    box.write_text(yaml.safe_dump({"e5-2697v4": machine}))
    assert scaling_notes(node_of(parse_mix("moses=0.3"), str(box))) == []


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown platform 'pdp-11', known are .*e5-2697v4"):
        node_of(parse_mix("moses=0.4"), "pdp-11")
    with pytest.raises(InputError, match=r"unknown LC service 'mosses', known are .*moses"):
        node_of(parse_mix("mosses=0.4"), "e5-2697v4")
    with pytest.raises(InputError, match=r"unknown BE job 'streem', known are .*stream"):
        node_of(parse_mix("moses=0.4,be:streem"), "e5-2697v4")


def test_loads_that_nobody_published_say_how_they_were_scaled() -> None:
    assert scaling_notes(node_of(parse_mix("moses=0.4"), "e5-2697v4")) == []
    notes = scaling_notes(node_of(parse_mix("moses=0.4,mysql=0.2"), "gold-6240m"))
    assert any("mysql" in note for note in notes)
