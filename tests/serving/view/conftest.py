"""A real Chromium for the tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import chromium


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[chromium.Browser]:
    running = chromium.Browser(tmp_path / "profile")
    yield running
    running.close()
