"""The catalogs: complete, and clear about what is wrong in one that isn't."""

import pytest
import yaml

from osml.virtual import catalogs
from osml.virtual.models import JobModel, PlatformModel, ServiceModel

GOOD = {
    "threads": {"fitted": 4},
    "cpi": {"fitted": 1.0},
    "apki": {"fitted": 1.0},
    "miss_min": {"fitted": 0.1},
    "working_set_mib": {"fitted": 1.0},
    "steepness": {"fitted": 2.0},
    "mlp": {"published": 2.0, "source": "a paper"},
    "bytes_per_miss": {"fitted": 64.0},
    "footprint_mib": {"fitted": 10.0},
}


def test_every_shipped_entry_loads():
    assert {"e5-2697v4", "gold-6338", "i7-4770k"} <= set(catalogs.platform_names())
    assert {"moses", "img-dnn", "xapian", "masstree"} <= set(catalogs.service_names())
    assert {"fluidanimate", "streamcluster", "stream", "cpu-burner"} == set(catalogs.job_names())
    for name in catalogs.service_names():
        assert isinstance(catalogs.service(name), ServiceModel)
        assert catalogs.platform(catalogs.service(name).platform).id == catalogs.service(name).platform


def test_the_training_platform_is_as_published():
    platform = catalogs.platform("e5-2697v4")
    assert (platform.cpus, platform.physical_cores, platform.ways, platform.way_mib) == (36, 18, 20, 2.25)
    assert platform.mba is False
    assert platform.siblings[1] == [1, 19]
    assert sorted(platform.cpu_order()) == list(range(36))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cpi": None}, "'cpi' is missing"),
        ({"cpi": {"fitted": -1.0}}, "'cpi' is -1.0, expected a value above 0"),
        ({"cpi": {"fitted": float("nan")}}, "'cpi' is nan, expected a number"),
        ({"threads": {"fitted": 1.5}}, "'threads' is 1.5, expected a whole number"),
        ({"mlp": {"published": 2.0}}, "expected 'published' with a 'source'"),
        ({"mlp": {"published": 2.0, "fitted": 2.0, "source": "x"}}, "expected either"),
        ({"mlp": 2.0}, "expected either 'published' with a 'source' or 'fitted'"),
        ({"speling": {"fitted": 1.0}}, "unknown parameter 'speling'"),
    ],
)
def test_a_wrong_entry_is_named_in_one_sentence(change, sentence):
    entry = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(catalogs.CatalogError, match=r"mine\.yaml: job") as caught:
        catalogs.parse_catalog(yaml.safe_dump({"job": entry}), JobModel, "mine.yaml")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_good_entry_is_taken():
    job = catalogs.parse_catalog(yaml.safe_dump({"job": GOOD}), JobModel, "mine.yaml")["job"]
    assert job.threads == 4
    assert job.memory.mlp == 2.0


@pytest.mark.parametrize("text", ["", "- a\n", "a: [1\n"])
def test_what_is_no_catalog_is_refused(text):
    with pytest.raises(catalogs.CatalogError, match="mine"):
        catalogs.parse_catalog(text, PlatformModel, "mine.yaml")


def test_unknown_names_list_the_known_ones():
    with pytest.raises(catalogs.CatalogError, match=r"unknown platform 'vax', known are e5-2630v4, e5-2697v4"):
        catalogs.platform("vax")
    with pytest.raises(catalogs.CatalogError, match=r"unknown LC service 'mosse', known are ads, .*moses"):
        catalogs.service("mosse")
    with pytest.raises(catalogs.CatalogError, match="known are cpu-burner, fluidanimate, stream, streamcluster"):
        catalogs.job("doom")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(catalogs.CatalogError, match="cannot be read"):
        catalogs.load_file(tmp_path / "none.yaml", JobModel)
