"""scripts/setup: every make target sets itself up, and nothing of the checkout gets into the system's path."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETUP = (ROOT / "scripts/setup").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def test_every_set_up_that_a_target_asks_for_is_one() -> None:
    asked = set(re.findall(r"\bsetup-([a-z]+(?:-[a-z]+)*)", MAKEFILE)) - {"what"}
    [known] = re.findall(r"is not one of ([\w, -]+)\"", SETUP)
    assert asked == set(known.split(", ")) > {"run", "docs", "release"}
    targets = dict(re.findall(r"^([a-z-]+):(?: *)([^#\n]*)", MAKEFILE, re.MULTILINE))
    for target in ("demo", "live", "check", "bench", "docs", "release", "pictures"):
        needs = targets[target].split()
        assert any(one.startswith("setup-") or "setup-" in targets.get(one, "") for one in needs), target


def test_an_unknown_set_up_is_named() -> None:
    done = subprocess.run([ROOT / "scripts/setup", "lives"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'lives' is not one of run, live" in done.stderr


def test_uv_stays_in_the_checkout_and_every_long_step_is_said_before_it_begins() -> None:
    assert not re.search(r"\bln -", SETUP)
    assert "/usr/local" not in SETUP
    long = {"apt-get install": "1/4", "pip install --quiet uv": "2/4", "uv sync": "3/4"}
    for command, said in long.items():
        assert 0 <= SETUP.index(f"{said} ") < SETUP.index(command)
