"""Models are exchanged while the server runs, and what is broken is never asked."""

import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
import pytest
from osml_serving.example import EXAMPLE
from osml_serving.models import shelf as model_shelf
from osml_serving.models.shelf import ModelShelf

from osml.base.failure import InputError
from osml.domain import Decision
from osml.lab.trials.children import free_port
from osml.policies.osml.answers.models import load_models
from osml.predictors import find_model, model_check, models_folder

pytest.importorskip("onnxruntime")
PLATFORM = "e5-2697v4"
A2, MANY = f"a2-masked-{PLATFORM}", "a2-masked-any"
JSON = {"content-type": "application/json"}
NAN = b"\xff\xff\xff\xff"  # whatever byte a weight begins at


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of the shipped models."""
    return Path(shutil.copytree(models_folder(), tmp_path / "models"))


def entries(folder: Path) -> list[dict]:
    return json.loads((folder / "manifest.json").read_text())["models"]


def write(folder: Path, models: list[dict]) -> None:
    """As a promotion does: the manifest last, and at once."""
    document = {"models": models, "schema": "osml/models/v1"}
    (folder / "new").write_text(json.dumps(document))
    (folder / "new").replace(folder / "manifest.json")


def is_a2(entry: dict) -> bool:
    return (entry["kind"], entry["platform"]) == ("a2", PLATFORM)


def derive(folder: Path, name: str, change=lambda model, metadata: (model, metadata), **fields) -> None:
    """Put a changed copy of A' into its place in the manifest, under another name, with right checksums."""
    old = next(entry for entry in entries(folder) if is_a2(entry))
    home = Path(shutil.copytree(folder / old["name"], folder / name))
    metadata = json.loads((home / "metadata.json").read_text()) | {"name": name, "version": "2"}
    model, metadata = change((home / "model.onnx").read_bytes(), metadata)
    (home / "model.onnx").write_bytes(model)
    (home / "metadata.json").write_text(json.dumps(metadata))
    sums = {file: hashlib.sha256((home / file).read_bytes()).hexdigest() for file in old["sha256"]}
    new = old | {"name": name, "version": "2", "sha256": sums} | fields
    write(folder, [new, *(entry for entry in entries(folder) if not is_a2(entry))])


def spoilt(model: bytes, metadata: dict) -> tuple[bytes, dict]:
    """Weights that are not numbers."""
    middle = len(model) // 2
    return model[:middle] + NAN * 2000 + model[middle + 8000 :], metadata


def narrow(model: bytes, metadata: dict) -> tuple[bytes, dict]:
    return model, metadata | {"features": metadata["features"][1:]}


def unnamed(model: bytes, metadata: dict) -> tuple[bytes, dict]:
    return model, metadata | {"platforms": ["another"]}


def in_use(shelf: ModelShelf) -> str:
    return next(model.name for model in shelf.in_use(PLATFORM) if model.kind == "a2")


OWN_NAME = "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz"


def test_a_cpu_s_own_name_finds_the_model_of_its_machine(folder):
    shelf = ModelShelf(folder)
    shelf.reload()
    own, by_id = shelf.models_of(OWN_NAME), shelf.models_of(PLATFORM)
    assert own.a2.metadata.name == by_id.a2.metadata.name == A2
    assert own.c is by_id.c is not None
    assert own.faults == by_id.faults
    assert shelf.in_use(OWN_NAME) == shelf.in_use(PLATFORM)
    assert A2 in [model.name for model in shelf.in_use(OWN_NAME)]


@pytest.mark.parametrize("kind", ["a2", "c"])
@pytest.mark.parametrize("platform", [OWN_NAME, PLATFORM, "E5-2697V4", "unknown", "Intel(R) Xeon(R) Gold 5120 CPU"])
def test_server_and_commands_choose_the_same_model(folder, platform, kind):
    shelf = ModelShelf(folder)
    shelf.reload()
    chosen = getattr(shelf.models_of(platform), kind)
    try:
        found = find_model(folder, kind, platform).name
    except InputError:
        found = None
    assert (None if chosen is None else chosen.metadata.name) == found


