"""`osml look doctor` on machines made of files, and on this one."""

import json
import shutil
import stat
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osml.cli.main import application
from osml.doctor.agent import agent_findings
from osml.doctor.finding import Finding
from osml.doctor.machine import machine_findings
from osml.doctor.software import software_findings
from osml.predictors import load_manifest, models_folder


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {found.mechanism: found for found in findings}


def agent_that_says(folder: Path, text: str) -> Path:
    binary = folder / "osml-agent"
    binary.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return binary


def test_counters_are_there_where_the_kernel_has_a_device_for_them(tmp_path: Path) -> None:
    found = by_name(machine_findings(tmp_path / "proc", tmp_path / "sys"))
    assert (found["pmu"].available, found["frequency"].available) == (False, False)
    assert found["pmu"].how_to_enable
    (tmp_path / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text("4\n")
    pmu = by_name(machine_findings(tmp_path / "proc", tmp_path / "sys"))["pmu"]
    assert pmu.available and "CAP_PERFMON" in pmu.reason


def test_what_the_agent_can_not_do_comes_with_a_way_to_get_it(tmp_path: Path) -> None:
    mechanisms = [
        {"name": "cpuset", "available": True, "reason": "cgroup2", "how_to_enable": ""},
        {"name": "mba", "available": False, "reason": "no resctrl", "how_to_enable": ""},
        {"name": "llc_ways", "available": False, "reason": "no resctrl", "how_to_enable": "mount it"},
    ]
    found = by_name(agent_findings(agent_that_says(tmp_path, json.dumps({"mechanisms": mechanisms}))))
    assert found["agent"].available and found["cpuset"].available
    assert "MBA" in found["mba"].how_to_enable
    assert found["llc_ways"].how_to_enable == "mount it"


def test_an_agent_that_is_ill_says_why_and_the_rest_is_told_all_the_same(tmp_path: Path) -> None:
    binary = tmp_path / "osml-agent"
    binary.write_bytes(b"#!/bin/sh\necho 'warning' >&2\nprintf 'osml-agent: interval_s is 0\\n\\377' >&2\nexit 2\n")
    binary.chmod(0o755)
    found = by_name(agent_findings(binary))
    assert found["agent"].available
    assert not found["probe of the agent"].available
    assert "exit code" in found["probe of the agent"].reason or "\ufffd" in found["probe of the agent"].reason
    binary.write_text("#!/bin/sh\necho 'osml-agent: interval_s is 0, expected more' >&2\nexit 2\n")
    assert by_name(agent_findings(binary))["probe of the agent"].reason == "osml-agent: interval_s is 0, expected more"


def test_services_and_pods_that_are_refused_say_where_they_come_from(tmp_path: Path) -> None:
    probe = {
        "mechanisms": [],
        "services": [
            {"name": "search", "source": None, "watched": False},
            {"name": "shop.web", "source": "pod shop/web-0", "watched": False},
            {"name": "shop.quiet", "source": "pod shop/quiet-0", "watched": True},
            {"name": "shop.front", "source": "LatencyTarget shop/front", "watched": True},
        ],
        "refused_pods": {"shop/odd": "annotation osml.dev/class: 'x', expected lc or be"},
        "refused_targets": {"shop/bad": "spec.selector: missing, expected a mapping"},
    }
    found = by_name(agent_findings(agent_that_says(tmp_path, json.dumps(probe))))
    assert found["service search"].reason == "the agent's configuration"
    assert found["service shop.web"].reason == "annotations of pod shop/web-0"
    assert (found["service shop.web"].available, found["service shop.quiet"].available) == (True, False)
    assert "osml.dev/latency" in found["service shop.quiet"].how_to_enable
    assert "expected lc or be" in found["pod shop/odd"].reason
    assert found["service shop.front"].reason.startswith("LatencyTarget shop/front; watched")
    assert found["service shop.front"].how_to_enable == "set spec.latency"
    assert "spec.selector" in found["LatencyTarget shop/bad"].reason


def test_an_agent_that_answers_nonsense_is_named(tmp_path: Path) -> None:
    found = by_name(agent_findings(agent_that_says(tmp_path, "Segmentation fault")))["probe of the agent"]
    assert not found.available
    assert "exit code 0, unreadable output" in found.reason


def test_no_agent_is_a_finding_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osml.base.agent_binary.BUILT", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [(f.mechanism, f.available) for f in agent_findings(None)] == [("agent", False)]


def test_models_that_are_missing_or_damaged_are_no_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "models"
    shutil.copytree(models_folder(), copy)
    monkeypatch.setenv("OSML_MODELS", str(copy))
    assert by_name(software_findings())["predictions"].available
    entries = load_manifest(copy).models
    (copy / entries[0].name / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    found = by_name(software_findings())["predictions"]
    assert not found.available
    assert found.reason.startswith(f"{copy / entries[0].name / 'model.onnx'} has sha256 ")
    assert found.how_to_enable.startswith("copy the folder of models again")
    for entry in entries:
        shutil.rmtree(copy / entry.name)
    assert by_name(software_findings())["predictions"].reason.endswith(f" (and {len(entries) - 1} more)")


def test_missing_packages_and_models_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setenv("OSML_MODELS", str(tmp_path))
    found = software_findings(nothing)
    assert not any(one.available for one in found)
    assert all(one.how_to_enable for one in found)
    assert "square-root staffing" in by_name(found)["predictions"].reason


def test_the_command_lists_this_machine_in_the_form_of_the_contract() -> None:
    result = CliRunner().invoke(application(), ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["mechanisms"]
    assert {"pmu", "models", "training"} <= {row["mechanism"] for row in rows}
    assert all({"available", "reason", "how_to_enable"} <= set(row) for row in rows)
    assert all(row["how_to_enable"] for row in rows if not row["available"])
