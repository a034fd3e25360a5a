"""`pip install osml` without extras: the product imports and decides where the libraries of the extras are missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from osml.base.extras import how_to_install

ROOT = Path(__file__).parents[2]

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

COMPILED = ("numba", "scipy", "sklearn", "matplotlib")
"""What the server does without: its unit forbids memory that is written and executed."""

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


SERVER = """
import osml_serving
for package in (osml_serving, importlib.import_module("osml.datasets"), importlib.import_module("osml.experiences")):
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".migrations" not in one.name:
            importlib.import_module(one.name)
print("ok")
"""


def run(script: str, hidden: tuple[str, ...] = EXTRAS, **names: object) -> subprocess.CompletedProcess[str]:
    text = (HIDING + script).format(extras=hidden, **names)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)


def test_all_of_the_product_imports_without_the_extras() -> None:
    done = run(IMPORTS, rooms=ROOMS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ok\n"


def test_the_server_and_its_check_of_data_sets_need_no_compiled_code() -> None:
    done = run(SERVER, COMPILED)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ok\n"


def test_every_extra_that_a_sentence_names_exists() -> None:
    known = {
        extra
        for project in ("pyproject.toml", "serving/pyproject.toml", "training/pyproject.toml")
        for extra in tomllib.loads((ROOT / project).read_text())["project"]["optional-dependencies"]
    }
    folders = [ROOT / name for name in ("osml", "serving/osml_serving", "training/osml_training", "docs")]
    files = [file for folder in folders for kind in ("*.py", "*.md") for file in folder.rglob(kind)]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "training/README.md"]
    named = [
        (extra, file)
        for file in [*files, *pages]
        if "notes" not in file.parts
        for groups in re.findall(r"--extra (\w+)|\bosml\[([\w,]+)\]", file.read_text("utf-8"))
        for extra in "".join(groups).split(",")
    ]
    assert len(named) > 10
    assert [(extra, file) for extra, file in named if extra not in known] == []


def test_every_extra_that_the_code_says_how_to_install_is_one_of_its_package() -> None:
    folders = {"osml": ".", "osml-serving": "serving", "osml-training": "training"}
    known = {
        package: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for package, folder in folders.items()
    }
    code = [ROOT / name for name in ("osml", "serving/osml_serving", "training/osml_training")]
    files = [file for folder in code for file in folder.rglob("*.py") if file.name != "extras.py"]
    calls = [call for file in files for call in re.findall(r"how_to_install\(([^)]*)\)", file.read_text("utf-8"))]
    assert len(calls) > 15
    for call in calls:
        package = re.search(r"package=[\"']([\w-]+)", call)
        extras = re.findall(r"[\"']([\w-]+)[\"']", re.sub(r"package=\S+", "", call))
        assert set(extras) <= known[package[1] if package else "osml"].keys(), call


def test_help_and_doctor_work_without_the_extras() -> None:
    assert "doctor" in run(COMMAND, arguments=("look", "--help")).stdout
    done = run(COMMAND, arguments=("look", "doctor", "--json"))
    assert done.returncode == 0, done.stderr


def test_a_command_of_the_laboratory_says_what_to_install() -> None:
    done = run(COMMAND, arguments=("lab", "bench", "list"))
    assert done.returncode == 3
    assert how_to_install("lab") in done.stderr
    assert "Traceback" not in done.stderr
