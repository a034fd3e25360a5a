"""What the scheduler above is told of a node that misses its targets for long."""

from __future__ import annotations

import math

import pytest

from osml.allocation.violation import migration, violated_since
from osml.domain import Latency, Service

LATE = {"web": Service("web", "lc", target_ms=10.0, latency=Latency(p99_ms=30.0))}


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(60, "1 min"), (299, "2 min"), (300, "5 min"), (3599, "30 min"), (3600, "1 h"), (86_399, "23 h"), (9e9, "a day")],
)
def test_how_long_is_told_in_few_steps(seconds: float, told: str) -> None:
    found = migration(LATE, 5.0, 5.0 + seconds)
    assert found is not None
    assert f"for {told} or more;" in found.message


def test_a_day_of_it_changes_the_words_thirty_times_at_most() -> None:
    said = {found.message for second in range(86_400) if (found := migration(LATE, 0.0, float(second))) is not None}
    assert 20 < len(said) <= 30


def test_the_first_minute_is_nobodys_business() -> None:
    assert migration(LATE, 0.0, 59.0) is None


@pytest.mark.parametrize(
    ("state", "since"),
    [(None, 50.0), (7.0, 7.0), (50.0, 50.0), (51.0, 50.0), (math.nan, 50.0), (math.inf, 50.0), (-math.inf, 50.0)],
)
def test_a_violation_begins_now_where_the_state_names_no_time_before(state: float | None, since: float) -> None:
    assert violated_since(LATE, state, 50.0) == since


def test_a_service_without_a_measurement_ends_no_violation() -> None:
    unknown = {"web": Service("web", "lc", target_ms=10.0)}
    assert violated_since(unknown, 7.0, 50.0) == 7.0
    assert violated_since(unknown, math.nan, 50.0) is None
