"""The catalogs: complete, and clear about what is wrong in one that isn't."""

from dataclasses import replace
from importlib import resources

import pytest
import yaml

from osml.simulator import catalogs
from osml.simulator.models import JobModel, PlatformModel, ServiceModel

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
    "power": {"fitted": 1.0},
    "disk_mbps": {"fitted": 0.0},
    "network_gbps": {"fitted": 0.0},
    "flows": {"fitted": 0},
}
DEPLOYED = {
    "max_load": {"published": 100.0, "source": "a paper"},
    "target_ms": {"fitted": 10.0},
    "percentile": {"fitted": "p99"},
    "threads": {"fitted": 4},
    "instructions": {"fitted": 1e6},
    "cv2": {"fitted": 0.5},
    "usable": {"fitted": 1.0},
    "burstiness": {"fitted": 1.0},
    "serial_ms": {"fitted": 0.0},
}
OF_JOBS = {"threads", "disk_mbps", "network_gbps", "flows"}
OF_SERVICES = ("switch_cost", "queue_limit_s", "stack_ms", "disk_ios", "pages", "network_kib", "device_kib")


def service_entry(**deployed):
    entry = {key: value for key, value in GOOD.items() if key not in OF_JOBS}
    entry |= {key: {"fitted": 1.0} for key in OF_SERVICES}
    return entry | {"deployments": {"e5-2697v4": DEPLOYED | deployed}}


def test_every_shipped_entry_loads():
    assert {"e5-2697v4", "gold-6338", "i7-4770k"} <= set(catalogs.platform_names())
    assert {"moses", "img-dnn", "xapian", "masstree"} <= set(catalogs.service_names())
    papers = {"fluidanimate", "streamcluster", "stream", "blackscholes", "bodytrack", "ferret", "raytrace", "swaption"}
    papers |= {"kmeans", "bayes", "pagerank", "libquantum", "lbm", "bwaves", "cpu-burner"}
    assert papers <= set(catalogs.job_names())
    for name in catalogs.service_names():
        for platform_id, service in catalogs.deployments(name).items():
            assert isinstance(service, ServiceModel)
            assert catalogs.platform(platform_id).id == service.platform == platform_id
            assert service.scaled == ""


def test_all_services_of_the_papers_are_there():
    trained = ["img-dnn", "masstree", "memcached", "mongodb", "moses", "nginx", "specjbb", "sphinx", "xapian"]
    trained += ["login", "ads"]
    unseen = ["silo", "shore", "mysql", "redis", "nodejs"]
    assert {*trained, *unseen} <= set(catalogs.service_names())


def test_where_no_load_is_published_it_is_scaled_and_says_how():
    model, home, larger = catalogs.service("specjbb"), catalogs.platform("e5-2697v4"), catalogs.platform("gold-6278c")
    without_lock = catalogs.scaled_to(replace(model, serial_ms=0.0), home, larger)
    # 26 cores of 2.6 GHz without hyperthreads against 18 of 2.3 GHz, whose two threads run at 0.64 each
    assert without_lock.max_load / model.max_load == pytest.approx(26 * 2.6 / (18 * 2.3 * 1.28))
    assert without_lock.scaled.endswith("for gold-6278c: e5-2697v4's times 1.28 (cores, clock)")
    here = catalogs.service("specjbb", "gold-6278c")
    assert here.max_load == model.max_load
    assert here.scaled.startswith("no load of specjbb is published for gold-6278c: e5-2697v4's times 1 ")
    assert here.scaled.endswith("(its serial part does not scale with cores)")
    assert here.threads == 26
    smaller = catalogs.service("specjbb", "e5-2630v4")
    assert smaller.max_load / model.max_load == pytest.approx(10 * 2.2 / (18 * 2.3 * 1.28))


def test_a_deployment_replaces_parameters_of_the_behaviour():
    parsed = catalogs.parse_catalog(yaml.safe_dump({"s": service_entry(pages={"fitted": 7.0})}), ServiceModel, "f")
    assert parsed["s"]["e5-2697v4"].pages == 7.0


