"""Profiles of OMBM: the file, and what is wrong with one."""

import msgspec
import pytest
from msgspec.structs import replace

from osml.bandwidth import Line, Point, Profile, load_profile, parse_profile, save_profile, shipped_profiles
from osml.bandwidth.library import ProfileLibrary, usual_library
from osml.base.failure import InputError


def a_profile(**changes: object) -> Profile:
    points = [Point(100.0, 1.0), Point(500.0, 2.0), Point(1000.0, 50.0)]
    lines = [Line(2.0, [Point(100.0, 2.0), Point(1000.0, 900.0)]), Line(10.0, points)]
    profile = Profile("web", "p", "classic", "p99", 1, 8, 20.0, lines, simulated=True)
    return replace(profile, **changes)


def test_a_profile_survives_its_file(tmp_path):
    profile = a_profile()
    save_profile(profile, tmp_path / "deep" / "web.json")
    assert load_profile(tmp_path / "deep" / "web.json") == profile
    assert profile.profilings == 5
    assert (profile.least_qps, profile.most_qps) == (100.0, 1000.0)


def test_inherited_points_are_no_profilings(tmp_path):
    lines = [Line(2.0, [Point(100.0, 2.0, measured=False), Point(1000.0, 9.0)]), a_profile().lines[1]]
    save_profile(a_profile(lines=lines), tmp_path / "x.json")
    assert load_profile(tmp_path / "x.json").profilings == 4


TWO = [Point(100.0, 1.0), Point(1000.0, 2.0)]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lines": [Line(2.0, TWO)]}, "lines has 1 bandwidth sample"),
        ({"lines": []}, "lines has 0 bandwidth sample"),
        ({"lines": [Line(2.0, TWO), Line(4.0, TWO[:1])]}, r"lines\[1\].points has 1 sample"),
        ({"lines": [Line(4.0, TWO), Line(2.0, TWO)]}, r"lines\[1\].bandwidth_gbps is 2.0, expected more than 4"),
        ({"lines": [Line(2.0, TWO), Line(30.0, TWO)]}, "more than peak_gbps 20"),
        ({"lines": [Line(2.0, TWO), Line(4.0, TWO[::-1])]}, r"lines\[1\].points\[1\].qps is 100.0"),
        ({"lines": [Line(2.0, TWO), Line(4.0, [Point(1.0, -1.0), Point(2.0, 1.0)])]}, "latency_ms is -1.0"),
        ({"lines": [Line(2.0, TWO), Line(4.0, [Point(2000.0, 1.0), Point(3000.0, 1.0)])]}, "no range of request rates"),
        ({"peak_gbps": 0.0}, "peak_gbps is 0.0"),
    ],
)
def test_a_wrong_profile_is_refused_with_the_field_and_the_value(changes, sentence, tmp_path):
    data = msgspec.json.encode(a_profile(**changes))
    with pytest.raises(InputError, match=sentence) as caught:
        parse_profile(data, "mine.json")
    assert str(caught.value).startswith("mine.json: ")
    with pytest.raises(InputError, match="not written"):
        save_profile(a_profile(**changes), tmp_path / "x.json")


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"\xff", b"[" * 100_000, b'{"service": 3}'])
def test_what_is_no_profile_is_refused_in_one_sentence(data):
    with pytest.raises(InputError, match="make one with `osml lab ombm profile`"):
        parse_profile(data, "x")


def test_a_missing_file_and_one_without_end_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_profile(tmp_path / "nothing.json")
    (tmp_path / "big.json").write_bytes(b" " * (5 * 2**20))
    with pytest.raises(InputError, match="at most"):
        load_profile(tmp_path / "big.json")


def test_the_package_ships_profiles_of_the_papers_services_by_both_methods():
    found = {(p.service, p.platform, p.method): p for p in shipped_profiles()}
    assert set(found) == {
        (name, "i7-4770k", method) for name in ("silo", "masstree", "img-dnn") for method in ("classic", "adaptive")
    }
    assert all(profile.profilings == 30 and profile.simulated for profile in found.values())


def test_a_library_prefers_the_wanted_method_and_the_first_profile():
    classic, adaptive = a_profile(), a_profile(method="adaptive")
    library = ProfileLibrary([classic, adaptive, a_profile(peak_gbps=99.0)])
    assert library.find("web", "p", "adaptive") == adaptive
    assert library.find("web", "p", "classic") == classic
    assert ProfileLibrary([classic]).find("web", "p", "adaptive") == classic
    assert library.find("web", "q", "classic") is None
    own = a_profile(platform="e5-2697v4")
    assert ProfileLibrary([own]).find("web", "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz", "classic") == own
    assert library.platforms_of("web") == ["p"]
    assert library.predictor("web", "p", "classic") is library.predictor("web", "p", "classic")


def test_an_operators_folder_goes_before_the_shipped_profiles(tmp_path, monkeypatch):
    mine = a_profile(service="silo", platform="i7-4770k", method="adaptive")
    save_profile(mine, tmp_path / "silo.json")
    monkeypatch.setenv("OSML_OMBM_PROFILES", str(tmp_path))
    usual_library.cache_clear()
    try:
        assert usual_library().find("silo", "i7-4770k", "adaptive") == mine
        monkeypatch.setenv("OSML_OMBM_PROFILES", str(tmp_path / "nothing"))
        usual_library.cache_clear()
        with pytest.raises(InputError, match="expected a folder"):
            usual_library()
    finally:
        monkeypatch.delenv("OSML_OMBM_PROFILES")
        usual_library.cache_clear()