def test_the_shipped_models_are_all_in_use(folder):
    shelf = ModelShelf(folder)
    assert shelf.reload()
    assert sorted(model.name for model in shelf.in_use()) == sorted(entry["name"] for entry in entries(folder))
    assert shelf.refused == ()
    assert shelf.models_of(PLATFORM).a2.metadata.name == A2
    unknown = shelf.models_of("unknown")
    assert unknown.a2 is not None
    assert unknown.a2.metadata.name == MANY
    assert unknown.a is None
    assert "no model of kind a for platform 'unknown'" in unknown.faults
    assert not shelf.changed()


def test_a_platform_with_its_own_model_has_that_of_all_machines_too(folder):
    shelf = ModelShelf(folder)
    shelf.reload()
    assert shelf.models_of(PLATFORM).general.metadata.name == MANY
    assert shelf.models_of("unknown").general is None  # it decides there anyway
    assert load_models(folder, PLATFORM).general.metadata.name == MANY
    assert load_models(folder, "unknown").general is None


def test_a_model_of_many_machines_decides_where_a_platform_has_none_of_its_own(folder):
    derive(folder, "a2-many", lambda model, metadata: (model, metadata | {"platforms": ["p", "q"]}), platform="any")
    shelf = ModelShelf(folder)
    shelf.reload()
    assert shelf.refused == ()
    for platform in (PLATFORM, "unknown"):
        assert shelf.models_of(platform).a2.metadata.name == "a2-many"
        assert "a2-many" in [model.name for model in shelf.in_use(platform)]
    assert shelf.models_of(PLATFORM).c is not None
    assert shelf.models_of("unknown").c is None


def test_a_new_model_takes_the_place_of_the_old_one(folder):
    messages = []
    shelf = ModelShelf(folder, lambda level, message: messages.append((level, message)))
    shelf.reload()
    before = shelf.models_of(PLATFORM)
    derive(folder, "a2-new")
    assert shelf.changed()
    assert shelf.reload()
    assert in_use(shelf) == "a2-new"
    after = shelf.models_of(PLATFORM)
    assert after.a2.metadata.version == "2"
    assert after.a is before.a  # what did not change is not opened again
    words = f"model a2-new version 2 is in use for platform {PLATFORM}, it replaces {A2} version 1"
    assert ("info", words) in messages


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (spoilt, "finite"),
        (narrow, "features"),
        (unnamed, "from the manifest"),
        (lambda m, d: (m[: len(m) // 2], d), "not a model that onnxruntime can run"),
        (lambda m, d: (m, d | {"features": "none"}), "features"),
    ],
)
def test_a_broken_model_is_refused_and_the_old_one_goes_on(folder, change, words):
    messages = []
    shelf = ModelShelf(folder, lambda level, message: messages.append((level, message)))
    shelf.reload()
    old = shelf.models_of(PLATFORM).a2
    derive(folder, "a2-new", change)
    assert not shelf.reload()
    assert shelf.models_of(PLATFORM).a2 is old
    assert [(refusal.name, words in refusal.reason) for refusal in shelf.refused] == [("a2-new", True)], shelf.refused
    assert messages[-1][0] == "error"
    assert not shelf.changed()  # not asked again until something changes
    write(folder, entries(folder)[1:])  # out of the manifest: out of use
    shelf.reload()
    assert shelf.models_of(PLATFORM).a2.metadata.name == MANY


def test_a_model_that_could_not_be_opened_for_a_moment_is_tried_again(folder, monkeypatch):
    now_s = 0.0
    shelf = ModelShelf(folder, clock=lambda: now_s)
    shelf.reload()
    derive(folder, "a2-new")
    real = model_shelf.open_checked

    def exhausted(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(model_shelf, "open_checked", exhausted)
    assert not shelf.reload()
    assert "Too many open files" in shelf.refused[0].reason
    waits_s = []
    for _ in range(10):
        assert not shelf.changed()
        waits_s.append(shelf._again_s - now_s)
        now_s = shelf._again_s
        assert shelf.changed()
        assert not shelf.reload()
    assert waits_s[:3] == [10, 20, 40]
    assert waits_s[-1] == 600
    monkeypatch.setattr(model_shelf, "open_checked", real)
    now_s = shelf._again_s
    assert shelf.changed()
    assert shelf.reload()
    assert in_use(shelf) == "a2-new"
    now_s = 1e9
    assert not shelf.changed()


def test_a_wrong_checksum_is_refused(folder):
    shelf = ModelShelf(folder)
    shelf.reload()
    derive(folder, "a2-new")
    file = folder / "a2-new" / "card.md"
    file.write_bytes(file.read_bytes() + b"x")
    shelf.reload()
    assert in_use(shelf) == A2
    assert "sha256" in shelf.refused[0].reason
    file.write_bytes(file.read_bytes()[:-1])  # the copy was not complete
    assert shelf.changed()
    assert shelf.reload()
    assert in_use(shelf) == "a2-new"


@pytest.mark.parametrize("file", ["model.onnx", "metadata.json"])
def test_a_file_that_is_swapped_while_it_is_opened_is_never_served(folder, monkeypatch, file):
    """The checksums were right, then somebody copied another model over it."""
    shelf = ModelShelf(folder)
    shelf.reload()
    derive(folder, "a2-new")
    real = model_check.load_predictor

    def swap(home):
        (home / file).write_bytes((folder / A2 / file).read_bytes() + b"\n")
        return real(home)

    monkeypatch.setattr(model_check, "load_predictor", swap)
    assert not shelf.reload()
    assert in_use(shelf) == A2
    assert [refusal.name for refusal in shelf.refused] == ["a2-new"]


@pytest.mark.parametrize("unlisted", ["model.onnx", "metadata.json"])
def test_a_model_without_a_checksum_is_refused(folder, unlisted):
    shelf = ModelShelf(folder)
    shelf.reload()
    derive(folder, "a2-new")
    new, *others = entries(folder)
    write(folder, [new | {"sha256": {k: v for k, v in new["sha256"].items() if k != unlisted}}, *others])
    shelf.reload()
    assert in_use(shelf) == A2
    assert f"no checksum of {unlisted}" in shelf.refused[0].reason


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"models":[{"name":"\xff"}]}', b'{"models":[{"name":"../../etc"}]}', None]
)
def test_without_a_manifest_everything_stays(folder, content):
    shelf = ModelShelf(folder)
    shelf.reload()
    file = folder / "manifest.json"
    file.unlink() if content is None else file.write_bytes(content)
    assert shelf.changed()
    assert not shelf.reload()
    assert in_use(shelf) == A2
    assert [refusal.name for refusal in shelf.refused] == ["manifest.json"]


