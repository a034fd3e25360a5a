"""Packages: complete, the same bytes again, checked on both sides, nothing lost when a server refuses."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from osml.base.failure import Failure, InputError
from osml.datasets.exchange import Source, write_index

contributing = pytest.importorskip("osml.datasets.contribute")
pack, send, unpack_check = contributing.pack, contributing.send, contributing.unpack_check


def test_package_is_complete_and_its_checksums_hold(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path / "out", name="small", contributor="nobody", description="two services")
    names = {file.path for file in unpack_check(package.file)}
    parquet = {p.relative_to(dataset).as_posix() for p in dataset.rglob("*.parquet")}
    assert names == parquet | {"dataset.json", "README.md", "croissant.json"}
    assert package.file.name == f"small-{package.id[:12]}.tar"
    with tarfile.open(package.file) as archive:
        card = archive.extractfile("README.md").read().decode()
        croissant = json.loads(archive.extractfile("croissant.json").read())
        assert all(m.uid == m.mtime == 0 and m.uname == "" for m in archive.getmembers())
    assert "simulated by the virtual node (no real machine)" in card
    assert f"{package.rows:,} rows" in card
    assert "Contributor: nobody" in card
    objects = {f["contentUrl"]: f["sha256"] for f in croissant["distribution"] if f["@type"] == "cr:FileObject"}
    assert set(objects) == parquet
    for name, digest in objects.items():
        assert hashlib.sha256((dataset / name).read_bytes()).hexdigest() == digest
    for key in ("@context", "@type", "conformsTo", "name", "description", "license", "url", "creator", "datePublished"):
        assert croissant[key]


def test_a_package_is_fetched_by_the_id_that_its_name_has(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path / "out", name="small")
    assert package.id == hashlib.sha256(package.file.read_bytes()).hexdigest()
    assert [file.name for file in (tmp_path / "out").iterdir()] == [package.file.name]
    write_index(tmp_path / "out")
    in_name = package.file.stem.removeprefix("small-")
    assert Source(None, str(tmp_path / "out")).fetch(in_name, tmp_path / "fetched").id == package.id
    assert pack(dataset, tmp_path / "out", name="small") == package


def _tar(file: Path, members: list[tuple[str, bytes, dict[str, str]]]) -> Path:
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, keys in members:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(content), keys
            archive.addfile(member, io.BytesIO(content))
    return file


def _backwards(file: Path) -> Path:
    """The second member says that its content ends where the package begins."""
    content = bytearray(_tar(file, [("dataset.json", b"{}", {}), ("README.md", b"x", {})]).read_bytes())
    header = 1024
    content[header + 124 : header + 136] = b"\xff" + (256**11 - 1536).to_bytes(11, "big")
    content[header + 148 : header + 156] = b" " * 8
    content[header + 148 : header + 156] = b"%06o\0 " % sum(content[header : header + 512])
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([("checksums.sha256", b"\xff\xfe", {})], "checksums.sha256 is not UTF-8"),
        ([("a", b"", {"GNU.sparse.size": "abc", "GNU.sparse.offset": "1"})], "the package is not a valid tar file"),
        ([("a", b"", {"GNU.sparse.map": "0,1", "GNU.sparse.size": "9"})], "'a' is not a regular file"),
        ([("a", b"", {"size": "-512"})], "'a' is not a regular file"),
        ([("a", b"", {}), ("a", b"", {})], "'a' is a duplicate"),
        (None, "'README.md' is not a regular file"),
    ],
)
def test_headers_of_a_package_that_are_none_are_a_sentence(
    tmp_path: Path, members: list[tuple[str, bytes, dict[str, str]]] | None, text: str
) -> None:
    file = tmp_path / "package.tar"
    file = _backwards(file) if members is None else _tar(file, members)
    with pytest.raises(InputError, match=text):
        unpack_check(file)


def test_same_data_same_package(dataset: Path, tmp_path: Path) -> None:
    one = pack(dataset, tmp_path / "a", name="small")
    two = pack(dataset, tmp_path / "b", name="small")
    assert one.file.read_bytes() == two.file.read_bytes()
    assert one.id == two.id


def test_data_set_with_errors_is_not_packed(dataset: Path, traces: Path, tmp_path: Path) -> None:
    before = (dataset / "dataset.json").read_bytes()
    traces.write_bytes(traces.read_bytes()[:-100])
    with pytest.raises(
        InputError,
        match=r"has 1 errors; the first: traces/.*not readable as Parquet.*; more: `osml learn data validate`",
    ):
        pack(dataset, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert (dataset / "dataset.json").read_bytes() == before


def test_what_the_contributor_says_is_checked_before_it_is_written(dataset: Path, tmp_path: Path) -> None:
    before = (dataset / "dataset.json").read_bytes()
    with pytest.raises(InputError, match=r"'bob@x\.org' looks like an e-mail address"):
        pack(dataset, tmp_path / "out", contributor="bob@x.org")
    assert (dataset / "dataset.json").read_bytes() == before
    pack(dataset, tmp_path / "out", contributor="bob")


def test_an_address_that_is_none_and_an_answer_of_somebody_else_are_named(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path)
    with pytest.raises(InputError, match=r"--server is 'http://127\.0\.0\.1:abc', expected"):
        send(package, "http://127.0.0.1:abc", None)
    for answer in ({"login": "please"}, b'{"id":"\xff', b'{"id":' + 10_000 * b"["):
        with (
            server(200, answer) as (url, _),
            pytest.raises(Failure, match=r"is not an osml server; the package stays in .*\.tar"),
        ):
            send(package, url, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "Not a name!"}, "name is 'Not a name!', expected 2 to 63"),
        ({"licence": "MIT"}, "--licence is 'MIT', but the files have 'CDLA-Permissive-2.0'"),
    ],
)
def test_wrong_names_and_licences_are_refused(dataset: Path, tmp_path: Path, arguments: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        pack(dataset, tmp_path / "out", **arguments)
    assert said in str(caught.value)


def rebuilt(package: Path, change: Any) -> Path:
    """The package with members changed: `change` takes and returns (name, content)."""
    target = package.with_name("changed.tar")
    with tarfile.open(package) as archive, tarfile.open(target, "w") as out:
        for member in archive.getmembers():
            found = change(member.name, archive.extractfile(member).read())
            if found is not None:
                entry = tarfile.TarInfo(found[0])
                entry.size = len(found[1])
                out.addfile(entry, io.BytesIO(found[1]))
    return target


def test_tampered_packages_are_noticed(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path / "out", name="small").file
    with pytest.raises(InputError, match=r"the sha256 of 'labels/.*' differs from checksums\.sha256"):
        unpack_check(rebuilt(package, lambda n, c: (n, c + b"x" if n.endswith(".parquet") else c)))
    with pytest.raises(InputError, match=r"is in checksums\.sha256, but not in the package"):
        unpack_check(rebuilt(package, lambda n, c: None if n == "dataset.json" else (n, c)))
    with pytest.raises(InputError, match="is not a plain file inside the data set"):
        unpack_check(rebuilt(package, lambda n, c: (f"../{n}", c)))


@contextmanager
def server(status: int, answer: dict[str, Any] | bytes) -> Iterator[tuple[str, list[Any]]]:
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.path, dict(self.headers.items()), body))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        def do_GET(self) -> None:
            seen.append((self.path, dict(self.headers.items()), b""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", seen
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_server_gets_the_package_with_token_and_checksum(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path / "out", name="small")
    with server(201, {"id": "abc"}) as (url, seen):
        assert send(package, url, "secret") == {"id": "abc"}
    path, headers, body = seen[0]
    names = {name.lower(): value for name, value in headers.items()}
    assert path == "/v1/datasets"
    assert body == package.file.read_bytes()
    assert names["authorization"] == "Bearer secret"
    assert names["content-type"] == "application/x-tar"
    assert names["x-content-sha256"] == hashlib.sha256(body).hexdigest()


def test_who_waits_for_a_check_is_told_at_once_that_the_server_refuses_to_say() -> None:
    answer = {"error": {"code": "unauthorized", "message": "the token has expired"}}
    with (
        server(401, answer) as (url, seen),
        pytest.raises(Failure, match=r"does not say what became of the data set \(401: the token has expired\)"),
    ):
        contributing.wait_for_check(url, "abc", "old", 600.0)
    assert [path for path, *_ in seen] == ["/v1/datasets/abc"]
    with server(503, b"") as (url, _), pytest.raises(Failure, match="has not checked data set abc within 0 s"):
        contributing.wait_for_check(url, "abc", None, 0.0)  # the server may come back


@pytest.mark.parametrize("changes", [{"platforms": ("gold-6278c@8x11",)}, {"services": ("moses~1",)}])
def test_parts_and_variants_come_back_out_of_their_package(
    small_sweep: Any, tmp_path: Path, changes: dict[str, tuple[str, ...]]
) -> None:
    from osml_training.collect.collect import collect_labelled

    from osml.datasets.package import unpack

    folder = collect_labelled(tmp_path / "set", small_sweep(**({"services": ("moses",)} | changes)))
    package = pack(folder, tmp_path / "out", name="parts")
    (tmp_path / "back").mkdir()
    unpack(package.file, tmp_path / "back")
    assert {p.relative_to(tmp_path / "back") for p in (tmp_path / "back").rglob("*.parquet")} == {
        p.relative_to(folder) for p in folder.rglob("*.parquet")
    }


def test_what_nobody_could_unpack_is_not_packed(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributing, "MAX_FILES", 5)
    with pytest.raises(InputError, match=r"the data set has \d files, expected at most 2: contribute it in parts"):
        pack(dataset, tmp_path / "out", name="small")
    assert not list(tmp_path.glob("out/*"))
    assert not (dataset / "checksums.sha256").exists()


def test_a_package_that_the_server_refused_before_is_no_success(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path / "out", name="small")
    answer = {"id": package.id, "state": "refused", "findings": [{"severity": "error", "message": "odd rows"}]}
    said = rf"did not accept data set {package.id[:12]} \(refused\): odd rows"
    with server(202, answer) as (url, _), pytest.raises(Failure, match=said) as caught:
        send(package, url, None)
    assert caught.value.exit_code == 1


def test_refusal_says_why_and_keeps_the_package(dataset: Path, tmp_path: Path) -> None:
    package = pack(dataset, tmp_path / "out", name="small")
    answer = {"error": {"code": "too_large", "message": "at most 1 byte"}}
    with (
        server(413, answer) as (url, _),
        pytest.raises(Failure, match=r"413: at most 1 byte.*; the package stays in .*\.tar"),
    ):
        send(package, url, None)
    with pytest.raises(Failure, match=r"cannot reach http://.*; the package stays in .*\.tar"):
        send(package, "http://127.0.0.1:9", None)
    with pytest.raises(InputError, match="expected http://HOST:PORT"):
        send(package, "file:///etc", None)
    assert package.file.exists()
