"""Datagrams into the agent and metrics out of it, over a reload, and beside the real server."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from osml.lab.trials.children import wait_until
from tests.e2e.conftest import Bench

ROOT = Path(__file__).resolve().parents[2]
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Monitored:
    """A running agent whose service `moses` sends its latencies, and the file with the agent's metrics."""

    def __init__(self, bench: Bench, tmp_path: Path, socket_path: Path | None = None) -> None:
        self.bench = bench
        self.socket_path = socket_path or tmp_path / "moses.sock"
        self.textfile = tmp_path / "osml.prom"
        self.record = tmp_path / "record.jsonl"
        services = yaml.safe_load(bench.config.read_text())["services"]
        moses = next(service for service in services if service["name"] == "moses")
        moses["latency"] = {"datagram": str(self.socket_path), "max_age_s": 1000}
        bench.change_config(services=services, metrics={"textfile": str(self.textfile)})
        self.agent = bench.start_agent("--record", str(self.record))
        wait_until(self.textfile.exists, "the first metrics", [self.agent])
        self.sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sender.connect(str(self.socket_path))

    def samples(self) -> Samples:
        families = text_string_to_metric_families(self.textfile.read_text())
        return {
            (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if k != "node"))): sample.value
            for family in families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return self.samples()[f"osml_agent_{name}", tuple(sorted(labels.items()))]

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        wait_until(ready, what, [self.agent])

    def latency(self) -> dict[str, Any] | None:
        """The latency of moses in the newest observation."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        if not lines:
            return None
        services = json.loads(lines[-1])["observation"]["services"]
        return next(service["latency"] for service in services if service["name"] == "moses")


@pytest.fixture
def monitored(bench: Bench, tmp_path: Path) -> Monitored:
    return Monitored(bench, tmp_path)


def metric_names(samples: Samples) -> set[str]:
    return {name for name, _ in samples}


def declared(text: str) -> set[str]:
    """Names that an exposition declares: what is not measured here, such as steal, has no sample."""
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def used_names(text: str) -> set[str]:
    return set(re.findall(r"\b(?:osml|process)_[a-z0-9_]+\b", text))


def expressions() -> str:
    """All queries of the dashboard and of the alerts."""
    rules = yaml.safe_load((ROOT / "deploy/prometheus/osml.rules.yaml").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    dashboard = json.loads((ROOT / "deploy/grafana/osml.json").read_text())
    found += [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    found += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    return "\n".join(found)


def test_latencies_by_datagram_and_metrics_go_on_over_a_reload(monitored: Monitored) -> None:
    def send_until(p99_ms: float) -> None:
        def seen() -> bool:
            monitored.sender.send(json.dumps({"p99_ms": p99_ms, "samples": 100}).encode())
            return (monitored.latency() or {}).get("p99_ms") == p99_ms

        monitored.wait(seen, f"p99 of {p99_ms} ms in the observation")

    send_until(4.5)
    monitored.sender.send(b"garbage")
    monitored.wait(
        lambda: monitored.value("datagrams_total", service="moses", status="ignored") == 1, "the count of garbage"
    )
    before = monitored.samples()
    assert monitored.value("up") == 1
    monitored.wait(lambda: monitored.value("state", state="deciding") == 1, "a decision")
    assert monitored.value("decisions_total", outcome="applied") >= 1
    assert monitored.value("resident_memory_bytes") > 1e6

    monitored.bench.change_config(hold_s=7)
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("reloads_total", status="taken") == 1, "the reload")
    send_until(6.25)  # by the same connection: the socket stayed
    after = monitored.samples()
    fallen = [name for name, value in before.items() if name[0].endswith(("_total", "_count")) and after[name] < value]
    assert fallen == []

    monitored.agent.stop()
    assert monitored.value("up") == 0
    assert not monitored.socket_path.exists()
    assert monitored.agent.exit_code == 0


def test_a_reload_tells_a_longer_interval_before_the_next_turn(monitored: Monitored) -> None:
    """Alerts about a silent agent go by it, and the next turn may be an hour away."""
    before = monitored.value("interval_seconds")
    monitored.bench.change_config(interval_s=3600)
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("interval_seconds") > 60 > before, "the new interval")


def test_turns_go_on_however_often_somebody_reloads(monitored: Monitored) -> None:
    sent = 0

    def reload() -> None:
        nonlocal sent
        if monitored.value("reloads_total", status="taken") == sent:
            monitored.agent._process.send_signal(signal.SIGHUP)
            sent += 1

    monitored.bench.change_config(interval_s=10)  # a second of wall time
    reload()
    monitored.wait(lambda: monitored.value("reloads_total", status="taken") == 1, "the new interval")
    turns = monitored.value("turns_total")

    def turned() -> bool:
        reload()
        return monitored.value("turns_total") > turns + 1

    monitored.wait(turned, "turns between the reloads")


def test_datagrams_between_two_turns_are_read_as_they_come(monitored: Monitored) -> None:
    monitored.bench.change_config(interval_s=3600)
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("reloads_total", status="taken") == 1, "the reload")
    monitored.sender.setblocking(False)
    for _ in range(50):  # the kernel keeps about ten
        monitored.sender.send(b'{"p99_ms": 4.5}')
        time.sleep(0.05)


def test_a_socket_whose_file_was_removed_is_there_again_after_a_reload(monitored: Monitored) -> None:
    monitored.socket_path.unlink()
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("reloads_total", status="taken") == 1, "the reload")
    monitored.sender.connect(str(monitored.socket_path))
    monitored.sender.send(b'{"p99_ms": 4.5}')
    monitored.wait(lambda: monitored.value("datagrams_total", service="moses", status="read") == 1, "the datagram")


def test_a_place_for_sockets_that_is_gone_does_not_end_the_agent(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "sockets").mkdir()
    monitored = Monitored(bench, tmp_path, tmp_path / "sockets/moses.sock")
    monitored.socket_path.unlink()
    monitored.socket_path.parent.rmdir()
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("reloads_total", status="refused") == 1, "the refusal")
    turns = monitored.value("turns_total")
    monitored.wait(lambda: monitored.value("turns_total") > turns + 1, "turns after it")


def test_a_token_that_cannot_be_used_does_not_end_the_agent(bench: Bench, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    server = yaml.safe_load(bench.config.read_text())["server"]
    bench.change_config(server={**server, "token_file": str(token)})
    monitored = Monitored(bench, tmp_path)
    token.chmod(0o644)
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("reloads_total", status="refused") == 1, "the refusal")
    turns = monitored.value("turns_total")
    monitored.wait(lambda: monitored.value("turns_total") > turns + 1, "turns after it")
    token.chmod(0o600)
    monitored.agent._process.send_signal(signal.SIGHUP)
    monitored.wait(lambda: monitored.value("reloads_total", status="taken") == 1, "the reload")


def test_an_agent_that_is_started_anew_beside_a_dry_run_has_its_socket(monitored: Monitored, tmp_path: Path) -> None:
    bench = monitored.bench
    document = yaml.safe_load(bench.config.read_text())
    del document["metrics"]
    config = tmp_path / "look.yaml"
    config.write_text(yaml.safe_dump(document))
    stats = tmp_path / "look.jsonl"
    command = [str(bench.agent), "run", "--dry-run", "--config", str(config), "--stats", str(stats)]
    look = bench.children.start("look", command)
    wait_until(lambda: "another process listens there" in look.log.read_text(), "the dry run", [look])
    monitored.agent.stop()
    turns = len(stats.read_text().splitlines())
    wait_until(lambda: len(stats.read_text().splitlines()) > turns + 3, "turns without the agent", [look])
    assert not monitored.socket_path.exists()
    again = bench.start_agent(name="again")
    wait_until(monitored.socket_path.exists, "the socket of the agent", [again, look])


def test_a_look_beside_the_agent_takes_neither_its_socket_nor_its_metrics(monitored: Monitored) -> None:
    look = [str(monitored.bench.agent), "run", "--once", "--dry-run", "--config", str(monitored.bench.config)]
    done = subprocess.run(look, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "latency.moses is missing" in done.stderr
    assert "another process listens there" in done.stderr
    assert monitored.value("up") == 1
    assert monitored.value("dry_run") == 0
    monitored.sender.send(b"{}")
    monitored.wait(lambda: monitored.value("datagrams_total", service="moses", status="read") == 1, "the datagram")


def test_silence_of_the_server_shows(monitored: Monitored) -> None:
    monitored.wait(lambda: monitored.value("state", state="deciding") == 1, "the first decision")
    monitored.bench.server.kill()
    monitored.wait(lambda: monitored.value("state", state="fallback") == 1, "the fallback")
    assert monitored.value("fallbacks_total") == 1
    assert monitored.value("no_decision_total", reason="unreachable") >= 1
    assert monitored.value("last_turn_time_seconds") > monitored.value("last_decision_time_seconds")


def test_dashboard_and_alerts_ask_for_what_is_there(monitored: Monitored) -> None:
    server = httpx.get(f"{monitored.bench.url}/metrics").text
    of_server = declared(server) | {
        one.name for found in text_string_to_metric_families(server) for one in found.samples
    }
    of_agent = declared(monitored.textfile.read_text()) | metric_names(monitored.samples())
    asked = used_names(expressions())
    documented = used_names((ROOT / "docs/reference/metrics.md").read_text())
    # This server has one process and no store; tests/serving/workers and tests/serving/test_experiences.py see these.
    of_others = {"osml_worker_up", "osml_experience_store_up"} & documented
    assert not of_others & of_server
    assert asked - of_server - of_agent - of_others == set()
    assert len(asked) > 20
    assert {re.sub(r"_(sum|count)$", "", name) for name in of_agent} == {
        name for name in documented if name.startswith("osml_agent_")
    }
