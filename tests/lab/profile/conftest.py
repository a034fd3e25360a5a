"""The loops in C, compiled once, and what is needed to run them under instrumentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from osml.lab.profile import instrument
from osml.lab.profile.known import compiled


@pytest.fixture(scope="session")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `loops`; skips where QEMU or the plugin is missing."""
    if shutil.which("qemu-x86_64") is None or not instrument.PLUGIN.is_file():
        pytest.skip("needs qemu-user and `make agent`")
    return compiled(tmp_path_factory.mktemp("loops"))
