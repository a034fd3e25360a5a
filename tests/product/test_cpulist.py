"""CPU lists as the kernel writes them: as numbers, as a mask, and back."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.domain.cpulist import MAX_CPU, cpu_mask, format_cpulist, lowest_cpu, parse_cpulist

cpus = st.integers(0, MAX_CPU)


@given(st.sets(cpus, max_size=60))
def test_list_and_mask_say_the_same_and_come_back(wanted: set[int]) -> None:
    text = format_cpulist(wanted)
    assert parse_cpulist(text) == sorted(wanted)
    mask = cpu_mask(text)
    assert {cpu for cpu in range(MAX_CPU + 1) if mask >> cpu & 1} == wanted
    assert lowest_cpu(mask) == min(wanted, default=-1)


@given(st.lists(st.tuples(cpus, cpus), min_size=80, max_size=120))
def test_a_long_list_is_read_like_a_short_one(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{min(pair)}-{max(pair)}" for pair in ranges)
    assert cpu_mask(text).bit_count() == len(parse_cpulist(text))


def test_a_list_that_says_the_same_again_and_again_costs_no_more_than_its_text() -> None:
    text = ",".join([f"0-{MAX_CPU}"] * 30_000)
    began = time.process_time()
    _ = cpu_mask(text)
    of_mask = time.process_time() - began
    began = time.process_time()
    assert parse_cpulist(text) == list(range(MAX_CPU + 1))
    assert time.process_time() - began < 5 * of_mask + 0.1  # it was 100 times as long


@pytest.mark.parametrize("text", ["x", "3-1", "1,,2", "-1", "0-", f"{MAX_CPU + 1}", "1\u0663", "0-9999999999"])
@pytest.mark.parametrize("read", [parse_cpulist, cpu_mask])
def test_anything_else_is_refused_by_name(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match="CPU list"):
        read(text)
