"""The alerts, tried by Prometheus' own tool; and their metrics exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus"
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian package prometheus) is not installed")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "osml.rules.yaml"),
        ("test", "rules", "osml.rules.test.yaml"),
        ("check", "config", "--syntax-only", "scrape.yaml"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_prometheus_takes_the_files_and_alerts_ring_when_they_shall(command: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *command], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_dashboard_ask_for_metrics_that_exist() -> None:
    page = (DEPLOY.parent / "docs/reference/metrics.md").read_text()
    known = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    groups = yaml.safe_load((RULES / "osml.rules.yaml").read_text())["groups"]
    texts = [rule["expr"] for group in groups for rule in group["rules"]]
    texts += re.findall(r'"expr": "([^\n]*)"', (DEPLOY / "grafana/osml.json").read_text())
    asked = {name for text in texts for name in re.findall(r"\bosml_\w+", text)}
    assert len(asked) > 20
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= known


def test_every_alert_that_pages_has_a_case() -> None:
    groups = yaml.safe_load((RULES / "osml.rules.yaml").read_text())["groups"]
    pages = {rule["alert"] for group in groups for rule in group["rules"] if rule["labels"]["severity"] == "critical"}
    cases = yaml.safe_load((RULES / "osml.rules.test.yaml").read_text())["tests"]
    tried = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert pages <= tried
