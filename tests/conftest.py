"""Which kind of test each file is, and fixtures that several rooms need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.kit.postgres import Postgres, run_postgres

if TYPE_CHECKING:
    from osml.domain import Experience

HERE = Path(__file__).parent

KINDS = {
    "deploy": "process",
    "e2e": "process",
    "reference": "process",
    "experiences": "process",
    "kernel_files": "process",
    "serving": "process",
    "serving/view/test_browser.py": "browser",
    "serving/view/test_browser_space.py": "browser",
    "serving/view/test_browser_fleet.py": "browser",
    "serving/view/test_browser_blame.py": "browser",
    "calibration": "simulation",
    "dispatch": "simulation",
    "lab": "simulation",
    "policies/test_parties_virtual.py": "simulation",
    "policies/test_heracles.py": "simulation",
    "policies/test_priority.py": "simulation",
    "policies/test_clite.py": "simulation",
    "policy_osml/test_virtual.py": "simulation",
    "predictors/test_q_function.py": "simulation",
    "decide/test_example_policy.py": "process",
    "product/test_domain_knobs.py": "simulation",
    "simulator": "simulation",
    "theory": "simulation",
    "twin": "simulation",
    "twin/test_shapley.py": "unit",
    "training": "simulation",
    "walks": "process",
}
"""Kind of the tests of a folder or file; the longest match counts, and all others are unit tests."""

TOGETHER = {
    "tests/e2e/live/test_live.py": "live",
    "tests/e2e/live/test_live_validation.py": "live",
    "tests/e2e/test_data_sweep.py": "live",
    "tests/reference/": "reference",
}
"""Files and folders that one process runs: they take the machine's lock for live trials, or share booted machines."""

settings.register_profile("ci", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


class _Files(LoadFileScheduling):
    """A file is a piece of work, and so are those together that can't run at the same time."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((name for start, name in TOGETHER.items() if file.startswith(start)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """The scheduler of `--dist loadfile`; of other kinds the usual one."""
    return _Files(config, log) if config.getoption("dist") == "loadfile" else None


def kind_of(file: Path) -> str:
    """The kind of the tests of a file below this folder."""
    name = file.relative_to(HERE).as_posix()
    matches = [known for known in KINDS if name == known or name.startswith(known + "/")]
    return KINDS[max(matches, key=len)] if matches else "unit"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test the marker of its kind."""
    for item in items:
        item.add_marker(kind_of(item.path))


@pytest.fixture
def make_experience() -> Callable[..., Experience]:
    """Make an experience: `seq`, `node`, `after_ms`, `policy`."""
    from tests.kit.experiences import experience_of

    return experience_of


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Address of a PostgreSQL for all tests; skips where it or its driver is missing."""
    for running in run_postgres():
        yield running.url


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL that a test may stop and start."""
    yield from run_postgres()
