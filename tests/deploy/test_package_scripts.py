"""What the Debian package does when it goes: put back what was found, and keep what says how it was until then."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "actuator/debian"
UNITS = Path(__file__).resolve().parents[2] / "deploy"


class Machine:
    """The places that the scripts know, in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "var/lib/osml"
        for place in ("usr/bin", "etc/osml", "var/lib/osml"):
            (folder / place).mkdir(parents=True)
        (self.state / "journal.json").write_text("{}")
        (folder / "etc/osml/agent.yaml").write_text("node: n1\n")
        self.asked = folder / "asked"

    def agent_that_ends_with(self, code: int) -> None:
        agent = self.folder / "usr/bin/osml-agent"
        agent.write_text(f'#!/bin/sh\necho "$@" >> {self.asked}\nexit {code}\n')
        agent.chmod(0o755)

    def run(self, script: str, reason: str) -> str:
        text = (SCRIPTS / script).read_text()
        for place in ("/usr/bin/", "/etc/osml", "/var/lib/osml", "/run/systemd"):
            text = text.replace(place, f"{self.folder}{place}")
        done = subprocess.run(["sh", "-s", reason], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, "a package that can't be removed helps nobody"
        return done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_removal_restores_and_a_purge_leaves_nothing(machine: Machine) -> None:
    machine.agent_that_ends_with(0)
    machine.run("prerm", "remove")
    assert machine.asked.read_text() == f"restore --config {machine.folder}/etc/osml/agent.yaml\n"
    machine.run("postrm", "remove")
    assert machine.state.exists()
    machine.run("postrm", "purge")
    assert not machine.state.exists()


def test_what_could_not_be_put_back_stays_written_down(machine: Machine) -> None:
    machine.agent_that_ends_with(1)
    assert "not back in force" in machine.run("prerm", "remove")
    assert "stays" in machine.run("postrm", "purge")
    assert (machine.state / "journal.json").exists()
    machine.agent_that_ends_with(0)  # installed once more, and removed when the machine can do it again
    machine.run("prerm", "remove")
    machine.run("postrm", "purge")
    assert not machine.state.exists()


def test_a_removal_without_a_configuration_restores_by_the_journal(machine: Machine) -> None:
    machine.agent_that_ends_with(1)
    (machine.folder / "etc/osml/agent.yaml").unlink()
    assert "not back in force" in machine.run("prerm", "remove")
    assert machine.asked.read_text() == f"restore --state-dir {machine.state}\n"
    machine.run("postrm", "purge")
    assert (machine.state / "journal.json").exists()


def test_a_removal_without_configuration_and_journal_has_nothing_to_restore(machine: Machine) -> None:
    machine.agent_that_ends_with(1)
    (machine.folder / "etc/osml/agent.yaml").unlink()
    (machine.state / "journal.json").unlink()
    assert machine.run("prerm", "remove") == ""
    assert not machine.asked.exists()


def test_a_removal_stops_the_agent_first_and_the_plugin_after_the_restore(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.agent_that_ends_with(0)
    (machine.folder / "run/systemd/system").mkdir(parents=True)
    programs = machine.folder / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "systemctl $@" >> {machine.asked}\n')
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    machine.run("prerm", "remove")
    stopped, restored, last = machine.asked.read_text().splitlines()
    units = {path.name.replace("@", "@*") for path in UNITS.glob("osml-*.service")} - {"osml-server.service"}
    assert set(stopped.removeprefix("systemctl stop ").split()) == units - {"osml-nri.service"}
    assert restored.startswith("restore")
    assert last == "systemctl stop osml-nri.service"


def test_an_upgrade_touches_nothing(machine: Machine) -> None:
    machine.agent_that_ends_with(0)
    machine.run("prerm", "upgrade")
    machine.run("postrm", "upgrade")
    assert not machine.asked.exists()
    assert machine.state.exists()


@pytest.mark.parametrize("known", [True, False])
def test_an_installation_makes_the_group_once(machine: Machine, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    programs = machine.folder / "programs"
    programs.mkdir()
    for name, code in (("getent", 0 if known else 2), ("groupadd", 0)):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $@" >> {machine.asked}\nexit {code}\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    machine.run("postinst", "configure")
    made = ["groupadd --system osml"] if not known else []
    assert machine.asked.read_text().splitlines() == ["getent group osml", *made]
