"""A server on a machine with many CPUs: numpy's library would make a thread for each of them at its import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("osml_serving")

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
WANTED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# The command itself; in the place of what it starts is a word about what was there at that moment.
PROGRAM = """
import json, os, sys, types
def tell(*_):
    print(json.dumps([{name: os.environ.get(name) for name in %r}, "numpy" in sys.modules]))
    sys.exit(0)
for name, attribute in (("osml_serving.start", "start"), ("osml_serving.workers.supervisor", "Supervisor")):
    sys.modules[name] = types.ModuleType(name)
    setattr(sys.modules[name], attribute, tell)
from osml.cli.entry import main
sys.argv = ["osml", "run", "serve", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("flags", [(), ("--workers", "4")])
@pytest.mark.parametrize("own", [{}, {"OPENBLAS_NUM_THREADS": "3"}])
def test_libraries_have_one_thread_unless_the_operator_says_otherwise(
    flags: tuple[str, ...], own: dict[str, str]
) -> None:
    rest = {name: value for name, value in os.environ.items() if name not in WANTED}
    command = [sys.executable, "-c", PROGRAM % list(WANTED), *flags]
    done = subprocess.run(command, env=rest | own, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    environment, imported_before = json.loads(done.stdout)
    assert environment == WANTED | own
    assert not imported_before, "later the environment says nothing to it"


@pytest.mark.parametrize("file", ["osml-server.service", "Containerfile.server"])
def test_the_unit_and_the_image_say_the_same(file: str) -> None:
    text = (DEPLOY / file).read_text()
    assert dict(re.findall(r"\b((?:OMP|OPENBLAS)_NUM_THREADS)=(\d+)", text)) == WANTED
    assert "ORT_DISABLE_TELEMETRY=1" in text
