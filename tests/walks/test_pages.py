"""Commands of README.md, demo.md, production.md and write-an-agent.md, as they stand there but for ports and places."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from osml.lab.trials.children import Children, free_port, wait_until
from tests.kit.pages import ROOT, Block, commands_of
from tests.kit.walk import walk

THIS = "tests/walks/test_pages.py"
PATH = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"


def blocks(page: str) -> list[Block]:
    return commands_of(ROOT / page, THIS)


def bash(commands: str, folder: Path, timeout_s: float = 170) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=folder, env=os.environ | {"PATH": PATH},
        capture_output=True, text=True, check=False, timeout=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def children(tmp_path: Path) -> object:
    with Children(tmp_path / "logs") as owned:
        yield owned


def test_tokens_of_production(tmp_path: Path) -> None:
    [block] = [one for one in blocks("docs/how-to/production.md") if "osml run tokens create" in one.text]
    bash("\n".join(block.commands), tmp_path)
    assert (tmp_path / "node-17.token").read_text().strip()
    listed = bash("osml run tokens list --file tokens", tmp_path)
    assert all(name in listed for name in ("node-17", "prometheus", "alice"))


def test_the_package_of_production(tmp_path: Path) -> None:
    if not (ROOT / "actuator/build/release/osml-agent").exists():
        pytest.skip("the agent is not built: `make agent`")
    [block] = [one for one in blocks("docs/how-to/production.md") if "cpack" in one.text]
    commands = "\n".join(block.commands)
    bash(commands.replace("-B actuator/build/package", f"-B {tmp_path}"), ROOT)
    [package] = tmp_path.glob("osml-agent_*.deb")
    files = bash(f"dpkg-deb --contents {package}", tmp_path)
    for path in ("usr/bin/osml-agent", "usr/bin/osml-latency", "etc/osml/", "man8/osml-agent.8.gz"):
        assert f"./{path}" in files or path in files


def test_the_conformance_check_of_write_an_agent(tmp_path: Path, children: Children) -> None:
    [block] = blocks("docs/how-to/write-an-agent.md")
    port = free_port()
    server = children.start(
        "server", [str(ROOT / ".venv/bin/osml"), "run", "serve", "--port", str(port), "--store", "none"]
    )
    ready = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/readyz', timeout=1)"
    wait_until(
        lambda: subprocess.run(["python3", "-c", ready], capture_output=True, check=False).returncode == 0,
        "the server", [server], 60,
    )  # fmt: skip
    [command] = block.commands
    assert "failed" not in bash(command.replace("127.0.0.1:8080", f"127.0.0.1:{port}"), tmp_path).lower().split()


def test_three_terminals_of_the_demo_page(tmp_path: Path, children: Children) -> None:
    if not (ROOT / "actuator/build/release/osml-agent").exists():
        pytest.skip("the agent is not built: `make agent`")
    [block] = [one for one in blocks("docs/tutorial/demo.md") if "simulator mount" in one.text]
    port, node = free_port(), tmp_path / "node"
    written = "/tmp/node"  # noqa: S108  what the page has
    mount, serve, run = (line.replace(written, str(node)).split() for line in block.commands)
    url = f"http://127.0.0.1:{port}"
    first, second, third = mount[0], serve[0], run[0]
    assert (first, second, third) == (".venv/bin/osml", ".venv/bin/osml", "actuator/build/release/osml-agent")
    virtual = children.start("node", [str(ROOT / first), *mount[1:], "--server-url", url])
    server = children.start("server", [str(ROOT / second), *serve[1:], "--port", str(port)])
    ready = node / "node.json"
    wait_until(lambda: ready.exists() and json.loads(ready.read_text())["ready"], "the virtual node", [virtual], 90)
    agent = children.start("agent", [str(ROOT / third), *run[1:]])
    wait_until(lambda: re.search(r"decision \d+ applied", agent.log.read_text()) is not None, "a decision",
               [virtual, server, agent], 60)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_two_commands_of_the_readme(tmp_path: Path) -> None:
    _, output = walk(blocks("README.md"), tmp_path, 3000)
    assert "moses" in output
    assert (tmp_path / "osml/out/demo/summary.json").exists()
    assert (tmp_path / "osml/out/case-a/report.html").exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demos_of_the_demo_page() -> None:
    commands = [
        line for block in blocks("docs/tutorial/demo.md") for line in block.commands if line.startswith("make demo")
    ]
    assert len(commands) == 3
    for command in commands:
        shutil.rmtree(ROOT / "out/demo", ignore_errors=True)
        bash(command, ROOT, 600)
        assert json.loads((ROOT / "out/demo/summary.json").read_text())["simulated"] is True


def test_the_list_of_what_uses_cpu_time_has_cpu_times() -> None:
    if shutil.which("systemd-cgtop") is None:
        pytest.skip("systemd-cgtop is not installed")
    text = (ROOT / "docs/how-to/your-machine.md").read_text("utf-8")
    [command] = re.findall(r"`(systemd-cgtop [^`]*)`", text)
    second = bash(command, ROOT).strip().split("\n\n")[1]
    shares = [line.split()[-4] for line in second.splitlines()]  # path, tasks, %CPU, memory, input, output
    assert any(re.fullmatch(r"\d+\.\d", share) for share in shares), second
