"""The comparison of model servers, with stubs: figures of each, wrong answers, servers that can't be had."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from osml.lab.benchmarks.model_servers.compare import Comparison, compare
from osml.lab.benchmarks.model_servers.environments import NoEnvironmentError
from osml.lab.benchmarks.model_servers.measure import WrongAnswerError, check
from osml.lab.benchmarks.model_servers.running import running
from osml.lab.benchmarks.model_servers.servers import SERVERS, Start
from osml.lab.benchmarks.server_process import family, two_cores
from osml.predictors import models_folder

pytest.importorskip("onnxruntime")
MODEL = models_folder() / "a2-masked-e5-2697v4"
STUB = str(Path(__file__).with_name("stub.py"))
BY_NAME = {server.name: server for server in SERVERS}
DIALECTS = {"osml": "protocol", "fastapi": "protocol", "mlserver": "protocol", "bentoml": "array"}


def stub(name, *flags, command=STUB):
    """A server of the benchmark that is started as a stub; asked and read as ever."""

    def start(port, model, home):
        return Start([sys.executable, command, DIALECTS[name], str(port), str(model), *flags])

    return dataclasses.replace(BY_NAME[name], start=start)


def test_each_server_gets_its_figures_and_its_ratio_to_the_first():
    before = os.sched_getaffinity(0)
    found = compare([stub(name) for name in DIALECTS], MODEL, rounds=2, seconds=0.2)
    assert os.sched_getaffinity(0) == before
    assert [(case.server, case.rows) for case in found.cases] == [(name, rows) for rows in (1, 32) for name in DIALECTS]
    for case in found.cases:
        assert case.requests_per_s.min <= case.requests_per_s.median <= case.requests_per_s.max
        assert case.requests_per_s.min > 0
        assert case.cpu_us.min > 0
    assert [case.cpu_ratio for case in found.cases if case.server == "osml"] == [1.0, 1.0]
    assert found.left_out == {}
    assert msgspec.json.decode(msgspec.json.encode(found), type=Comparison) == found


def test_the_floor_answers_as_the_model():
    found = compare([BY_NAME["fastapi"]], MODEL, rounds=1, seconds=0.1)
    assert [case.server for case in found.cases] == ["fastapi", "fastapi"], found.left_out


def test_a_server_that_answers_otherwise_stops_the_comparison():
    with pytest.raises(WrongAnswerError, match="mlserver, 1 rows: the answer is not that of the model"):
        compare([stub("osml"), stub("mlserver", "0.001")], MODEL, rounds=1, seconds=0.1)


def test_answers_of_another_shape_are_wrong_too():
    with pytest.raises(WrongAnswerError):
        check("x", np.zeros((2, 1, 5), np.float32), np.zeros((2, 2, 5), np.float32))


def test_servers_that_can_not_be_had_are_named_and_left_out(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.exit('this server does not start')")

    def impossible(port, model, home):
        raise NoEnvironmentError("there is no network")

    servers = [
        stub("osml"),
        stub("mlserver", command=str(broken)),
        dataclasses.replace(BY_NAME["bentoml"], start=impossible),
    ]
    found = compare(servers, MODEL, rounds=1, seconds=0.1)
    assert {case.server for case in found.cases} == {"osml"}
    assert found.left_out["bentoml"] == "there is no network"
    assert found.left_out["mlserver"].startswith("it ended with exit code 1: ")
    assert "this server does not start" in found.left_out["mlserver"]


PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True).wait()
"""


def test_the_cpu_time_of_children_counts_and_they_end_with_the_server():
    server = dataclasses.replace(BY_NAME["osml"], start=lambda *_: Start([sys.executable, "-c", PARENT]))
    with two_cores() as (ours, _), running(server, MODEL, ours) as started:

        def of_children_s() -> float:
            counted_s = started.cpu_s()  # first: the parent may use some more meanwhile
            own = Path(f"/proc/{started.process.pid}/stat").read_text().rpartition(")")[2].split()
            return counted_s - (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK")

        deadline = time.monotonic() + 60
        while of_children_s() < 0.5:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = family(started.process.pid) - {started.process.pid}
        assert len(children) == 1
    child = str(children.pop())
    deadline = time.monotonic() + 60  # a process that was killed on a busy machine needs a moment
    stat = ["ps", "-o", "stat=", "-p", child]
    while subprocess.run(stat, capture_output=True, text=True, check=False).stdout.strip()[:1] not in ("", "Z"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
