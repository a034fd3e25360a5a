"""`osml lab theory` as people and scripts meet it."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from osml.base.failure import InputError, MachineError
from osml.lab.commands.theory import app
from osml.lab.theory.experiments.disciplines import Stream, simulate

RUNNER = CliRunner()
PNG = b"\x89PNG"
DIP = ["dip", "--applications", "mysql,redis,stream", "--settle", "5", "--measure", "5"]
GRID = ["equivalence", "--cores", "5,8", "--policies", "unmanaged,even", "--settle", "10", "--measure", "5"]
INVERSIONS = ["inversions", "--mix", "moses=0.3,img-dnn=0.3", "--cores", "2", "--seconds", "5"]
TLT = ["tlt", "--service", "moses", "--requests", "20000"]


def run(*arguments: str) -> str:
    result = RUNNER.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments: str) -> dict[str, Any]:
    return json.loads(run(*arguments, "--json"))


def refused(*arguments: str) -> str:
    with pytest.raises(InputError) as found:
        RUNNER.invoke(app, list(arguments), catch_exceptions=False)
    return str(found.value)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two services on one server, first come first served."""
    found = simulate([Stream("slow", 0, 40.0, 10.0, 1.0), Stream("fast", 1, 300.0, 1.0, 1.0)], "fcfs", 1, 20.0, seed=1)
    table = pa.table(
        {
            "service": [found.names[k] for k in found.stream],
            "arrival_ms": found.arrival_ms,
            "start_ms": found.start_ms,
            "finish_ms": found.finish_ms,
        }
    )
    path = tmp_path / "log.parquet"
    parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("arguments", [TLT, DIP, GRID, [*GRID, "--ways", "8,20", "--seeds", "2"], INVERSIONS])
