"""Parts of the osml policy: whole units, trades, the shield, what is remembered."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.domain import Latency, Partition, Region
from osml.policies.osml.answers.forecast import Answer
from osml.policies.osml.cliff_shield import safe
from osml.policies.osml.node import Cell, isolated, node_of
from osml.policies.osml.remembered.backoff import FIRST_S, LONGEST_S, Ban, is_banned, on_new_clock, with_ban
from osml.policies.osml.remembered.misses import drains, really_missed
from osml.policies.osml.remembered.service_memory import ENDURED, OUTDATED, Known, learned
from osml.policies.osml.steps.take_from_neighbours import best_fit
from osml.policies.osml.whole_units import cut_down, fits, missing, spread_out
from tests.kit.fake_models import observe, service

NOW_S = 100.0
NODE = node_of(observe(service("a"), service("b"), service("c")), None)
cells = st.builds(Cell, st.integers(1, 12), st.integers(1, 6))
three = st.fixed_dictionaries({"a": cells, "b": cells, "c": cells})


@given(three, st.sampled_from([["a"], ["a", "b"], ["a", "b", "c"]]))
def test_what_is_left_is_handed_out_whole_and_in_proportion(given_cells: dict[str, Cell], to: list[str]) -> None:
    found = spread_out(NODE, given_cells, to)
    assert sum(cell.cores for cell in found.values()) == 36
    assert sum(cell.ways for cell in found.values()) == 20
    for name, cell in given_cells.items():
        assert found[name].cores >= cell.cores
        assert name in to or found[name] == cell
    grown = [name for name in to if found[name].cores > given_cells[name].cores]
    has = [found[name].cores / given_cells[name].cores for name in grown]
    would = [(found[name].cores + 1) / given_cells[name].cores for name in to]
    assert max(has, default=0.0) <= min(would) + 1e-9  # nobody got a unit that would have served another better


@given(three, three)
def test_cells_are_cut_to_fit_and_nobody_below_its_least(wanted: dict[str, Cell], least: dict[str, Cell]) -> None:
    big = {name: Cell(cell.cores + 8, cell.ways + 4) for name, cell in wanted.items()}
    small = {
        name: Cell(min(cell.cores, big[name].cores), min(cell.ways, big[name].ways)) for name, cell in least.items()
    }
    found = cut_down(NODE, big, small)
    assert (found is None) == (not fits(NODE, small))
    if found is not None:
        assert fits(NODE, found)
        lack = missing(NODE, big)
        assert sum(c.cores for c in big.values()) - sum(c.cores for c in found.values()) == lack.cores
        assert all(found[n].cores >= small[n].cores and found[n].ways >= small[n].ways for n in found)


points = st.dictionaries(
    st.sampled_from("abcde"),
    st.lists(st.builds(Cell, st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3),
    max_size=5,
)


@settings(deadline=None)
@given(st.builds(Cell, st.integers(0, 8), st.integers(0, 5)), points)
def test_the_best_fit_has_the_fewest_givers_and_then_gives_the_least(lack: Cell, offers: dict[str, list[Cell]]) -> None:
    every: list[tuple[int, int]] = []
    for count in (1, 2, 3):
        for names in combinations(offers, count):
            for taken in product(*(offers[name] for name in names)):
                cores, ways = sum(c.cores for c in taken), sum(c.ways for c in taken)
                if cores >= lack.cores and ways >= lack.ways:
                    every.append((count, cores + ways))
    found = best_fit(lack, offers)
    assert (found is None) == (not every)
    if found is not None:
        assert (len(found), sum(c.cores + c.ways for c in found.values())) == min(every)


def _answer(oaa: float = 6.0, upper: float = 5.6) -> Answer:
    return Answer("a", "m", True, (5.0, 4.0), (upper, 6.0), (oaa, 2.0), (oaa + 0.7, 2.0), 1.0, None)


def _known(**changes: Any) -> Known:
    return replace(learned(None, _answer(), service("a"), Cell(8, 4), 1.0), **changes)


def test_the_shield_lets_pass_what_is_above_the_bound_of_the_cliff_or_within_a_core_of_the_oaa() -> None:
    known = _known()
    assert safe(known, Cell(6, 6), 1.0, NOW_S)  # the bound of RCliff in both
    assert safe(known, Cell(6, 2), 1.0, NOW_S)  # one less than the bound of the OAA (6.7), with its ways
    assert not safe(known, Cell(5, 6), 1.0, NOW_S)
    assert not safe(known, Cell(5, 2), 1.0, NOW_S)
    assert not safe(known, Cell(6, 1), 1.0, NOW_S)


def test_the_shield_lets_nothing_pass_that_missed_the_target_before() -> None:
    known = _known(rate=10.0, bans=with_ban([], Cell(7, 5), 10.0, NOW_S))
    assert not safe(known, Cell(7, 5), 1.0, NOW_S)
    assert not safe(known, Cell(7, 3), 1.0, NOW_S)
    assert safe(known, Cell(8, 3), 1.0, NOW_S)
    assert safe(replace(known, rate=5.0), Cell(7, 3), 1.0, NOW_S)  # at half the load it may do


def test_bans_of_smaller_cells_are_forgotten_and_the_list_stays_short() -> None:
    bans: list[Ban] = []
    for cores in range(2, 40):
        bans = with_ban(bans, Cell(cores, 2), None, NOW_S)
    assert len(bans) == 1
    for cores in range(40):
        bans = with_ban(bans, Cell(cores, 40 - cores), None, NOW_S)
    assert len(bans) <= 16
    assert is_banned(bans, Cell(39, 1), None, NOW_S)


def test_a_banned_cell_is_tried_again_after_minutes_and_ever_more_rarely_where_it_fails_again() -> None:
    bans: list[Ban] = []
    now_s, failed_s = NOW_S, list[float]()
    while now_s < NOW_S + 3 * 86_400.0:
        if not is_banned(bans, Cell(4, 2), 100.0, now_s):
            failed_s.append(now_s - NOW_S)
            bans = with_ban(bans, Cell(4, 2), 100.0, now_s)
        now_s += 10.0
    assert failed_s[:4] == [0.0, FIRST_S, 5 * FIRST_S, 21 * FIRST_S]
    assert sum(at < 86_400.0 for at in failed_s) <= 6
    assert sum(at >= 86_400.0 for at in failed_s) <= 3
    assert len(bans) == 1
    assert not is_banned(bans, Cell(5, 2), 100.0, NOW_S)


def test_a_larger_cell_that_fails_does_not_make_the_ban_of_a_smaller_one_shorter() -> None:
    bans: list[Ban] = []
    for at_s in (0.0, 200.0, 1000.0):
        bans = with_ban(bans, Cell(4, 2), None, at_s)
    until_s = bans[0].until_s
    bans = with_ban(bans, Cell(5, 2), None, 1010.0)
    assert is_banned(bans, Cell(4, 2), None, until_s - 1.0)
    assert not is_banned(bans, Cell(5, 2), None, until_s - 1.0)


def test_a_ban_of_another_clock_lasts_no_longer_than_from_its_start() -> None:
    bans = on_new_clock(with_ban([], Cell(4, 2), None, 1e6), 5.0)
    assert is_banned(bans, Cell(4, 2), None, 5.0 + FIRST_S - 1.0)
    assert not is_banned(bans, Cell(4, 2), None, 5.0 + FIRST_S)
    assert LONGEST_S == 86_400.0


def test_needs_are_means_of_what_was_predicted_while_nothing_changed() -> None:
    known = _known()
    for oaa in (8.0, 8.0, 8.0):
        known = learned(known, _answer(oaa), service("a"), Cell(8, 4), 1.0)
    assert known.oaa[0] == pytest.approx(6.0 + 3 * 2.0 / 4)
    moved = learned(known, _answer(20.0), service("a"), Cell(20, 4), 1.0)
    assert moved.oaa == known.oaa  # a part of the interval was in the old cell
    assert moved.settled == 0


def test_what_a_cell_showed_is_believed_among_others_for_a_while_and_then_forgotten() -> None:
    known = _known(cell=None, confined=True)
    for _ in range(OUTDATED - 1):
        known = learned(known, _answer(20.0), service("a"), None, 1.0)
        assert known.oaa[0] == 6.0
    known = learned(known, _answer(20.0), service("a"), None, 1.0)
    assert (known.oaa[0], known.confined) == (20.0, False)


def test_a_starved_service_teaches_nothing() -> None:
    known = _known(settled=3)
    assert learned(known, _answer(1.0), service("a", 5.0), Cell(8, 4), 1.0).oaa == known.oaa


def test_a_queue_that_drains_in_a_new_cell_teaches_nothing_and_one_that_stays_does() -> None:
    known = _known(confined=False, settled=1, missed=2, latency_ms=40.0)
    assert learned(known, _answer(20.0), service("a", 3.0), Cell(8, 4), 1.0).oaa == known.oaa  # 40 ms, now 30
    stays = learned(replace(known, latency_ms=30.0), _answer(20.0), service("a", 3.0), Cell(8, 4), 1.0)
    assert stays.oaa[0] == 20.0


def test_another_rate_of_requests_is_another_load_beyond_its_noise() -> None:
    known = _known(rate=1000.0)
    same = learned(known, _answer(20.0), service("a", rate=1100.0), Cell(8, 4), 1.0)
    assert same.loads == known.loads
    other = learned(known, _answer(20.0), service("a", rate=1500.0), Cell(8, 4), 1.0)
    assert other.loads == known.loads + 1
    assert other.oaa[0] == 20.0
    long, short = (replace(known, missed=2, latency_ms=latency_ms) for latency_ms in (900.0, 12.0))
    behind = learned(long, _answer(20.0), service("a", 3.0, rate=1500.0), Cell(8, 4), 1.0)
    assert behind.loads == known.loads  # a queue drains: completions are not arrivals
    # a wait of 12 ms can't have held back half of a second's requests
    assert learned(short, _answer(20.0), service("a", 3.0, rate=1500.0), Cell(8, 4), 1.0).loads == known.loads + 1
    assert learned(short, _answer(20.0), service("a", 3.0, rate=500.0), Cell(8, 4), 1.0).loads == known.loads


def test_a_miss_is_real_beyond_the_noise_of_its_tail_or_in_the_mean() -> None:
    known = _known(missed=1, level=1.02, settled=5)

    def measured(ratio: float, samples: int) -> Any:
        return replace(service("a"), latency=Latency(p99_ms=10.0 * ratio, samples=samples))

    assert not really_missed(known, measured(1.3, 400))  # four requests in the tail: 1 + 1 / sqrt(4)
    assert really_missed(known, measured(1.6, 400))
    assert really_missed(known, measured(1.05, 100_000))
    assert really_missed(replace(known, level=1.2), measured(1.1, 400))
    assert not really_missed(replace(known, missed=0), measured(0.9, 400))


def test_a_small_miss_that_lasts_is_real_and_one_that_is_noise_is_not() -> None:
    known = _known(rate=10.0)
    few = Latency(p99_ms=10.2, requests_per_s=10.0, samples=10)
    missed, met = replace(service("a"), latency=few), replace(service("a"), latency=replace(few, p99_ms=9.8))
    for _ in range(ENDURED):
        assert not really_missed(known, missed)
        known = learned(known, _answer(), missed, Cell(8, 4), 1.0)
    assert really_missed(known, missed)
    for _ in range(3):
        known = learned(known, _answer(), met, Cell(8, 4), 1.0)
    assert not really_missed(learned(known, _answer(), missed, Cell(8, 4), 1.0), missed)
    assert learned(known, _answer(), missed, Cell(9, 4), 1.0).missed_balance == 0  # another cell


def test_a_queue_drains_where_its_end_is_in_sight() -> None:
    assert drains(_known(latency_ms=200.0), service("a", 19.0))
    assert not drains(_known(latency_ms=200.0), service("a", 19.99))
    assert not drains(_known(latency_ms=200.0), service("a", 21.0))


def test_cells_are_read_back_with_jobs_in_the_background_and_without_what_services_share() -> None:
    partition = Partition(
        [
            Region(["a", "job"], 4, 0),
            Region(["a"], 0, 3),
            Region(["a", "b"], 2, 0),
            Region(["b"], 5, 2),
            Region(["job"], 9, 9),
        ]
    )
    assert isolated(partition, {"a", "b"}, has_ways=True) == {"a": Cell(4, 3), "b": Cell(5, 2)}


def test_limits_and_a_platform_that_change_between_two_intervals_are_seen_at_once() -> None:
    """What they say of a node is kept, so each of them has to be asked for."""
    seen = observe(service("a"), service("b"))
    assert node_of(seen, None).most("a") == Cell(36, 20)
    limits = {"min_cores": 3, "max_cores": 30, "min_ways": 2, "max_ways": 9}
    for limit, value in limits.items():
        changed = replace(seen, services=[replace(seen.services[0], **{limit: value}), seen.services[1]])
        node = node_of(changed, None)
        found = {
            "min_cores": node.least("a").cores,
            "max_cores": node.most("a").cores,
            "min_ways": node.least("a").ways,
            "max_ways": node.most("a").ways,
        }
        assert found[limit] == value
        assert node_of(seen, None).most("a") == Cell(36, 20)
    smaller = replace(seen, platform=replace(seen.platform, cores=10, cpus="0-9"))
    assert node_of(smaller, None).total == Cell(10, 20)
    groups = replace(seen, platform=replace(seen.platform, max_groups=2))
    assert node_of(seen, None).obstacle is None
    assert "cache group" in (node_of(groups, None).obstacle or "")
    assert node_of(replace(seen, platform=replace(seen.platform, ways=None)), None).ways is None
    job = replace(seen, services=[*seen.services, replace(seen.services[0], name="job", kind="be", target_ms=None)])
    with_priorities = replace(job, platform=replace(job.platform, realtime=True))
    assert not node_of(job, None).background
    assert node_of(with_priorities, None).background
