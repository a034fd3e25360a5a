"""The limits of the server's systemd unit, and that the server works within them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
import pytest

from osml.lab.trials.children import free_port
from tests.kit.no_executable_memory import PRELUDE, UNKNOWN
from tests.kit.server import JSON, Process

pytest.importorskip("osml_serving")

from osml_serving.example import EXAMPLE

ROOT = Path(__file__).resolve().parents[2]
UNIT = (ROOT / "deploy/osml-server.service").read_text()


@pytest.fixture
def strict() -> None:
    """Skips where the kernel can't deny executable memory; a compiler shows that it is denied."""
    program = f"{PRELUDE}\nimport mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if UNKNOWN in done.stderr:
        pytest.skip(UNKNOWN)
    assert "PermissionError" in done.stderr


def test_server_and_slow_policies_decide_where_no_memory_may_become_executable(strict: None, tmp_path: Path) -> None:
    assert "MemoryDenyWriteExecute=yes" in UNIT
    flags = ("--drain-s", "0", "--store", f"sqlite:///{tmp_path}/x.db", "--slow-policy-timeout-s", "20")
    server = Process(tmp_path, free_port(), *flags, before=PRELUDE)
    try:
        server.wait_ready()
        ready = httpx.get(f"{server.url}/readyz").json()
        deadline = time.monotonic() + 90
        for policy in ready["policies"]:
            body = msgspec.json.encode(msgspec.structs.replace(EXAMPLE, policy=policy))
            while (answer := httpx.post(f"{server.url}/v1/decisions", content=body, headers=JSON)).status_code == 503:
                assert time.monotonic() < deadline, answer.text
                time.sleep(0.2)
            assert answer.status_code == 200, (policy, answer.text)
        assert "clite" in ready["policies"]
        assert ready["unavailable_policies"] == []
    finally:
        server.stop()


def test_the_unit_allows_the_system_calls_that_the_code_makes() -> None:
    worker = (ROOT / "serving/osml_serving/slow/worker.py").read_text()
    filters = re.findall(r"^SystemCallFilter=(.+)$", UNIT, re.MULTILINE)
    assert "os.nice(" in worker
    assert filters.index("setpriority") > filters.index("~@privileged @resources"), "a later line wins"
    assert "SystemCallErrorNumber=EPERM" in UNIT, "a refused call is an error, not the end of the process"
