"""The page and picture of measured caches, out of documents as `osml look profile` prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osml.lab.results import profiles

pytestmark = pytest.mark.unit


def program(name: str, per_request: float | None) -> dict[str, Any]:
    """A program whose misses fall with the ways."""
    mpki = [10.0 / way for way in range(1, 21)]
    curve: dict[str, Any] = {
        "mpki": mpki, "mpki_error": [0.1] * 20, "apki": 12.5, "apki_error": 0.2,
        "law": {
            "miss_min": 0.01, "working_set_mib": 2.5, "steepness": 1.25, "rms": 0.125, "largest": 0.3,
            "constant_rms": 2.25,
        },
    }  # fmt: skip
    load = None if per_request is None else {"slow_down": 42.4}
    return curve | {
        "name": name, "ways": list(range(1, 21)), "way_mib": 2.25, "instructions_per_request": per_request,
        "footprint_mib": 33.0, "seconds": 61.0, "load": load, "notes": ["The kernel is not seen."],
        "with_stream_prefetcher": curve | {"mpki": [value / 4 for value in mpki]},
    }  # fmt: skip


def document() -> dict[str, Any]:
    return json.loads(
        json.dumps(
            {
                "programs": [program("search", 5000.0), program("xz", None)],
                "failed": [{"name": "speech", "why": "answered 0 requests"}],
                "loops": [{"name": "sweep", "largest": 0.0123}],
            }
        )
    )


def test_page_has_every_program_with_its_error_bars() -> None:
    text = profiles.page(document())
    assert "| search | 5,000 | 12.5 ± 0.2 | 10 ± 0.1 | 2.5 ± 0.1 | 0.5 ± 0.1 | 2.5 ± 0.1 | 33 | 61 | 42 |" in text
    assert "| xz |  | 12.5 ± 0.2 |" in text
    assert "| search | 0.01 | 2.5 | 1.25 | 0.12 | 2.2 |" in text


def test_page_says_what_failed_what_is_not_measured_and_how_far_loops_are_off() -> None:
    text = profiles.page(document())
    assert "- speech: answered 0 requests" in text
    assert text.count("The kernel is not seen.") == 1
    assert "| sweep | 1.23 |" in text


def test_page_sets_a_program_beside_that_of_the_papers() -> None:
    text = profiles.page(document())
    memory = profiles.assumed("search")
    assert memory is not None
    assert f"| search | xapian | 12.5 | {memory.apki:.3g} | 10 |" in text
    assert profiles.assumed("xz") is None


def test_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "profiles.png"
    profiles.draw(document(), path)
    assert path.stat().st_size > 10_000