@pytest.mark.parametrize(
    ("deployed", "sentence"),
    [
        ({"usable": {"fitted": 1.5}}, "'usable' is 1.5, expected a share of at most 1"),
        ({"percentile": {"fitted": "p98"}}, "'percentile' is 'p98', expected one of"),
        ({"max_load": {"fitted": 0.0}}, "'max_load' is 0.0, expected a value above 0"),
        ({"threads": {"fitted": -4}}, "'threads' is -4, expected a value above 0"),
    ],
)
def test_a_wrong_deployment_is_named_in_one_sentence(deployed, sentence):
    with pytest.raises(catalogs.CatalogError, match="f: s: e5-2697v4") as caught:
        catalogs.parse_catalog(yaml.safe_dump({"s": service_entry(**deployed)}), ServiceModel, "f")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("deployments", [None, {}])
def test_a_service_without_a_platform_is_refused(deployments):
    entry = service_entry() | {"deployments": deployments}
    with pytest.raises(catalogs.CatalogError, match="deployments"):
        catalogs.parse_catalog(yaml.safe_dump({"s": entry}), ServiceModel, "f")


def test_a_platform_of_amd_kind_is_one_ccx_of_a_socket():
    milan, rome = catalogs.platform("epyc-7763"), catalogs.platform("epyc-7742")
    assert [(one.vendor, one.cpus, one.domains, one.ways) for one in (milan, rome)] == [
        ("amd", 16, 8, 16),
        ("amd", 8, 16, 16),
    ]
    assert milan.domains * milan.link_gbps > milan.bandwidth_gbps > 2 * milan.link_gbps
    assert catalogs.platform("gold-6338").domains == 1


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
        ({"threads": {"fitted": 5000}}, "'threads' is 5000, expected at most 4096"),
        ({"threads": {"fitted": 1.5}}, "'threads' is 1.5, expected a whole number"),
        ({"mlp": {"published": 2.0}}, "expected 'published' with a 'source'"),
        ({"mlp": {"published": 2.0, "fitted": 2.0, "source": "x"}}, "expected either"),
        ({"mlp": 2.0}, "expected either 'published' or 'measured' with a 'source' or 'fitted'"),
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
    with pytest.raises(catalogs.CatalogError, match=r"unknown BE job 'doom', known are bayes, .*streamcluster"):
        catalogs.job("doom")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(catalogs.CatalogError, match="cannot be read"):
        catalogs.load_file(tmp_path / "none.yaml", JobModel)


def own_platform(tmp_path, **changes):
    """A file with one platform: the shipped one, changed."""
    text = resources.files("osml.simulator").joinpath("catalog", "platforms.yaml").read_text("utf-8")
    entry = yaml.safe_load(text)["i7-4770k"] | changes
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"mine": {key: value for key, value in entry.items() if value is not None}}))
    return str(path)


def test_a_platform_file_of_ones_own_works_wherever_a_platform_does(tmp_path):
    path = own_platform(tmp_path, ways={"fitted": 12})
    assert catalogs.platform(path).ways == 12
    assert catalogs.service("moses", path).scaled.startswith("no load of moses is published for mine")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ways": None}, "mine: 'ways' is missing"),
        ({"bandwidth_gbps": {"fitted": -3.0}}, "'bandwidth_gbps' is -3.0, expected a value above 0"),
        ({"cpus": {"fitted": 5}}, "'cpus' is 5, expected one or two per physical core"),
        ({"ways": {"fitted": 99}}, "'ways' is 99, expected at most 62"),
        ({"vendor": {"fitted": "arm"}}, "'vendor' is 'arm', expected one of ('intel', 'amd')"),
        ({"domains": {"fitted": 65}}, "'domains' is 65, expected at most 64"),
        ({"domains": {"fitted": 0}}, "'domains' is 0, expected a value above 0"),
        (
            {"domains": {"fitted": [8, 8, 7]}},
            "'domains' is [8, 8, 7], expected a number: the virtual node has cache domains of one size only",
        ),
    ],
)
def test_a_wrong_platform_file_is_named_in_one_sentence(tmp_path, changes, sentence):
    with pytest.raises(catalogs.CatalogError) as caught:
        catalogs.platform(own_platform(tmp_path, **changes))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
