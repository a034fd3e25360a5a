"""OMBM on the virtual node: the shipped profiles, the paper's claims that hold, and the commands."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osml.bandwidth import Predictor, load_profile, shipped_profiles
from osml.base.failure import Failure, InputError
from osml.lab.commands.ombm import app
from osml.lab.ombm.accuracy import (
    PUBLISHED_PCT,
    SECOND_SAMPLES_GBPS,
    SERVICES,
    accuracy_by_rate,
    judge,
    predicted_tails,
    profile_of,
    truth_of,
)
from osml.lab.ombm.assurance import assure, traces
from osml.lab.ombm.live_profiling import CommandProfiler
from osml.lab.ombm.profiling import VirtualProfiler, deployed, profile_virtual
from osml.lab.ombm.split import split_run
from osml.lab.trials.children import wait_until
from osml.policies.ombm import Ombm, OmbmClassic
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.reservation import reserved_flows, reserved_node


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("profile", shipped_profiles(), ids=lambda p: f"{p.service}-{p.method}")
def test_a_shipped_profile_is_what_the_command_writes(profile):
    profiler = VirtualProfiler(*deployed(profile.service, profile.platform), seed=0)
    again = profile_virtual(profiler, profile.method)
    assert [line.bandwidth_gbps for line in again.lines] == [line.bandwidth_gbps for line in profile.lines]
    for ours, shipped in zip(again.lines, profile.lines, strict=True):
        assert [p.qps for p in ours.points] == pytest.approx([p.qps for p in shipped.points], rel=1e-3)
        assert [p.latency_ms for p in ours.points] == pytest.approx([p.latency_ms for p in shipped.points], rel=1e-2)


def test_the_same_seed_gives_the_same_profile_and_another_one_does_not():
    assert profile_of("masstree", "adaptive", 3) == profile_of("masstree", "adaptive", 3)
    assert profile_of("masstree", "adaptive", 3).lines != profile_of("masstree", "adaptive", 4).lines


def test_stream_is_the_worst_company_and_reservations_are_kept():
    platform, silo = deployed("silo", "i7-4770k")
    alone = reserved_flows(platform, silo, 0.5, 24.8, ())[0]
    beside = reserved_flows(platform, silo, 0.5, 8.0)
    assert alone.p99_ms is not None and beside[0].p99_ms is not None
    assert beside[0].p99_ms > alone.p99_ms
    for bandwidth in (3.0, 8.0, 16.0):
        service, job = reserved_flows(platform, silo, 1.0, bandwidth)
        assert service.memory_bytes / service.dt / 1e9 <= bandwidth * 1.001
        assert job.memory_bytes / job.dt / 1e9 <= (24.8 - bandwidth) * 1.001


@pytest.mark.parametrize("name", ["silo", "masstree", "img-dnn"])
def test_adaptive_sampling_is_accurate_and_wastes_less_than_half(name):
    truth = truth_of(name)
    classic = judge(profile_of(name, "classic", 1), truth, "classic")
    adaptive = judge(profile_of(name, "adaptive", 1), truth, "adaptive")
    assert classic.profilings == adaptive.profilings == 30
    assert adaptive.accuracy_pct >= 95.0
    assert adaptive.mean_accuracy_pct >= 95.0
    assert adaptive.wasted_gbps < classic.wasted_gbps / 2.0
    assert classic.short_gbps == 0.0


def test_the_rates_of_the_figures_are_those_at_which_the_published_needs_are_taken():
    assert {name: truth_of(name).shown_qps for name in SERVICES} == {
        "silo": 8000.0,
        "masstree": 150_000.0,
        "img-dnn": 1500.0,
    }
    for name, published_gbps in (("masstree", 11.0), ("img-dnn", 3.0)):
        truth = truth_of(name)
        assert truth.needed_gbps[truth.shown] == pytest.approx(published_gbps, rel=0.1)


@pytest.mark.parametrize(("name", "points"), [("silo", 2.0), ("masstree", 5.0), ("img-dnn", 7.0)])
def test_classic_is_as_accurate_as_in_figure_7(name, points):
    assert judge(profile_of(name, "classic", 0), truth_of(name), "").accuracy_pct == pytest.approx(
        PUBLISHED_PCT[name], abs=points
    )


def test_silo_can_not_be_99_percent_right_where_14_gbps_are_predicted():
    # A straight line through 14 GB/s that begins at 6.4: whatever was needed before, it lost this part of the axis.
    # At 8,000 requests/s the node shows figure 7 (99 %) and not figure 6 (14 GB/s), at 8,500 about the other way round.
    truth, profile = truth_of("silo"), profile_of("silo", "classic", 0)
    predicted = {qps: Predictor(profile).predict(qps, 200.0).bandwidth_gbps for qps in (8000.0, 8500.0)}
    assert predicted == pytest.approx({8000.0: 6.4, 8500.0: 16.3}, rel=0.02)
    needed = dict(zip(truth.qps.tolist(), truth.needed_gbps.tolist(), strict=True))
    assert needed[8000.0] == pytest.approx(6.0, abs=0.1)
    assert needed[8500.0] < 6.5
    accuracy = dict(zip(truth.qps.tolist(), accuracy_by_rate(predicted_tails(profile, truth), truth), strict=True))
    assert accuracy[8000.0] > 97.0
    assert accuracy[8500.0] < 75.0


def test_which_sample_of_bandwidths_is_better_depends_on_the_service_as_in_figure_8():
    better = {
        name: judge(profile_of(name, "classic", 0, SECOND_SAMPLES_GBPS), truth_of(name), "").accuracy_pct
        - judge(profile_of(name, "classic", 0), truth_of(name), "").accuracy_pct
        for name in ("masstree", "img-dnn")
    }
    assert better["masstree"] > 5.0
    assert better["img-dnn"] < -5.0


@pytest.mark.parametrize("classic", [True, False])
@pytest.mark.parametrize("kind", ["static", "diurnal"])
@pytest.mark.parametrize("name", ["silo", "masstree", "img-dnn"])
def test_the_slo_holds_in_99_percent_of_the_intervals_beside_the_paper_jobs(name, kind, classic):
    found = assure(name, "B", kind, classic=classic, seed=1)
    # At silo's highest rate the queue of the beginning drains for 23 s: 13 of these 300 intervals, all of them missed.
    slow_start = (name, kind, classic) == ("silo", "static", True)
    assert found.slo_pct >= (95.5 if slow_start else 99.0)
    assert found.gain > 5.0


@pytest.mark.parametrize("name", ["silo", "masstree", "img-dnn"])
def test_the_slo_holds_in_99_percent_of_the_intervals_where_rates_jump_and_the_policy_learns(name):
    assert assure(name, "A", "random", classic=False, seed=7).slo_pct >= 99.0


def test_what_is_missed_behind_jumps_is_the_length_of_an_interval():
    # Near 10,000 requests/s hardly more can be served: one second of a jump there unseen is a backlog that drains in
    # several.
    assert assure("silo", "A", "random", classic=False, seed=13).slo_pct < 99.0
    assert assure("silo", "A", "random", classic=False, seed=13, interval_s=0.25).slo_pct >= 99.5
    assert assure("silo", "A", "random", classic=False, seed=13, told=True).slo_pct == 100.0


@pytest.mark.parametrize("kind", ["static", "diurnal"])
def test_corrected_gives_silo_less_than_half_of_what_classic_gives_beyond_its_need(kind):
    classic, corrected = (assure("silo", "C", kind, classic=classic, seed=1) for classic in (True, False))
    assert classic.wasted_gbps is not None and corrected.wasted_gbps is not None
    assert corrected.wasted_gbps < classic.wasted_gbps / 2.0


def test_a_shorter_interval_holds_jumps_with_less_bandwidth():
    slow = [assure("silo", "C", "random", classic=False, seed=seed) for seed in (7, 13)]
    fast = [assure("silo", "C", "random", classic=False, seed=seed, interval_s=0.25) for seed in (7, 13)]
    assert sum(one.slo_pct for one in fast) > sum(one.slo_pct for one in slow)
    assert sum(one.wasted_gbps or 0.0 for one in fast) < sum(one.wasted_gbps or 0.0 for one in slow) / 1.5


def test_osml_holds_the_targets_of_a_split_by_profiles_and_a_run_repeats_itself():
    profile = split_run("masstree", "STREAM", "static", "profile", seed=1)
    assert profile.slo_pct >= 99.0
    assert split_run("masstree", "STREAM", "static", "profile", seed=1) == profile


def test_a_run_repeats_itself_and_respects_the_machine():
    platform, silo = deployed("silo", "i7-4770k")
    trace = traces(silo, "random", 2)[0]
    for policy in (Ombm(), OmbmClassic()):
        runs = [
            ClosedLoop(reserved_node(platform, silo, ("lbm",)), {"silo": trace}, policy, regulator=True, seed=3).run(60)
            for _ in range(2)
        ]
        assert [i.observed for i in runs[0]] == [i.observed for i in runs[1]]
        for interval in runs[0][1:]:
            assert interval.decision is not None
            assert sum(interval.decision.partition.mba.values()) <= 24_800


def test_profile_predict_and_plot_from_the_command_line(tmp_path):
    file = str(tmp_path / "silo.json")
    made = run("profile", "silo", "--classic", "--out", file, "--json")
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout)
    assert (document["profilings"], document["simulated"]) == (30, True)
    found = json.loads(run("predict", file, "--qps", "8000", "--slo-ms", "200", "--json").stdout)
    assert found["bandwidth_gbps"] == pytest.approx(6.39, rel=0.01)
    assert found["clamped"] is False
    assert found["line"]["qps"] == 8000.0
    shown = run("predict", file, "--qps", "8000", "--slo-ms", "200")
    assert "GB/s for silo at 8,000 requests/s" in shown.stdout
    assert "line of 8,000 requests/s" in shown.stdout
    none = run("predict", file, "--qps", "10000", "--slo-ms", "1")
    assert "no bandwidth meets 1 ms" in none.stdout
    beyond = json.loads(run("predict", file, "--qps", "90000", "--slo-ms", "200", "--json").stdout)
    assert beyond["clamped"] is True and beyond["bandwidth_gbps"] == 24.8
    assert "unknown at higher rates" in run("predict", file, "--qps", "90000", "--slo-ms", "200").stdout
    assert "outside the profile" in beyond["notes"][0]
    picture = tmp_path / "deep" / "p.png"
    assert run("plot", file, "--out", str(picture), "--slo-ms", "200").exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--qps", "10", "--slo-ms", "0"], "--slo-ms is 0"),
        (["--qps", "nan", "--slo-ms", "1"], "--qps is nan"),
        (["--qps", "-1", "--slo-ms", "1"], "--qps is -1"),
        (["--qps", "10", "--slo-ms", "1", "--platform", "gold-6338"], "is a profile of 'i7-4770k', not of 'gold-6338'"),
    ],
)
def test_predictions_that_make_no_sense_are_refused(tmp_path, arguments, sentence):
    file = tmp_path / "silo.json"
    run("profile", "silo", "--classic", "--out", str(file))
    wrong = run("predict", str(file), *arguments)
    assert isinstance(wrong.exception, InputError)
    assert sentence in str(wrong.exception)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "unknown LC service"),
        (["silo", "--platform", "vax"], "unknown platform"),
        (["silo", "--bandwidths", "1,x"], "--bandwidths is '1,x'"),
        (["silo", "--classic", "--bandwidths", "1,99"], "expected values above 0 up to 24.8"),
        (["silo", "--classic", "--bandwidths", "5"], "lines has 1 bandwidth sample"),
        (["silo", "--rates", "10,5"], "expected 0 < lowest < highest"),
        (["silo", "--rates", "10"], "expected 2 numbers above 0"),
        (["silo", "--classic", "--exit-threshold", "2"], "expected a share between 0 and 1"),
        (["silo", "--profilings", "2"], "expected at least 8"),
        (["web", "--measure", "x {gbps} {qps}"], "needs --rates"),
    ],
)
def test_profiles_that_can_not_be_made_are_refused(tmp_path, arguments, sentence):
    wrong = run("profile", *arguments, "--out", str(tmp_path / "x.json"))
    assert isinstance(wrong.exception, InputError), wrong.output
    assert sentence in str(wrong.exception)
    assert not (tmp_path / "x.json").exists()


LIVE = ["--rates", "100,1000", "--peak-gbps", "20", "--platform", "mine", "--cores", "2", "--core-quantum", "0.5"]


def test_a_live_service_is_profiled_by_the_operators_command(tmp_path):
    script = (
        "import sys; g, q = map(float, sys.argv[1:]); print('p99', 2.0 if q < 80 * g else 60000 * (q / 80 / g - 1) + 3)"
    )
    file = tmp_path / "web.json"
    command = f'python3 -c "{script}" {{gbps}} {{qps}}'
    made = run("profile", "web", "--out", str(file), "--measure", command, "--profilings", "9", *LIVE)
    assert made.exit_code == 0, made.exception
    profile = load_profile(file)
    assert (profile.simulated, profile.profilings, profile.cores, profile.platform) == (False, 9, 2, "mine")
    assert profile.core_quantum == 0.5


def test_a_live_profile_whose_command_failed_once_goes_on(tmp_path):
    count, file = tmp_path / "count", tmp_path / "web.json"
    script = (
        "import sys, pathlib; c = pathlib.Path(sys.argv[3]); n = len(c.read_text()) if c.exists() else 0;"
        "c.write_text('x' * (n + 1)); g, q = map(float, sys.argv[1:3]);"
        "sys.exit('once' if n == 4 else print(2.0 if q < 80 * g else 60000 * (q / 80 / g - 1) + 3))"
    )
    command = f'python3 -c "{script}" {{gbps}} {{qps}} {count}'
    arguments = ("profile", "web", "--out", str(file), "--measure", command, "--profilings", "9", *LIVE)
    failed = run(*arguments)
    assert "ended with status 1: once" in str(failed.exception)
    assert not file.exists()
    other = run(*arguments[:-1], "3")
    assert "other settings (setting)" in str(other.exception)
    assert run(*arguments).exit_code == 0
    assert len(count.read_text()) == 10  # nine measurements, and the one that failed
    assert load_profile(file).profilings == 9
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["count", "web.json"]


def test_what_a_live_command_left_running_is_ended(tmp_path):
    pid = tmp_path / "pid"
    command = f"sh -c 'sleep 600 >/dev/null 2>&1 & echo $! > {pid}; echo 3.5' {{gbps}} {{qps}}"
    assert CommandProfiler(command, 1.0)(5.0, 100.0) == 3.5
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}/exe").exists(), "sleep", [], 20.0)


def test_bandwidths_above_the_peak_are_refused(tmp_path):
    wrong = run(
        "profile", "web", "--out", str(tmp_path / "x"), "--measure", "x {gbps} {qps}", "--bandwidths", "5,30", *LIVE
    )
    assert "--bandwidths has 30 GB/s, expected values up to 20" in str(wrong.exception)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("false {gbps} {qps}", "ended with status 1"),
        ("echo {gbps} {qps} many", "expected the tail in ms as its last word"),
        ("true {gbps} {qps}", "expected the tail in ms"),
        ("/nowhere/at/all {gbps} {qps}", "could not be run"),
    ],
)
def test_a_live_measurement_that_fails_is_told(command, sentence):
    with pytest.raises(Failure, match=sentence):
        CommandProfiler(command, 1.0)(5.0, 100.0)


@pytest.mark.parametrize("command", ["measure.sh", "x {qps}", "x 'unbalanced {qps} {gbps}"])
def test_a_live_command_must_say_where_bandwidth_and_rate_go(command):
    with pytest.raises(InputError, match="--measure"):
        CommandProfiler(command, 1.0)


def test_an_unknown_service_of_the_experiments_is_refused():
    wrong = run("accuracy", "--service", "moses")
    assert "is unknown, expected one of silo, masstree, img-dnn" in str(wrong.exception)


def test_accuracy_as_json_has_the_published_number_beside_ours():
    rows = json.loads(run("accuracy", "--service", "img-dnn", "--json").stdout)["rows"]
    assert rows[0]["published_pct"] == 92.0
    assert len(rows) == 11
