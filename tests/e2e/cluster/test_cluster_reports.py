"""What the cluster is told of a node: the real agent and server, a virtual node, and an API server on bad days too."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from osml.lab.trials.children import Child, wait_until
from tests.e2e.cluster.fake_api_server import FakeApiServer
from tests.e2e.cluster.fake_kubelet import make_certificate
from tests.e2e.conftest import Bench

RESOURCE = "osml.dev/batch-millicpu"
SOON_S = 90  # a minute of node time is six seconds, on a busy machine


@dataclass
class Reporting:
    """An agent that reports; a second of node time is a tenth of a second."""

    bench: Bench
    server: FakeApiServer
    folder: Path
    agent: Child | None = None

    def configure(self, **keys: Any) -> None:
        self.set_token(self.server.token)
        reports = {"condition": "on", "events": "on", "batch_cpu": "on", "heartbeat_s": 60}
        where = {
            "url": f"https://127.0.0.1:{self.server.port}",
            "timeout_s": 5,  # the slow one takes longer
            "token_file": str(self.folder / "token"),
            "ca_file": str(self.folder / "api.pem"),
        }
        self.bench.change_config(
            kubernetes=reports | where | keys, metrics={"textfile": str(self.folder / "osml.prom")}
        )

    def start(self, **keys: Any) -> Child:
        self.configure(**keys)
        self.agent = self.bench.start_agent()
        return self.agent

    def set_targets(self, target_ms: float) -> None:
        """Of all services: a second is met, a microsecond is not, whatever the node does."""
        services = yaml.safe_load(self.bench.config.read_text())["services"]
        for service in services:
            if service["class"] == "lc":
                service.pop("ideal_ms", None)
                service["target_ms"] = target_ms
        self.bench.change_config(services=services)

    def set_token(self, token: str) -> None:
        fresh = self.folder / "token.new"
        fresh.write_text(token)
        fresh.chmod(0o600)
        fresh.rename(self.folder / "token")

    def wait(self, what: str, condition: Any) -> None:
        assert self.agent is not None
        wait_until(condition, what, [self.agent], SOON_S)

    def log(self) -> str:
        assert self.agent is not None
        return self.agent.log.read_text()

    def count(self, result: str) -> float:
        path = self.folder / "osml.prom"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [one for one in lines if one.startswith("osml_agent_kubernetes_reports_total") and f'"{result}"' in one]
        return float(found[0].rpartition(" ")[2]) if found else 0

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.server.events.values()]


@pytest.fixture
def reporting(bench: Bench, tmp_path: Path) -> Iterator[Reporting]:
    make_certificate(tmp_path, "api", "IP:127.0.0.1")
    node = yaml.safe_load(bench.config.read_text())["node"]
    with FakeApiServer(tmp_path, node) as server:
        made = Reporting(bench, server, tmp_path)
        made.set_targets(1000)
        yield made


def test_a_node_tells_that_it_meets_its_targets_and_what_it_leaves_to_jobs(reporting: Reporting) -> None:
    server = reporting.server
    running = reporting.start()
    reporting.wait("the condition", lambda: server.condition.get("status") == "True")
    assert server.condition["reason"] == "TargetsMet"
    assert "moses" in server.condition["message"]
    reporting.wait("the resource", lambda: int(server.node["status"]["capacity"].get(RESOURCE, "0")) > 0)
    millicpus = int(server.node["status"]["capacity"][RESOURCE])
    assert millicpus % 100 == 0
    assert millicpus < 36_000, "services have cores too"
    changed, told = server.condition["lastTransitionTime"], server.condition["lastHeartbeatTime"]
    reporting.wait("a heartbeat", lambda: server.condition["lastHeartbeatTime"] != told)
    assert server.condition["lastTransitionTime"] == changed
    assert server.asked < 20, "not once an interval"
    running.stop()
    assert server.condition["status"] == "Unknown"
    assert server.condition["reason"] == "AgentStopped"
    assert server.condition["lastTransitionTime"] != changed
    assert RESOURCE not in server.node["status"]["capacity"]
    assert server.node["status"]["conditions"][0] == {"type": "Ready", "status": "True"}, "others' are left alone"
    assert server.refused == []


def test_an_agent_that_a_reload_ends_takes_its_promise_back(reporting: Reporting) -> None:
    server = reporting.server
    running = reporting.start()
    reporting.wait("the resource", lambda: int(server.node["status"]["capacity"].get(RESOURCE, "0")) > 0)
    lock = Path(yaml.safe_load(reporting.bench.config.read_text())["state_dir"]) / "lock"
    lock.unlink()  # the session has it open; neither the next one nor the way back can have it
    lock.symlink_to("elsewhere")
    os.kill(running.pid, signal.SIGHUP)
    wait_until(lambda: not running.running, "the agent to end", [], SOON_S)
    assert running.exit_code != 0
    assert RESOURCE not in server.node["status"]["capacity"]
    assert server.condition["reason"] == "AgentStopped"


def test_a_reload_of_the_reports_is_no_stop(reporting: Reporting) -> None:
    server = reporting.server
    running = reporting.start()
    reporting.wait("the condition", lambda: server.condition.get("status") == "True")
    reporting.wait("the resource", lambda: int(server.node["status"]["capacity"].get(RESOURCE, "0")) > 0)
    changed = server.condition["lastTransitionTime"]
    reporting.configure(heartbeat_s=70)
    os.kill(running.pid, signal.SIGHUP)
    reporting.wait("the reload", lambda: "the configuration was reloaded" in reporting.log())
    told = server.condition["lastHeartbeatTime"]
    assert RESOURCE in server.node["status"]["capacity"]
    reporting.wait("the next report", lambda: server.condition["lastHeartbeatTime"] != told)
    assert server.condition["lastTransitionTime"] == changed
    assert "AgentStopped" not in server.history
    reporting.configure(batch_cpu="off")
    os.kill(running.pid, signal.SIGHUP)
    reporting.wait("the resource to go", lambda: RESOURCE not in server.node["status"]["capacity"])
    assert "AgentStopped" not in server.history
    running.stop()


def test_targets_that_are_missed_and_met_again_are_events(reporting: Reporting) -> None:
    server = reporting.server
    reporting.set_targets(0.001)
    running = reporting.start()
    reporting.wait("bad news", lambda: server.condition.get("status") == "False")
    assert server.condition["reason"] in {"TargetsMissed", "Infeasible"}
    reporting.wait("the event", lambda: bool(server.events))
    [event] = server.events.values()
    assert event["type"] == "Warning"
    assert event["count"] == 1
    assert event["message"] == server.condition["message"]
    assert int(server.node["status"]["capacity"][RESOURCE]) == 0, "no further job shall come"
    reporting.set_targets(1000)
    os.kill(running.pid, signal.SIGHUP)
    reporting.wait("good news", lambda: server.condition["status"] == "True")
    reporting.wait("the event", lambda: "LatencyTargetsMet" in reporting.reasons())
    running.stop()
    assert "AgentStopped" not in server.history[:-1], "a reload that changes nothing for the cluster is no stop"
    assert server.refused == []


# Each needs a heartbeat of six seconds; kubernetes_reporter_test.cpp has more of them.
FAULTS = {
    "403": ("refused", "HTTP 403; allow the token's account to patch nodes/status"),
    "429": ("busy", "HTTP 429; the agent tries again later"),
    "302": ("failed", "HTTP 302; the agent follows no redirect"),
    "slow": ("unreachable", "timed out"),
    "huge": ("unreachable", "the answer is longer than 4194304 bytes"),
}


def test_an_api_server_on_bad_days_is_named_and_the_node_stays_managed(reporting: Reporting) -> None:
    server = reporting.server
    running = reporting.start(events="off")
    reporting.wait("a report", lambda: server.condition != {})
    for fault, (result, sentence) in FAULTS.items():
        before = reporting.count(result)
        server.fault = fault
        reporting.wait(f"a failure ({fault})", lambda: reporting.count(result) > before)  # noqa: B023
        turns = metric(reporting, "turns_total")
        reporting.wait("more intervals", lambda: metric(reporting, "turns_total") > turns + 5)  # noqa: B023
        said = [line for line in reporting.log().splitlines() if "cannot tell the cluster" in line]
        assert [line for line in said if sentence in line and line.endswith("the node stays managed")]
        told = reporting.log().count("takes the status of the node again")
        server.fault = ""
        reporting.wait("an answer", lambda: reporting.log().count("the status of the node again") > told)  # noqa: B023
    assert metric(reporting, "last_decision_time_seconds") > 0
    assert server.token not in reporting.log()
    assert server.elsewhere == 0
    # Nonsense in an answer that is good by its status is not read.
    server.fault = "nonsense"
    written = reporting.count("written")
    reporting.wait("a heartbeat", lambda: reporting.count("written") > written)
    running.stop()


def metric(reporting: Reporting, name: str) -> float:
    lines = (reporting.folder / "osml.prom").read_text().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"osml_agent_{name}"))


def test_a_rotated_token_is_read_anew_and_a_wrong_certificate_gets_no_token(reporting: Reporting) -> None:
    server = reporting.server
    right = (reporting.folder / "api.pem").read_text()
    make_certificate(reporting.folder, "other", "IP:127.0.0.1")
    (reporting.folder / "api.pem").write_text((reporting.folder / "other.pem").read_text())
    running = reporting.start()
    reporting.wait("a refused certificate", lambda: "certificate" in reporting.log())
    assert server.asked == 0, "the token did not leave"
    (reporting.folder / "api.pem").write_text(right)
    reporting.wait("a report with the new certificates", lambda: server.condition != {})
    server.token = "token-of-tomorrow"  # noqa: S105 - of this test
    reporting.wait("the old token to be refused", lambda: "HTTP 401" in reporting.log())
    reporting.set_token("token-of-tomorrow")
    reporting.wait("the new token", lambda: "takes the status of the node again" in reporting.log())
    running.stop()
    assert "token-of-tomorrow" not in reporting.log()


def test_a_dry_run_tells_the_cluster_nothing(reporting: Reporting) -> None:
    reporting.configure()
    dry = reporting.bench.start_agent("--dry-run", "--ticks", "80")
    wait_until(lambda: not dry.running, "80 intervals", [], SOON_S)
    assert dry.exit_code == 0
    assert reporting.server.asked == 0
