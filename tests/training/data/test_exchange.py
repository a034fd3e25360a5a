"""A static index of packages: written, listed, fetched over HTTP and from a folder, and not trusted."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osml.base.failure import Failure, InputError
from osml.datasets.contribute import pack
from osml.datasets.exchange import Source, write_index
from osml.datasets.validate import validate

data = pytest.importorskip("osml_training.cli.data.app")


@pytest.fixture
def shelf(dataset: Path, tmp_path: Path) -> Path:
    """A folder with one package and its index."""
    pack(dataset, tmp_path / "shelf", name="a-set")
    write_index(tmp_path / "shelf")
    return tmp_path / "shelf"


@pytest.fixture
def url(shelf: Path) -> Iterator[str]:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(shelf))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_static_files_are_listed_and_fetched(url: str, shelf: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(data.app, ["list", "--index", url, "--json"], catch_exceptions=False)
    found = json.loads(run.stdout)["datasets"][0]
    assert found["content"]["name"] == "a-set"
    assert found["content"]["services"] == ["moses", "xapian"]
    for number, source in enumerate((url, f"{url}/index.json", str(shelf))):
        folder = tmp_path / f"fetched-{number}"
        arguments = ["fetch", found["id"][:12], str(folder), "--index", source]
        run = CliRunner().invoke(data.app, arguments, catch_exceptions=False)
        assert run.exit_code == 0, run.output
        assert "next: train on it, see docs/how-to/train.md" in run.stdout
        assert validate(folder).accepted


def test_packages_with_any_plain_name_and_an_index_in_this_folder(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next(shelf.glob("*.tar")).rename(shelf / "a set+1=2@home.tar")
    write_index(shelf)
    monkeypatch.chdir(shelf)
    source = Source(None, "index.json")
    assert source.fetch(source.datasets()[0].id, tmp_path / "fetched").content is not None


def test_a_server_that_compresses_is_asked_not_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def end_headers(self: SimpleHTTPRequestHandler) -> None:
        asked.append(self.headers.get("accept-encoding"))
        super(SimpleHTTPRequestHandler, self).end_headers()

    monkeypatch.setattr(SimpleHTTPRequestHandler, "end_headers", end_headers)
    assert len(Source(None, url).datasets()) == 1
    assert asked == ["identity"]


def test_the_name_of_this_machine_refuses_no_data_of_others(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "a-set")
    identity = write_index(shelf).datasets[0].id
    assert Source(None, str(shelf)).fetch(identity, tmp_path / "fetched").rows


def test_what_others_wrote_is_no_markup(shelf: Path) -> None:
    index = shelf / "index.json"
    index.write_text(index.read_text().replace('"a-set"', '"[/x]\\u001b[2Ja-set"'))
    run = CliRunner().invoke(data.app, ["list", "--index", str(shelf)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    assert "[/x]?[2Ja-set" in run.stdout


def test_a_package_that_was_changed_is_not_unpacked(shelf: Path, tmp_path: Path) -> None:
    package = next(shelf.glob("*.tar"))
    content = bytearray(package.read_bytes())
    content[len(content) // 2] ^= 1
    package.write_bytes(content)
    identity = Source(None, str(shelf)).datasets()[0].id
    with pytest.raises(InputError, match="has sha256"):
        Source(None, str(shelf)).fetch(identity, tmp_path / "fetched")
    package.write_bytes(bytes(content) + b"more")
    with pytest.raises(InputError, match="is longer than"):
        Source(None, str(shelf)).fetch(identity, tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()
    assert not list(tmp_path.glob(".fetching-*"))


def test_an_index_cannot_lead_elsewhere(shelf: Path, tmp_path: Path) -> None:
    index = json.loads((shelf / "index.json").read_text())
    index["datasets"][0]["file"] = "../secret.tar"
    (shelf / "index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="expected a name beside it"):
        Source(None, str(shelf)).fetch(index["datasets"][0]["id"], tmp_path / "fetched")
    for content in (b"<html>", b'{"schema": "\xff"}', b'{"x": ' + 10_000 * b"["):
        (shelf / "index.json").write_bytes(content)
        with pytest.raises(Failure, match="is no list of data sets"):
            Source(None, str(shelf)).datasets()


def test_one_place_has_to_be_named() -> None:
    for server, index in ((None, None), ("http://h", "x")):
        with pytest.raises(InputError, match="give either --server URL or --index"):
            Source(server, index)
    with pytest.raises(InputError, match="--server is 'host'"):
        Source("host", None)


def test_a_folder_without_packages_has_no_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no package"):
        write_index(tmp_path)
