"""What a rule is worth: paired differences, and the interval of their mean."""

from __future__ import annotations

import math
import statistics

import pytest

from osml.lab.bench.suites import osml_302
from osml.lab.benchmarks import osml_rules
from osml.lab.benchmarks.osml_rules import Worth, change, in_words, run, scenarios
from osml.policies.osml import Osml


def test_a_part_helps_where_things_are_worse_without_it() -> None:
    with_it = [Worth(0.1, 0.2), Worth(0.3, 0.0), Worth(0.2, 0.1)]
    without = [Worth(0.2, 0.2), Worth(0.3, 0.3), Worth(0.5, 0.1)]
    gain = change(with_it, without)
    assert gain.e_s == pytest.approx((0.1 + 0.0 + 0.3) / 3)
    assert gain.e_s_error == pytest.approx(1.645 * statistics.stdev([0.1, 0.0, 0.3]) / math.sqrt(3))
    assert gain.missed == pytest.approx(0.1)
    assert in_words(gain) == "E_S +0.1333 ± 0.1451, misses +10.0 ± 16.4 points"


def test_other_mixes_can_not_be_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        change([Worth(0.1, 0.2)], [])


def test_one_mix_has_no_interval() -> None:
    assert math.isnan(change([Worth(0.1, 0.2)], [Worth(0.2, 0.2)]).e_s_error)


def test_each_mix_has_its_own_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    class ToldError(RuntimeError):
        """Enough is known."""

    def loop(*_: object, seed: int, **__: object) -> None:
        seeds.append(seed)
        raise ToldError

    monkeypatch.setattr(osml_rules, "ClosedLoop", loop)
    for scenario in scenarios()["osml-302"][:3]:
        with pytest.raises(ToldError):
            run((), Osml().kinds, scenario)
    assert len(set(seeds)) == 3


def test_the_headline_has_no_mix_that_rules_were_chosen_with() -> None:
    fresh = [one for one in osml_302.scenarios() if one.part == osml_302.FRESH]
    looked_at = [one for one in osml_302.scenarios() if one.part == osml_302.MIXES]
    assert len(fresh) == osml_302.FRESH_MIXES
    assert not {one.name for one in fresh} & {one.name for one in looked_at}
    assert not {one.name for one in fresh} & {one.name for one in scenarios()["osml-302"]}


def test_every_suite_has_mixes() -> None:
    assert set(scenarios()) == {"osml-302", "osml-changes", "osml-jobs", "osml-arrivals", "osml-mismatch"}
    assert all(scenarios().values())
