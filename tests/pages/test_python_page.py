"""docs/reference/python.md names modules that exist, with what its reader looks for."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/reference/python.md"
MODULES = re.findall(r"^::: (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)
NAMES = {
    "osml.domain": {"Observation", "Decision", "Partition", "Service"},
    "osml.allocation.policy": {"Plan", "Policy"},
    "osml.simulator.environment": {"ColocationEnv", "ENVIRONMENT_ID"},
    "osml.simulator.closed_loop": {"ClosedLoop"},
    "osml.entropy": {"tolerance", "interference"},
}


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(("osml.simulator", "osml.lab"))])
def test_a_module_of_the_page_is_there_and_says_what_everything_is(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    public = [
        one for key, one in vars(module).items()
        if not key.startswith("_") and (inspect.isfunction(one) or inspect.isclass(one)) and one.__module__ == name
    ]  # fmt: skip
    assert all(inspect.getdoc(one) for one in public)


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_finds_the_names_of_the_tutorials(name: str) -> None:
    assert name in MODULES
    source = Path(__file__).parents[2] / name.replace(".", "/")
    file = source.with_suffix(".py") if source.with_suffix(".py").exists() else source / "__init__.py"
    text = file.read_text("utf-8")
    assert all(re.search(rf"\b{one}\b", text) for one in NAMES[name])
