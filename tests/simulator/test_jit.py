"""Machine code is kept for each state of the sources: no source may be missing, no folder in use may go."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import osml
from osml.base import jit
from osml.dispatch.mdp.elimination import factor

PACKAGE = Path(osml.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
    if not {"tests", "benchmarks", "studies"}.intersection(path.parts)
}
DECORATORS = {"compiled", "unlocked", "lean"}
DAY_S = 24 * 3600.0


def _imported(tree: ast.Module) -> dict[str, str]:
    """Name in a module -> the module of ours that it is, or that it comes from."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "osml":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found[alias.asname or alias.name] = inner if inner in MODULES else node.module
    return found


def _compiled(tree: ast.Module) -> list[ast.FunctionDef]:
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id in DECORATORS for d in node.decorator_list)
    ]


def test_the_state_covers_every_compiled_function_and_what_it_takes_from_other_modules() -> None:
    counted, seen = set(jit._sources(PACKAGE)), 0
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text("utf-8"))
        functions, imported = _compiled(tree), _imported(tree)
        seen += len(functions)
        if not functions:
            continue
        assert path in counted, f"{name} has compiled functions and does not count"
        used = {n.id for f in functions for line in f.body for n in ast.walk(line) if isinstance(n, ast.Name)}
        for taken in used & set(imported):
            assert MODULES[imported[taken]] in counted, f"{name} compiles {taken} of {imported[taken]} in"
    assert seen > 80  # the decorators above are those in use


def test_the_solver_lets_other_threads_go_on() -> None:
    """It runs beside the control loop of `osml run dispatch`."""
    solver = [path for name, path in MODULES.items() if name.startswith("osml.dispatch.mdp.")]
    used = {
        decorator.id
        for path in solver
        for function in _compiled(ast.parse(path.read_text("utf-8")))
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Name)
    }
    assert used == {"unlocked"}
    options = getattr(factor, "targetoptions", None)  # not with NUMBA_DISABLE_JIT
    assert options is None or options["nogil"]


def test_sources_in_folders_below_count(tmp_path: Path) -> None:
    inside = tmp_path / "simulator" / "physics" / "deeper" / "more.py"
    inside.parent.mkdir(parents=True)
    inside.touch()
    assert jit._sources(tmp_path) == [inside]


@pytest.mark.parametrize(
    ("ages_d", "left"),
    [
        ((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), 6),  # all used today: many checkouts, or much work
        ((0.0, 2.0, 3.0, 4.0, 5.0, 6.0), 4),
        ((5.0, 6.0), 2),
        ((0.0, 0.1, 0.2, 0.3, 0.9, 1.1), 5),
    ],
)
def test_what_was_used_within_a_day_and_the_last_four_are_kept(
    tmp_path: Path, ages_d: tuple[float, ...], left: int
) -> None:
    now = 1e9
    for number, age in enumerate(ages_d):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "code.nbc").touch()
        os.utime(folder, (now - age * DAY_S, now - age * DAY_S))
    jit._forget_old(tmp_path, now)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [str(number) for number in range(left)]
