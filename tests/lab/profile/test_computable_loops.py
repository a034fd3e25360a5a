"""Loops whose misses follow from a formula: the measured curve is within 2 points of it with every number of ways."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from osml.lab.profile.caches import Caches
from osml.lab.profile.curve import curve_of
from osml.lab.profile.known import Known, known_loops, miss_ratios, small_caches
from osml.lab.profile.outcome import Outcome
from osml.lab.profile.program import Work, run_program

pytestmark = pytest.mark.process

WITHIN = 0.02


def run(loops: Path, *words: object, of: Caches) -> Outcome:
    return run_program(Work([str(loops), *map(str, words)]), of)


def of_loop(name: str) -> Known:
    return next(loop for loop in known_loops() if loop.name == name)


@pytest.mark.parametrize("loop", known_loops(), ids=lambda loop: loop.name)
def test_curve_is_that_of_the_formula(loops: Path, loop: Known) -> None:
    found = miss_ratios(loop.run(loops))
    for way, (measured, expected) in enumerate(zip(found, loop.expected, strict=True), start=1):
        assert measured == pytest.approx(expected, abs=WITHIN), f"{way} ways"


def test_prefetcher_follows_a_sweep_and_no_pointer_chase(loops: Path) -> None:
    def left(name: str) -> float:
        report = of_loop(name).run(loops).report
        return float(curve_of(report, 1, whole_run=True).mpki[0] / curve_of(report, 0, whole_run=True).mpki[0])

    assert left("pointer chase, sets hashed") > 0.8
    assert left("sweep, sets hashed") < 0.2


def test_sampled_sets_show_the_curve_of_all_sets(loops: Path) -> None:
    words = ("random", 20 * 8192, 8)
    everything = run(loops, *words, of=small_caches(True, sets=8192))
    sampled = run(loops, *words, of=small_caches(True, 3, sets=8192))
    assert miss_ratios(sampled) == pytest.approx(miss_ratios(everything), abs=WITHIN)
    exact, estimate = (curve_of(one.report, 0, whole_run=True) for one in (everything, sampled))
    assert not (np.abs(estimate.mpki - exact.mpki) > 2.0 * (estimate.errors + exact.errors)).any()
    assert estimate.errors.max() > exact.errors.max()


def test_written_lines_go_back_to_memory_once_for_each_miss(loops: Path) -> None:
    def traffic(pattern: str) -> float:
        report = run(loops, pattern, 2560, 600, of=small_caches(hashed=False)).report
        return float(curve_of(report, 0, whole_run=True).bytes_per_miss[4])

    assert traffic("write") == pytest.approx(128.0, rel=0.03)
    assert traffic("sweep") == pytest.approx(64.0, rel=0.03)


def test_the_same_seed_gives_the_same_counts_and_another_one_others(loops: Path) -> None:
    def counts(seed: int) -> list[Any]:
        return run(loops, "random", 30_000, 3, of=Caches(1024, 8, 1, seed=seed)).report["groups"]

    assert counts(1) == counts(1)
    assert counts(1) != counts(2)


def test_what_a_forked_child_does_is_counted(loops: Path) -> None:
    outcome, alone = (run(loops, pattern, 2560, 200, of=small_caches(True)) for pattern in ("fork", "sweep"))
    assert outcome.report["processes"] == 2
    found, wanted = (
        curve_of(one.report, 0, whole_run=True).accesses * one.report["instructions"] for one in (outcome, alone)
    )
    assert found == pytest.approx(wanted, rel=0.1)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize("ways", [2, 8])
def test_misses_are_those_of_cachegrind(loops: Path, ways: int, tmp_path: Path) -> None:
    # An independent tool, without L2: ours has one of 1 KiB here, which keeps nothing that L1 does not.
    sets = 512
    outcome = run(
        loops, "random", 4 * sets, 30, of=Caches(sets, 16, 0, False, 0, l1_kib=16, l1_ways=4, l2_kib=1, l2_ways=1)
    )
    ours = curve_of(outcome.report, 0, whole_run=True).mpki[ways - 1] * outcome.report["instructions"] / 1000.0
    command = [
        "valgrind",
        "--tool=cachegrind",
        "--I1=16384,4,64",
        "--D1=16384,4,64",
        f"--LL={sets * ways * 64},{ways},64",
    ]
    command += [f"--cachegrind-out-file={tmp_path}/out", str(loops), "random", str(4 * sets), "30"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = re.search(r"LL misses:\s+([\d,]+)", done.stderr)
    assert theirs is not None, done.stderr
    start_up = 4000.0  # the loader's pages differ between the two tools
    assert ours == pytest.approx(float(theirs[1].replace(",", "")), rel=0.03, abs=start_up)
