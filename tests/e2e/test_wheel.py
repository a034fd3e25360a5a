"""What `pip install osml` gets: the package with its data and the shipped models, without tests."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from osml.predictors.manifest import load_manifest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(["uv", "build", "--wheel", "--quiet", "--out-dir", str(folder)], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_every_shipped_model_comes_along_unchanged(wheel: zipfile.ZipFile) -> None:
    manifest = load_manifest(ROOT / "models")
    assert manifest.models
    for entry in manifest.models:
        for file, digest in entry.sha256.items():
            assert hashlib.sha256(wheel.read(f"osml/models/{entry.name}/{file}")).hexdigest() == digest


def test_every_data_file_of_the_package_comes_along_and_no_test(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    tracked = subprocess.run(["git", "ls-files", "osml"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(tracked.stdout.splitlines()) <= names
    assert not any("/tests/" in name for name in names)
