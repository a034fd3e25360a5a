"""The bench over a Ray cluster of two nodes on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from osml.base.failure import Failure, MachineError
from osml.lab.bench.run import Settings, run
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.store import Store
from osml.lab.bench.suite import Suite
from osml.lab.bench.workers import in_this_process, ray_cluster
from osml.simulator.mix import parse_mix

MIXES = ("moses=0.3,xapian=0.3", "moses=0.5,img-dnn=0.3", "specjbb=0.4,be:stream", "xapian=0.6")


def scenarios() -> list[Scenario]:
    return [Scenario("ray", "mixes", parse_mix(mix), "e5-2697v4", limit_s=12.0, tail_s=5.0) for mix in MIXES]


SUITE = Suite("ray", "", "", "osml", ("even",), scenarios, lambda _: [])


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # read when Ray is imported
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray leaves folders there
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )
    ray = pytest.importorskip("ray", reason="Ray is not installed (extra ray)")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.slow
def test_two_nodes_give_the_same_rows_as_one_process(address: str, tmp_path: Path) -> None:
    quiet = Console(quiet=True)
    run(Settings(SUITE, ["even", "arq"], 2, tmp_path / "ray"), ray_cluster(address), quiet)
    run(Settings(SUITE, ["even", "arq"], 2, tmp_path / "here"), in_this_process, quiet)

    def rows(folder: str) -> list[dict]:
        found = Store(tmp_path / folder).results()
        return [{key: value for key, value in row.items() if key != "wall_s"} for row in found]

    assert rows("ray") == rows("here")
    assert len(rows("ray")) == len(MIXES) * 4


def test_without_ray_or_a_cluster_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr("osml.lab.bench.workers.import_module", missing)
    with pytest.raises(MachineError, match="Ray, which is not installed"):
        ray_cluster("auto")


def test_an_address_that_nobody_answers_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra ray)")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Failure, match=r"--ray '127\.0\.0\.1:1': the cluster can't be reached"):
        ray_cluster("127.0.0.1:1")
