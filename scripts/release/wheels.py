"""The three Python packages: built from their source packages, and each extra tried in an environment of its own."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from scripts.release.server import check_server
from scripts.release.step import NotReleasedError, Report, clean_environment, program, run

PACKAGES = ("osml", "osml_serving", "osml_training")


class Extra(NamedTuple):
    """An installation that is promised to work: what is asked for, and Python code that uses what it brings."""

    wanted: str
    trial: str


EXTRAS = (
    Extra("osml", "import osml.decide.registry, osml.layout, osml.entropy"),
    Extra(
        "osml[models]",
        "from osml.predictors import load_manifest, models_folder, load_predictor\n"
        "folder = models_folder()\n"
        "entries = [entry for entry in load_manifest(folder).models if entry.kind != 'c']\n"
        "assert entries\n"
        "load_predictor(folder / entries[0].name)",
    ),
    Extra(
        "osml[clite]",
        "from osml.decide.registry import load_policy\nload_policy('clite')",
    ),
    Extra("osml[dispatch]", "import osml.dispatch.mdp.policy_iteration, osml.dispatch.mdp.thresholds"),
    Extra("osml[datasets]", "import osml.datasets.validate, osml.datasets.package"),
    Extra("osml[experiences]", "import osml.experiences.store"),
    Extra(
        "osml[simulator]",
        "from osml.simulator.mix import node_of, parse_mix\nnode_of(parse_mix('moses=0.4'), 'e5-2697v4')",
    ),
    Extra("osml[fuse]", "import mfusepy"),
    Extra(
        "osml[gym]",
        "import gymnasium\n"
        "env = gymnasium.make('osml.simulator.environment:osml/Colocation-v0', max_services=3)\n"
        "env.reset(seed=1)\n"
        "assert len(env.step(env.action_space.sample())) == 5",
    ),
    Extra("osml[real-services]", "import onnx, pocketsphinx, osml.lab.trials.live.services"),
    Extra("osml[ray]", "import ray, osml.lab.bench.workers"),
    Extra("osml_training", "import osml_training.collect, osml_training.cli.data.app"),
)
"""`osml_serving` and `osml[lab]` have trials of their own below. torch (6 GB) is not installed: `osml_training[train]`,
`[ray]` are tried by `make test-training`."""


def build(source: Path, out: Path, epoch_s: int) -> list[Path]:
    """Build source packages, and wheels from these; returns the wheels."""
    command = [program("uv", "uv"), "build", "--all-packages", "--quiet", "--out-dir", out]
    run(command, cwd=source, env=clean_environment() | {"SOURCE_DATE_EPOCH": str(epoch_s)})
    (out / ".gitignore").unlink(missing_ok=True)
    wheels = sorted(out.glob("*.whl"))
    if [wheel.name.split("-")[0] for wheel in wheels] != list(PACKAGES):
        raise NotReleasedError(
            f"the build made {[wheel.name for wheel in wheels]}, expected one wheel each of {PACKAGES}"
        )
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            if not any(name.endswith(".dist-info/licenses/LICENSE") for name in packed.namelist()):
                raise NotReleasedError(f"{wheel.name} has no LICENSE in its metadata, expected that of its package")
    return wheels


def write_constraints(source: Path, file: Path) -> None:
    """The versions of all dependencies that the tests ran with: `pip install -c FILE` takes these."""
    options = [
        "--frozen",
        "--all-packages",
        "--all-extras",
        "--no-dev",
        "--no-emit-workspace",
        "--no-hashes",
        "--quiet",
    ]
    run([program("uv", "uv"), "export", *options, "--no-header", "--output-file", file], cwd=source)


class Environments:
    """Fresh Python environments below a folder, without this checkout."""

    def __init__(self, folder: Path, wheels: list[Path], constraints: Path) -> None:
        self._folder, self._constraints = folder, constraints
        self._wheels = {wheel.name.split("-")[0]: wheel for wheel in wheels}

    def make(self, *wanted: str) -> Path:
        """The folder of an environment with these packages, each with its extras in brackets."""
        uv = program("uv", "uv")
        place = self._folder / "-".join(wanted).translate({ord(one): "-" for one in "[],"}).rstrip("-")
        run([uv, "venv", "--quiet", "--python", "3.11", place], env=clean_environment())
        asked = [
            f"{self._wheels[name]}{bracket}{rest}" for name, bracket, rest in (one.partition("[") for one in wanted)
        ]
        named = {one.partition("[")[0] for one in wanted}
        asked += [str(self._wheels["osml"])] if "osml" not in named else []
        options = ["--quiet", "--python", place / "bin/python", "--constraints", self._constraints]
        run([uv, "pip", "install", *options, *asked], env=clean_environment())
        return place

    def python(self, place: Path, code: str) -> str:
        """What a piece of Python prints in an environment; the working folder is empty."""
        empty = self._folder / "empty"
        empty.mkdir(exist_ok=True)
        return run([place / "bin/python", "-c", code], cwd=empty, env=clean_environment(), timeout_s=600)


def check(environments: Environments, report: Report) -> None:
    """Try every extra; raises NotReleasedError at the first that does not work."""
    for extra in EXTRAS:
        with report.step(f"wheel {extra.wanted}") as step:
            place = environments.make(extra.wanted)
            environments.python(place, extra.trial)
            step.found = f"{_doctor(environments, place)} of its mechanisms work here"


def _doctor(environments: Environments, place: Path) -> str:
    said = run([place / "bin/osml", "look", "doctor", "--json"], cwd=place, env=clean_environment(), timeout_s=300)
    found = json.loads(said)["mechanisms"]
    where = environments.python(place, "import osml; print(osml.__file__)").strip()
    if not where.startswith(str(place)):
        raise NotReleasedError(
            f"osml was imported from {where}, expected a place below {place}: look for a stray .pth file"
        )
    return f"{sum(one['available'] for one in found)} of {len(found)}"


def check_server_of(place: Path, logs: Path, then: Callable[[str], None] | None = None) -> str:
    """Start the server of an environment and ask it for one decision; returns what was found."""
    command = [str(place / "bin/osml"), "run", "serve", "--store", "none"]
    return check_server(command, example_observation(place), logs, then)


def example_observation(place: Path) -> str:
    """The observation that the server's documentation shows, as JSON."""
    code = "from osml_serving.example import EXAMPLE; import msgspec; print(msgspec.json.encode(EXAMPLE).decode())"
    return run([place / "bin/python", "-c", code], cwd=place, env=clean_environment())
