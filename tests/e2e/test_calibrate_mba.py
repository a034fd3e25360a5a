"""The agent measures what a virtual node's throttles give, and then takes decisions in MB/s."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from osml.lab.trials.children import Children, wait_until

PEAK_GBPS = 140.8
SPEED = 5


@pytest.fixture
def node(children: Children, tmp_path: Path) -> Path:
    """A virtual node with MBA and STREAM, without a server."""
    folder = tmp_path / "node"
    child = children.start(
        "node",
        [
            "osml",
            "virtual",
            "mount",
            str(folder),
            "--platform",
            "gold-6240m",
            "--lc",
            "silo=0.2",
            "--be",
            "stream",
            "--speed",
            str(SPEED),
            "--fuse",
            "off",
        ],
    )
    wait_until((folder / "node.json").exists, "the virtual node", [child], 120)
    return folder


def run(agent: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(agent), *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_the_curve_is_measured_restored_and_used(
    agent: Path, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, curve = node / "agent.yaml", tmp_path / "mba-curve.json"
    monkeypatch.chdir(tmp_path)  # where the curve goes that no --out places elsewhere
    common = ["calibrate-mba", "--config", str(config)]
    unknown = run(agent, *common, "--service", "silo")
    assert (unknown.returncode, curve.exists()) == (2, False)
    assert "is not a best-effort job" in unknown.stderr
    planned = run(agent, *common, "--service", "stream", "--dry-run")
    assert "would set 10 throttles" in planned.stdout
    assert not curve.exists()

    done = run(agent, *common, "--service", "stream", "--points", "4", "--settle-s", "3", "--measure-s", "24", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(curve.read_text())
    assert document == json.loads(done.stdout)
    points = {point["setting"]: point["gbps"] for point in document["points"]}
    assert list(points) == [10, 40, 70, 100]
    # The node caps a tenant at its share of the peak; at 100 % the memory's own limit comes first.
    assert points[10] == pytest.approx(0.10 * PEAK_GBPS, rel=0.25)
    assert points[40] == pytest.approx(0.40 * PEAK_GBPS, rel=0.25)
    assert points[100] < 0.9 * PEAK_GBPS
    assert not (node / "resctrl" / "osml-stream").exists()

    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"bandwidth": {"curve": str(curve)}}))
    platform = json.loads(run(agent, "probe", "--config", str(config), "--json").stdout)["platform"]
    assert platform["mba"]["unit"] == "mbps"
    assert platform["mba"]["max"] == pytest.approx(points[100] * 1000, abs=1)
    decision = {
        "node": "node", "seq": 1, "policy": "by hand", "schema": "osml/decision/v1",
        "partition": {"regions": [], "mba": {"stream": round(points[40] * 1000)}},
        "assignments": [{"service": "silo"}, {"service": "stream", "mba": round(points[40] * 1000)}],
    }  # fmt: skip
    (tmp_path / "decision.json").write_text(json.dumps(decision))
    applied = run(agent, "apply", str(tmp_path / "decision.json"), "--config", str(config))
    assert applied.returncode == 0, applied.stderr
    assert "MB:0= 40" in (node / "resctrl/osml-stream/schemata").read_text().replace("=40", "= 40")
    shown = json.loads(run(agent, "show", "--config", str(config), "--json").stdout)["assignments"]
    assert {one["service"]: one["mba"] for one in shown}["stream"] == round(points[40] * 1000)
    run(agent, "restore", "--config", str(config))


def test_a_signal_ends_it_in_order(agent: Path, node: Path, tmp_path: Path) -> None:
    group, curve = node / "resctrl" / "osml-stream", tmp_path / "curve.json"
    arguments = ["--config", str(node / "agent.yaml"), "--out", str(curve), "--service", "stream"]
    slow = ["--settle-s", "600", "--measure-s", "600"]
    with subprocess.Popen(
        [str(agent), "calibrate-mba", *arguments, *slow], stderr=subprocess.PIPE, text=True
    ) as calibration:
        try:
            wait_until(group.exists, "the first throttle", [], 120)
            calibration.send_signal(signal.SIGINT)
            _, said = calibration.communicate(timeout=120)
        finally:
            calibration.kill()
    assert calibration.returncode == 1
    assert "a signal stopped the calibration" in said
    assert not group.exists()
    assert not curve.exists()


def test_a_node_without_mba_says_so(agent: Path, children: Children, tmp_path: Path) -> None:
    folder = tmp_path / "i7"
    child = children.start(
        "i7", ["osml", "virtual", "mount", str(folder), "--platform", "i7-4770k", "--be", "stream", "--fuse", "off"]
    )
    wait_until((folder / "node.json").exists, "the virtual node", [child], 120)
    config = str(folder / "agent.yaml")
    refused = run(agent, "calibrate-mba", "--config", config, "--service", "stream")
    assert refused.returncode == 3
    assert "memory bandwidth cannot be throttled here" in refused.stderr
    mechanisms = json.loads(run(agent, "probe", "--config", config, "--json").stdout)["mechanisms"]
    regulator = next(one for one in mechanisms if one["name"] == "mba_regulator")
    assert regulator["available"] is False
    assert regulator["how_to_enable"] == "set bandwidth.regulator: on"
