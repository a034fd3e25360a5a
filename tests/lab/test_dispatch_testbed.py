"""The testbed's plans and figures: schedules, traces, gains. The farm itself: tests/e2e/test_dispatch_run.py."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.lab.testbed.burner import WIDTH, write_share
from osml.lab.testbed.figure11 import draw
from osml.lab.testbed.measure import Run
from osml.lab.testbed.report import compare
from osml.lab.testbed.settings import DispatchTrialSettings
from osml.lab.testbed.workload import PEAK, TRACE_STEPS, switches, utilisation


@given(st.integers(0, 1000), st.floats(0.01, 5))
def test_runs_of_a_pair_have_opposite_interference(pair: int, alpha: float) -> None:
    one, other = switches("web2", alpha, 60.0, 2 * pair), switches("web2", alpha, 60.0, 2 * pair + 1)
    assert [event.t for event in one] == [event.t for event in other]
    assert [event.interfered for event in one] == [not event.interfered for event in other]
    assert all(first.interfered != second.interfered for first, second in itertools.pairwise(one))


def test_phases_of_interference_have_the_mean_that_was_asked_for() -> None:
    times = [event.t for event in switches("web2", 0.5, 20_000.0, 4)]
    assert times[-1] / (len(times) - 1) == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize("trace", ["app", "etc"])
@pytest.mark.parametrize("seed", range(5))
def test_traces_rise_and_drop_between_the_peak_and_half_of_it(trace: str, seed: int) -> None:
    shape = utilisation(trace, seed)
    assert len(shape) == TRACE_STEPS
    assert shape[0] == shape[-1] == PEAK / 2
    assert PEAK / 2 <= min(shape) <= max(shape) <= PEAK
    assert shape == utilisation(trace, seed)


def test_etc_is_more_bursty_than_app() -> None:
    def roughness(trace: str) -> float:
        middle = [utilisation(trace, seed)[8:-8] for seed in range(20)]
        return sum(abs(b - a) for shape in middle for a, b in itertools.pairwise(shape))

    assert roughness("etc") > 3 * roughness("app")


def run_of(setting: str, policy: str, run: int, mean: float) -> Run:
    return Run(setting, policy, run, 100.0, 600, 0, mean, mean, 3 * mean, 4 * mean, 0.1, 0.5, 9, 900.0, 0.1, {}, None)


def settings_of(tmp_path: Path) -> DispatchTrialSettings:
    return DispatchTrialSettings(tmp_path, loads=(0.4,), intensities=("low",), traces=("app",))


def runs_of(settings: DispatchTrialSettings, **means: tuple[float, float]) -> list[Run]:
    return [
        run_of(setting.name, policy, run, mean)
        for setting in settings.settings
        for policy, both in means.items()
        for run, mean in enumerate(both)
    ]


def test_gains_are_against_the_mean_of_the_runs(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    runs = runs_of(settings, threshold=(10, 20), avoid=(20, 40), round_robin=(60, 60), non_idling=(15, 15))
    found = compare(settings, runs)
    assert found["settings"][0]["gain_pct"]["mean_ms"] == {"avoid": 50, "round_robin": 75, "non_idling": 0}
    ours = {claim["claim"]: claim["ours"] for claim in found["claims"]}
    assert ours["mean against avoid, all constant settings"] == "50 %"
    assert ours["p95 against round_robin, app trace"] == "75 %"
    assert len(found["aim"]["lower_than_both"]) == 2


def test_worse_than_the_better_counts_only_if_it_is_so_in_every_run(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    noisy = runs_of(settings, threshold=(10, 30), avoid=(15, 20), round_robin=(60, 60), non_idling=(15, 15))
    assert compare(settings, noisy)["aim"]["worse_than_the_better_in_every_run"] == []
    clear = runs_of(settings, threshold=(16, 30), avoid=(15, 20), round_robin=(60, 60), non_idling=(15, 15))
    assert len(compare(settings, clear)["aim"]["worse_than_the_better_in_every_run"]) == 2


def test_figure_11_is_drawn(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    runs = runs_of(settings, threshold=(10, 20), avoid=(20, 40), round_robin=(60, 60), non_idling=(15, 15))
    draw(settings, runs, tmp_path / "figure-11.png")
    assert (tmp_path / "figure-11.png").read_bytes().startswith(b"\x89PNG")


def test_the_burners_share_is_always_of_one_width(tmp_path: Path) -> None:
    path = tmp_path / "share"
    for share in (1.0, 0.0, 0.8563):
        write_share(path, share)
        text = path.read_bytes()
        assert len(text) == WIDTH
        assert float(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"runs": 0}, "--runs is 0, expected 1 to 100"), ({"loads": (1.2,)}, "--load is 1.2, expected a utilisation")],
)
def test_knobs_without_meaning_are_named(tmp_path: Path, change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DispatchTrialSettings(tmp_path, **change).check()  # pyright: ignore[reportArgumentType]
