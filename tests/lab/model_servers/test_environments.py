"""Environments of the other servers: made once, of exact versions, and a sentence where one can't be made."""

import re
import shutil

import pytest

from osml.lab.benchmarks.model_servers import environments
from osml.lab.benchmarks.model_servers.environments import PROGRAMS, NoEnvironmentError, environment
from osml.lab.benchmarks.model_servers.servers import versions

UV = """#!/bin/sh
echo "$@" >> {log}
{rest}
"""


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """Puts a program of that name into PATH; what it was asked for is in the file that comes back."""

    def install(rest="[ $1 = venv ] && mkdir -p $5/bin; exit 0"):
        folder, log = tmp_path / "bin", tmp_path / "log"
        folder.mkdir(exist_ok=True)
        (folder / "uv").write_text(UV.format(log=log, rest=rest))
        (folder / "uv").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return log

    return install


def test_an_environment_is_made_once(uv, tmp_path):
    log = uv()
    assert environment("mlserver", tmp_path / "made") == tmp_path / "made/mlserver/bin"
    first = log.read_text().splitlines()
    assert [line.split()[0] for line in first] == ["venv", "pip"]
    assert first[1].endswith("/programs/mlserver.txt")
    environment("mlserver", tmp_path / "made")
    assert log.read_text().splitlines() == first


def test_it_is_made_anew_for_other_versions(uv, tmp_path, monkeypatch):
    log = uv()
    programs = tmp_path / "programs"
    shutil.copytree(PROGRAMS, programs)
    monkeypatch.setattr(environments, "PROGRAMS", programs)
    environment("bentoml", tmp_path / "made")
    (programs / "bentoml.txt").write_text("bentoml==9.9\n")
    environment("bentoml", tmp_path / "made")
    assert len(log.read_text().splitlines()) == 4


def test_half_an_environment_is_none(uv, tmp_path):
    uv("[ $1 = venv ] && mkdir -p $5/bin && exit 0; echo 'no route to the index' >&2; exit 2")
    with pytest.raises(NoEnvironmentError, match="mlserver can't be made: no route to the index"):
        environment("mlserver", tmp_path / "made")
    uv()
    assert environment("mlserver", tmp_path / "made").is_dir()


def test_without_uv_it_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEnvironmentError, match=r"uv is not installed.*make setup-run"):
        environment("mlserver", tmp_path / "made")


@pytest.mark.parametrize("name", ["mlserver", "bentoml"])
def test_every_version_is_exact(name):
    lines = (PROGRAMS / f"{name}.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", line) for line in lines)
    assert versions()[name] in "".join(lines)
    assert f"onnxruntime=={versions()['onnxruntime']}" in lines, "all servers have the onnxruntime of this project"