def test_every_command_prints_tables_that_say_simulated_and_draws(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    assert "simulated" in run(*arguments, "--plot", str(path))
    assert path.read_bytes()[:4] == PNG


def test_tlt_as_json() -> None:
    found = document(*TLT, "--theta", "0.5,0.95")
    assert found["simulated"] is True
    assert found["holds"] is True
    assert abs(found["little_ratio"] - 1.0) < 0.01
    assert [row["theta"] for row in found["rows"]] == [0.5, 0.95]
    keys = {"tail_ms", "share_below", "share_up_to", "bound_per_s", "observed_per_s", "looseness", "holds"}
    assert all(keys <= set(row) for row in found["rows"] + found["forecast"])
    assert found == document(*TLT, "--theta", "0.5,0.95")


@pytest.mark.parametrize("name", ["samples.txt", "samples.csv", "samples.parquet"])
def test_tlt_reads_measured_latencies(name: str, tmp_path: Path) -> None:
    values, path = np.arange(1.0, 101.0), tmp_path / name
    if name.endswith(".parquet"):
        parquet.write_table(pa.table({"latency_ms": values}), path)
    else:
        heading = "latency_ms" if name.endswith(".csv") else "# latencies of a morning"
        path.write_text("\n".join([heading, *map(str, values)]) + "\n")
    found = document("tlt", str(path), "--throughput", "100")
    assert (found["simulated"], found["requests"], found["mean_ms"]) == (False, 100, 50.5)
    assert found["outstanding"] == pytest.approx(5.05)
    assert found["little_ratio"] is None  # only one of the two was measured
    assert "Little's law is assumed" in run("tlt", str(path), "--throughput", "100")
    alone = document("tlt", str(path))
    assert alone["per_outstanding_request"] is True
    assert alone["throughput_per_s"] == pytest.approx(1000 / 50.5)


def test_tlt_counts_throughput_and_outstanding_requests_in_a_log_with_times(log: Path) -> None:
    found = document("tlt", str(log))
    assert found["throughput_per_s"] == pytest.approx(340, rel=0.1)
    assert found["little_ratio"] == pytest.approx(1.0, abs=0.02)
    assert found["holds"] is True


def test_tlt_shows_that_littles_law_fails_where_a_backlog_grows(tmp_path: Path) -> None:
    arrival = np.arange(0.0, 10_000.0, 1.0)  # a request each ms, and each takes 2 ms
    path = tmp_path / "overload.parquet"
    parquet.write_table(pa.table({"arrival_ms": arrival, "finish_ms": 2.0 * (arrival + 1.0)}), path)
    found = document("tlt", str(path))
    assert found["throughput_per_s"] == pytest.approx(500.0, rel=0.01)
    assert found["outstanding"] == pytest.approx(2500.0, rel=0.01)  # from none to 5,000
    assert found["little_ratio"] == pytest.approx(2.0, rel=0.01)  # the answered ones waited 2,500 ms on average
    assert found["mean_ms"] == pytest.approx(2500.0, rel=0.01)


def test_dip_as_json() -> None:
    found = document(*DIP, "--policies", "round_robin")
    assert (found["simulated"], found["combinations"], found["platform"]) == (True, 6, "gold-6278c")
    assert [entry["strategy"] for entry in found["strategies"]] == ["unmanaged", "even", "rr", "round_robin"]
    assert len(found["runs"]) == 24
    assert found["strategies"][1]["cores"] == {"da": 1.0, "ia": 1.0, "pa": 0.0, "kind": "{D, I}"}
    assert found["published"] == [], "the paper had other applications"
    assert found["tolerance_ability"] == pytest.approx(sum(found["tolerances"].values()))


def test_inversions_of_disciplines_as_json() -> None:
    found = document(*INVERSIONS)
    assert list(found["disciplines"]) == ["fcfs", "rr", "priority"]
    first = {name: rows[0] for name, rows in found["disciplines"].items()}
    assert {row["service"] for row in first.values()} == {"moses"}
    assert first["priority"]["added_ms"] < first["fcfs"]["added_ms"]


def test_inversions_of_an_order_as_json(tmp_path: Path) -> None:
    path = tmp_path / "order.png"
    arguments = ["inversions", "--mix", "moses=0.2,be:fluidanimate", "--order", "fluidanimate,moses", "--cores", "5"]
    found = document(*arguments, "--plot", str(path))
    assert found["inversions"] == 1
    assert [entry["place"] for entry in found["applications"]] == [1, 0]
    assert found["weighted_ms"] == pytest.approx(found["applications"][0]["weighted_ms"])
    assert path.read_bytes()[:4] == PNG


def test_inversions_of_a_log(log: Path) -> None:
    slow_first = document("inversions", str(log), "--order", "slow,fast")["disciplines"]["log"]
    fast_first = document("inversions", str(log), "--order", "fast,slow")["disciplines"]["log"]
    assert [row["service"] for row in slow_first] == ["slow", "fast"]
    assert slow_first[1]["passed"] == fast_first[1]["passed"] == 0.0
    assert fast_first[0]["added_ms"] > slow_first[0]["added_ms"] > 0.0  # behind long requests one waits longer
    assert "log" in run("inversions", str(log), "--order", "slow,fast")


def test_equivalence_as_json() -> None:
    found = document(*GRID, "--ways", "8,20", "--level", "0.3")
    assert len(found["cells"]) == 8
    assert found["isentropic"]["ways"] == [8, 20]
    assert set(found["isentropic"]["cores"]) == {"unmanaged", "even"}
    (row,) = found["equivalences"]
    assert (row["policy"], row["against"], row["e_s"]) == ("even", "unmanaged", 0.3)
    assert len(found["worth"]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tlt"], "either a FILE of latencies or --service"),
        ([*TLT, "--theta", "95"], "--theta is '95', expected numbers between 0 and 1"),
        ([*TLT, "--load", "0"], "--load is '0', expected a fraction"),
        ([*TLT, "--cores", "99"], "cores is 99, expected 1 to 36"),
        ([*TLT, "--cores", "0"], "cores is 0, expected 1 to 36"),
        (
            [*GRID, "--cores", "10", "--be-threads", "10000000"],
            "fluidanimate are 10000000, expected 1 to 4096",
        ),
        (["tlt", "--service", "doom"], "unknown LC service 'doom'"),
        (["tlt", "/nowhere/at/all.txt"], "/nowhere/at/all.txt can't be read"),
        (["tlt", "/"], "/ is not a file"),
        ([*TLT, "--requests", "7"], "requests is 7, expected 100"),
        (["dip", "--policies", "best"], "policy 'best' is unknown"),
        (["dip", "--applications", "mysql,mysql"], "--applications is 'mysql,mysql', expected different names"),
        (["inversions"], "either a LOG of requests or --mix"),
        ([*INVERSIONS, "--disciplines", "lifo"], "discipline is 'lifo'"),
        (["inversions", "--mix", "moses=0.3,be:stream"], "'stream' is a BE job"),
        ([*INVERSIONS, "--percentile", "99"], "percentile is 99.0"),
        ([*GRID, "--cores", "ten"], "--cores is 'ten', expected whole numbers above 0"),
        ([*GRID, "--cores", "4-99"], "cores is 11, expected 1 to 10"),
        ([*GRID, "--level", "2"], "--level is '2', expected numbers between 0 and 1"),
        (["equivalence", "moses"], "expected NAME=LOAD or be:NAME"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], said: str) -> None:
    assert said in refused(*arguments)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "1.0\ntwo\n", "line 2 is 'two', expected one number"),
        ("a.txt", "", "no latencies, expected at least one"),
        ("a.csv", "ms\n1\n", "column 'latency_ms' is missing, the columns are ms"),
        ("a.csv", "latency_ms\none\n", "column 'latency_ms' is of type string, expected numbers"),
        ("a.csv", "latency_ms\n2026-11-20\n", r"column 'latency_ms' is of type date32[day], expected numbers"),
        ("a.csv", "latency_ms\ntrue\n", "column 'latency_ms' is of type bool, expected numbers"),
        ("a.csv", "latency_ms,a,latency_ms\n1,2,3\n", "column 'latency_ms' is there 2 times, expected once"),
        ("a.csv", "latency_ms,x\n1,2\n,3\n", "row 2 has no 'latency_ms'"),
        ("a.csv", "", "can't be read as a table"),
        ("a.parquet", "PAR1 but not really", "can't be read as a table"),
    ],
)
def test_files_that_make_no_sense_are_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert said in refused("tlt", str(path))