def until(check, timeout_s: float = 30):
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_folder_that_is_not_there_is_refused_at_the_start(workers, tmp_path):
    program = "from osml.cli.main import main; main()"
    flags = ["--models", str(tmp_path / "none"), "--port", str(free_port()), "--store", "none", "--workers", workers]
    command = [sys.executable, "-c", program, "serve", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert f"--models (or OSML_MODELS) is {tmp_path / 'none'}, which is no folder" in done.stderr


def test_a_running_server_exchanges_models_and_refuses_broken_ones(start_process, folder):
    process = start_process("--models", str(folder), "--models-poll-s", "0.1", "--policy", "osml")
    ready = httpx.get(f"{process.url}/readyz").json()
    assert A2 in [model["name"] for model in ready["models"]]

    def forecaster() -> str:
        content = msgspec.json.encode(EXAMPLE)
        answer = httpx.post(
            f"{process.url}/v1/decisions", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
        forecasts = msgspec.json.decode(answer.content, type=Decision).forecasts
        return forecasts[0].model if forecasts else ""

    derive(folder, "a2-new", lambda m, d: (m, d | {"metrics": {}}))
    until(lambda: "a2-new" in httpx.get(f"{process.url}/readyz").text)
    first = forecaster()
    derive(folder, "a2-bad", spoilt)
    refused = until(lambda: httpx.get(f"{process.url}/readyz").json()["refused_models"])
    assert refused[0]["name"] == "a2-bad"
    assert forecaster() == first == "a2-new"
    metrics = httpx.get(f"{process.url}/metrics").text
    assert "osml_models_refused 1.0" in metrics
    assert "osml_model_exchanges_total 1.0" in metrics
    explained = httpx.get(f"{process.url}/v1/nodes/{EXAMPLE.node}/explain").json()
    assert "a2-new" in [model["name"] for model in explained["models"]]
