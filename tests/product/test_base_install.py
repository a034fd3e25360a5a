"""`pip install osml` without extras: the product imports and decides where the libraries of the extras are missing."""

from __future__ import annotations

import subprocess
import sys

EXTRAS = ("numba", "scipy", "sklearn", "pyarrow", "matplotlib", "sqlalchemy", "alembic", "onnxruntime", "gymnasium")
ROOMS = (
    "base",
    "domain",
    "layout",
    "frontier",
    "predictors",
    "bandwidth",
    "allocation",
    "decide",
    "policies",
    "doctor",
)

HIDING = """
import importlib, pkgutil, sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {extras}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Hidden)
"""

IMPORTS = """
import osml, osml.entropy, osml.cli.main
for room in {rooms}:
    package = importlib.import_module("osml." + room)
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if one.name != "osml.base.jit":
            importlib.import_module(one.name)
assert not [name for name in sys.modules if name.startswith(("osml.simulator", "osml.lab"))]
print("ok")
"""

COMMAND = """
sys.argv = ["osml", *{arguments}]
from osml.cli.main import main
main()
"""


def run(script: str, **names: object) -> subprocess.CompletedProcess[str]:
    text = (HIDING + script).format(extras=EXTRAS, **names)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)


def test_all_of_the_product_imports_without_the_extras() -> None:
    done = run(IMPORTS, rooms=ROOMS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ok\n"


def test_help_and_doctor_work_without_the_extras() -> None:
    assert "doctor" in run(COMMAND, arguments=("look", "--help")).stdout
    done = run(COMMAND, arguments=("look", "doctor", "--json"))
    assert done.returncode == 0, done.stderr


def test_a_command_of_the_laboratory_says_what_to_install() -> None:
    done = run(COMMAND, arguments=("lab", "bench", "list"))
    assert done.returncode == 3
    assert "install it with `pip install 'osml[lab]'`" in done.stderr
    assert "Traceback" not in done.stderr