def test_a_log_needs_ranks_and_services(log: Path, tmp_path: Path) -> None:
    assert "has no column 'rank': use --order" in refused("inversions", str(log))
    assert "expected each service" in refused("inversions", str(log), "--order", "slow")
    bare = tmp_path / "bare.csv"
    bare.write_text("arrival_ms,start_ms,finish_ms,rank\n0,0,1,0\n")
    assert "column 'service' is missing" in refused("inversions", str(bare))


@pytest.mark.parametrize(
    ("ranks", "row", "rank"),
    [((0.2, 0.9), 1, "0.2"), ((0, 0.5), 2, "0.5"), ((0, float("inf")), 2, "inf"), ((-1e300, 1), 1, "-1e+300")],
)
def test_a_rank_is_a_whole_number(ranks: tuple[float, float], row: int, rank: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("service,arrival_ms,start_ms,finish_ms,rank\n" + f"a,0,0,4,{ranks[0]}\nb,1,4,5,{ranks[1]}\n")
    expected = f"row {row} has rank {rank}, expected whole numbers, 0 the most critical"
    assert expected in refused("inversions", str(path))


def test_columns_of_a_log_have_names_that_can_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("service,arrival_ms,start_ms,finish_ms,rank,service\na,0,0,4,0,b\n")
    assert "column 'service' is there 2 times" in refused("inversions", str(path))
    path.write_bytes(b"service,arrival_ms,start_ms,finish_ms,rank,gr\xf6\xdfe\na,0,0,4,0,1\n")
    assert "has names of columns that are not UTF-8" in refused("inversions", str(path))


def test_a_picture_that_can_not_be_written_is_refused(log: Path) -> None:
    assert "/nowhere/a.png can't be written" in refused("tlt", str(log), "--plot", "/nowhere/a.png")


def test_without_matplotlib_or_pyarrow_the_commands_say_what_to_install(
    log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def fails(name: str, *rest: Any, **named: Any) -> Any:
        wanted = {name.partition(".")[0], *(rest[2] or () if len(rest) > 2 else ())}
        if wanted & {"pyarrow", "matplotlib", "plots"}:
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", fails)
    with pytest.raises(MachineError, match="Parquet and CSV files need pyarrow"):
        RUNNER.invoke(app, ["tlt", str(log)], catch_exceptions=False)
    with pytest.raises(MachineError, match="--plot needs matplotlib"):
        RUNNER.invoke(app, [*TLT, "--plot", str(tmp_path / "a.png")], catch_exceptions=False)
