"""The demo in small, as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

SMALL = ["--unmanaged-s", "20", "--managed-s", "60", "--speed", "10"]


def demo(out: Path, *arguments: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    command = ["osml", "demo", "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, **kwargs)


def test_demo_manages_what_was_violated(agent, tmp_path):
    result = demo(tmp_path, *SMALL, "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document == json.loads((tmp_path / "summary.json").read_text())
    assert (document["platform"], document["policy"], document["simulated"]) == ("e5-2697v4", "osml", True)
    unmanaged, managed = document["phases"]["unmanaged"], document["phases"]["managed"]
    assert any(service["met"] is False for service in unmanaged["services"])
    assert managed["e_s"] < unmanaged["e_s"]
    for phase in (unmanaged, managed):
        assert {"e_s", "e_lc", "e_be", "services"} <= set(phase)
        assert {s["name"]: s["class"] for s in phase["services"]} == {
            "moses": "lc",
            "img-dnn": "lc",
            "xapian": "lc",
            "stream": "be",
        }
    assert document["actions"] > 0
    assert document["agent"]["rss_mib"] > 1
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_demo_leaves_nothing_running_when_it_is_interrupted(agent, tmp_path):
    process = subprocess.Popen(["osml", "demo", "--out", str(tmp_path), *SMALL], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "record-unmanaged.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 130, words
    assert "stopped by SIGINT" in words
    assert "Traceback" not in words
    mine = [path.name for path in Path("/proc").glob("[0-9]*") if str(tmp_path) in _command_line(path.name)]
    assert mine == []


def _command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--lc", "moses=-1"], "load of 'moses' is -1.0, expected above 0"),
        (["--lc", "moses"], "--lc 'moses' is not SERVICE=LOAD"),
        (["--step", "nobody=0.5"], "--step has 'nobody'"),
        (["--speed", "nan"], "--speed is nan"),
        (["--managed-s", "1"], "--managed-s is 1, expected 20 to 3600"),
        (["--policy", "magic"], "magic"),
        (["--platform", "pdp-11"], "pdp-11"),
        (["--agent", "/no/such"], "/no/such is not a file"),
    ],
)
def test_bad_knobs_are_one_sentence(tmp_path, arguments, words):
    result = demo(tmp_path, *SMALL, *arguments)
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
