"""From counts to a curve, its error bars, the node's form, the document and the catalog's entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from osml.base.failure import Failure, InputError
from osml.lab.commands.profile import _own_service, profile
from osml.lab.profile import catalog_entry
from osml.lab.profile.caches import Caches, of_platform
from osml.lab.profile.curve import check_long_enough, curve_of
from osml.lab.profile.document import document
from osml.lab.profile.law import fitted
from osml.lab.profile.outcome import Load, Outcome
from osml.simulator import catalogs
from osml.simulator.mix import node_of, parse_mix

pytestmark = pytest.mark.unit

WAYS, GROUPS, SLICES = 4, 16, 32


def counts(histogram: list[float]) -> dict[str, Any]:
    """Counts of a group or slice, the same for both variants."""
    return {
        "demand": [histogram, histogram],
        "prefetched": [0] * (WAYS + 2),
        "written": [[1] * WAYS, [1] * WAYS],
    }


def report(rng: np.random.Generator, slice_spread: float = 0.0, instructions: int = 32_000_000) -> dict[str, Any]:
    """A run with Poisson counts at depths 1 to 4, beyond and cold."""
    rates = np.array([400.0, 200.0, 100.0, 50.0, 25.0, 10.0])
    groups = [counts([float(x) for x in rng.poisson(rates * SLICES / GROUPS)]) for _ in range(GROUPS)]
    factors = np.exp(slice_spread * rng.standard_normal(SLICES))
    slices = [
        counts([float(x) for x in rng.poisson(rates * factor)]) | {"instructions": instructions // SLICES}
        for factor in factors
    ]
    return {
        "sets": 1024, "sampled_sets": 256, "instructions": instructions, "groups": groups, "slices": slices,
        "footprint_bytes": 1e6, "processes": 1, "threads": 2, "unseen_programs": 0,
    }  # fmt: skip


def test_misses_are_what_lies_deeper_than_the_ways_times_the_share_of_sampled_sets() -> None:
    given = report(np.random.default_rng(0))
    for group in given["groups"]:
        group["demand"] = [[8, 4, 2, 1, 0.5, 0.25]] * 2
    found = curve_of(given, 0, whole_run=True)
    per_ki = 16 * 4 * 1000 / 32e6
    assert found.accesses == pytest.approx(15.75 * per_ki)
    assert found.mpki == pytest.approx(np.array([7.75, 3.75, 1.75, 0.75]) * per_ki)
    assert found.cold == pytest.approx(0.25 * per_ki)
    assert found.errors == pytest.approx(3.0 * 4 * 1000 / 32e6)  # all groups are alike: the rule of three
    assert found.bytes_per_miss[0] == pytest.approx(64.0 * (1.0 + 1.0 / 7.75))


def test_error_bars_cover_the_truth_as_often_as_they_say() -> None:
    truth = np.array([385.0, 185.0, 85.0, 35.0]) * SLICES * 4 * 1000 / 32e6
    inside = np.zeros(WAYS)
    for seed in range(300):
        found = curve_of(report(np.random.default_rng(seed)), 0, whole_run=True)
        inside += np.abs(found.mpki - truth) <= found.errors
    assert (inside / 300 >= 0.92).all()
    assert (inside / 300 <= 0.99).all()


def test_phases_widen_the_error_bar_of_a_part_of_a_run_only() -> None:
    given = report(np.random.default_rng(1), slice_spread=0.5)
    whole, part = (curve_of(given, 0, whole_run) for whole_run in (True, False))
    assert (part.errors > 1.5 * whole.errors).all()
    assert part.mpki == pytest.approx(whole.mpki)


def test_law_finds_the_numbers_of_a_curve_that_obeys_it() -> None:
    mib = np.arange(1.0, 21.0)
    mpki = 30.0 * (0.1 + 0.9 / (1.0 + (mib / 5.0) ** 2.5))
    found = fitted(mib, mpki, 30.0)
    assert found.miss_min == pytest.approx(0.1, abs=0.01)
    assert found.working_set_mib == pytest.approx(5.0, rel=0.05)
    assert found.steepness == pytest.approx(2.5, rel=0.05)
    assert found.rms < 0.1 < found.constant_rms


def test_law_of_a_program_that_never_misses_is_legal() -> None:
    found = fitted(np.arange(1.0, 5.0), np.zeros(4), 0.0)
    assert found.miss_min > 0.0
    assert found.rms == 0.0


def test_run_that_is_too_short_says_how_long_it_was() -> None:
    with pytest.raises(Failure, match=r"ran 999 instructions while it was measured, expected at least 1,000,000"):
        check_long_enough({"instructions": 999})


def made(load: Load | None, requests: int | None) -> dict[str, Any]:
    outcome = Outcome(report(np.random.default_rng(2)), 3.0, whole=load is None, requests=requests, load=load)
    return document("mine", "e5-2697v4", Caches(1024, WAYS, 2), outcome, ["mine", "--fast"])


def test_document_has_what_others_rely_on() -> None:
    found = made(None, 1000)
    assert found["source"] == "measured"
    assert found["ways"] == [1, 2, 3, 4]
    assert len(found["mpki"]) == len(found["mpki_error"]) == WAYS
    assert found["instructions_per_request"] == 32_000.0
    assert found["misses_per_request"][0] == pytest.approx(found["mpki"][0] * 32.0, rel=1e-3)
    assert any("kernel" in note for note in found["notes"])


def test_programs_that_ran_unseen_are_said() -> None:
    outcome = Outcome(report(np.random.default_rng(2)) | {"unseen_programs": 2}, 3.0, whole=True)
    found = document("mine", "e5-2697v4", Caches(1024, WAYS, 2), outcome, ["mine"])
    assert found["notes"][0].startswith("2 further programs were started (exec)")


LOAD = Load(0.5, 20.0, 30.0, 500.0, 1.0, 0.9, 600, 0)


def test_entry_of_a_server_runs_on_the_virtual_node(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    found = made(LOAD, 600)
    path.write_text(catalog_entry.text(found, threads=4))
    node = node_of(parse_mix(f"{path}=0.5"), "e5-2697v4")
    service = node.services[0]
    assert service.instructions == pytest.approx(32e6 / 600, rel=1e-5)
    assert service.memory.apki == pytest.approx(found["apki"], rel=1e-4)
    assert service.max_load == pytest.approx(4000.0)
    assert service.threads == 4


def test_entry_of_a_program_runs_as_a_job_on_the_virtual_node(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(catalog_entry.text(made(None, None), threads=1))
    node = node_of(parse_mix(f"moses=0.2,be:{path}"), "e5-2697v4")
    assert node.jobs[0].name == "mine"


def test_entry_marks_what_is_measured_and_what_is_assumed(tmp_path: Path) -> None:
    entry = yaml.safe_load(catalog_entry.text(made(None, None), threads=1))["mine"]
    assert set(entry["apki"]) == {"measured", "source", "error"}
    assert entry["cpi"]["note"] == "assumed: not measured"
    assert "rms" in entry["working_set_mib"]["note"]


def test_measured_parameter_needs_a_source_and_alone_may_have_an_error() -> None:
    entry = yaml.safe_load(catalog_entry.text(made(None, None), threads=1))
    for wrong, word in (({"measured": 1.0}, "'measured' with a 'source'"), ({"fitted": 1.0, "error": 0.1}, "'fitted'")):
        entry["mine"]["apki"] = wrong
        with pytest.raises(catalogs.CatalogError, match=word):
            catalogs.parse_catalog(yaml.safe_dump(entry), catalogs.JobModel, "mine.yaml")


def test_caches_are_those_of_the_platform() -> None:
    found = of_platform(catalogs.platform("e5-2697v4"), 256, 8, 0)
    assert (found.sets, found.ways, found.sample_shift, found.way_mib) == (36864, 20, 3, 2.25)


@pytest.mark.parametrize("sample", [0, 3, 64, -1])
def test_sample_that_cannot_be_is_refused(sample: int) -> None:
    with pytest.raises(InputError, match=r"--sample is .*, expected a power of two from 1 to 32 on e5-2697v4"):
        of_platform(catalogs.platform("e5-2697v4"), 256, sample, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"load": 1.0}, "--load is 1, expected a share above 0 and below 1"),
        ({"seconds": 0.0}, "--seconds is 0, expected above 0"),
        ({"warm_s": -1.0}, "--warm-s is -1, expected 0 to 86400"),
        ({"requests": 0}, "--requests is 0, expected at least 1"),
        ({"requests": 9, "warm_s": 5.0}, "--requests counts over the whole run, expected neither --seconds nor"),
        ({"requests": 9, "seconds": 5.0}, "--requests counts over the whole run, expected neither --seconds nor"),
        (
            {"service": "a,b", "protocol": "http", "command": ["x", "{port}"]},
            "the name of a service is 'a,b', expected",
        ),
        ({"platform": "nowhere"}, "--platform: unknown platform 'nowhere'"),
        ({"protocol": "http", "command": ["x"]}, "the command does not say {port}"),
        ({"service": "nobody"}, "service 'nobody' is unknown"),
    ],
)
def test_wrong_option_is_named(wrong: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "command": None, "service": "redis", "platform": "e5-2697v4", "seconds": None, "warm_s": None, "protocol": "",
        "requests_file": None, "load": 0.5, "threads": 1, "requests": None, "l2_kib": 256, "sample": 8, "seed": 0,
        "out": None, "json": False,
    }  # fmt: skip
    with pytest.raises(InputError) as caught:
        profile(**(given | wrong))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"), [(b"/gr\xfc\xdfe\n", "is not UTF-8"), (None, "can't be read (No such file")]
)
def test_a_file_of_requests_that_is_no_text_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "requests.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        _own_service("web", ["server", "{port}"], "http", file, 1)
    assert str(caught.value).startswith(f"--requests-file {file} {said}")
