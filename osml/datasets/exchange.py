"""Data sets of others: what a server or a static index has, and one of them fetched, checked and unpacked."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec

from osml.base.failure import Failure, InputError
from osml.base.json_file import NO_JSON
from osml.base.whole_file import whole_file
from osml.datasets.contribute import unpack_check
from osml.datasets.package import Content, content_of, unpack
from osml.datasets.store import sha256
from osml.datasets.validate import validate

INDEX = "index.json"
SCHEMA = "osml/index/v1"
_TIMEOUT_S = 60.0
_MOST_LIST, _MOST_PACKAGE = 64 * 2**20, 20 * 2**30
_HEX = frozenset("0123456789abcdef")


class Offered(msgspec.Struct, frozen=True):
    """A data set that can be fetched. `id` is the sha256 of its package; `file` its name beside a static index."""

    id: str
    bytes: int
    rows: int | None = None
    runs: int | None = None
    content: Content | None = None
    state: str = "accepted"
    file: str | None = None


class Index(msgspec.Struct, frozen=True):
    """`index.json`: packages in the same folder, which any web server can serve as they are."""

    datasets: list[Offered]
    schema: str = SCHEMA


class Source:
    """A server (`http://HOST:PORT`) or an index: the folder with `index.json`, as a path or as a URL."""

    def __init__(self, server: str | None, index: str | None, token: str | None = None) -> None:
        """InputError where not exactly one of them is given, or where it is no address."""
        if (server is None) == (index is None):
            raise InputError("give either --server URL or --index URL-or-FOLDER")
        if server is not None and not server.startswith(("http://", "https://")):
            raise InputError(f"--server is '{server}', expected http://HOST:PORT")
        self._server = None if server is None else server.rstrip("/")
        self._index = (
            None if index is None else index.removesuffix(INDEX).rstrip("/") or ("/" if index.startswith("/") else ".")
        )
        self._token = token

    def datasets(self) -> list[Offered]:
        """What is there, refused ones left out. Failure where it can't be read."""
        at = f"{self._server}/v1/datasets" if self._server else f"{self._index}/{INDEX}"
        with tempfile.TemporaryFile() as file:
            for block in self._blocks(at, _MOST_LIST):
                file.write(block)
            file.seek(0)
            try:
                found = msgspec.json.decode(file.read(), type=Index).datasets
            except NO_JSON as error:
                raise Failure(f"{at} is no list of data sets: {error}") from None
        return [one for one in found if one.state == "accepted" and set(one.id) <= _HEX and len(one.id) == 64]

    def fetch(self, identity: str, folder: Path) -> Offered:
        """Fetch the data set whose id begins so, or that has this name, and unpack it into a new folder.

        Checksum, members and content are checked before the folder is there. InputError for an id or a name that is not
        there or not unique, for a folder that exists, and for a package that does not keep what it promises.
        """
        if folder.exists():
            raise InputError(f"'{folder}' exists, expected the name of a new folder")
        wanted = _one_of(self.datasets(), identity)
        folder.resolve().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.resolve().parent, prefix=".fetching-") as scratch:
            package, inside = Path(scratch) / "package.tar", Path(scratch) / "set"
            self._save(wanted, package)
            inside.mkdir()
            unpack(package, inside)
            unpack_check(package)
            report = validate(inside, made_here=False)
            if not report.accepted:
                raise InputError(f"data set {wanted.id[:12]} has errors: {report.first_error.message}")
            shutil.move(inside, folder)
        return msgspec.structs.replace(wanted, content=content_of(folder), rows=report.rows)

    def _save(self, wanted: Offered, package: Path) -> None:
        at = f"{self._server}/v1/datasets/{wanted.id}/package" if self._server else self._beside_index(wanted)
        digest = hashlib.sha256()
        with package.open("wb") as file:
            for block in self._blocks(at, min(_MOST_PACKAGE, wanted.bytes)):
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != wanted.id:
            raise InputError(f"{at} has sha256 {digest.hexdigest()}, expected {wanted.id}: fetch it again")

    def _beside_index(self, wanted: Offered) -> str:
        name, index = _plain(wanted), str(self._index)
        return f"{index}/{quote(name) if index.startswith(('http://', 'https://')) else name}"

    def _blocks(self, at: str, most: int) -> Generator[bytes]:
        """The bytes of an address or a file, no more than `most`."""
        size = 0
        with self._opened(at) as blocks:
            for block in blocks:
                size += len(block)
                if size > most:
                    raise InputError(f"{at} is longer than {most} bytes, which was promised or is the limit")
                yield block

    @contextmanager
    def _opened(self, at: str) -> Generator[Generator[bytes]]:
        if not at.startswith(("http://", "https://")):
            try:
                with Path(at).open("rb") as file:
                    yield (block for block in iter(lambda: file.read(1 << 20), b""))
            except OSError as error:
                raise InputError(f"{at} can't be read: {error.strerror}") from None
            return
        headers = {"accept-encoding": "identity"}  # blocks are counted and kept as they come
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            with httpx.stream("GET", at, headers=headers, timeout=_TIMEOUT_S) as answer:
                if not answer.is_success:
                    raise Failure(f"{at} answers {answer.status_code} {answer.reason_phrase}")
                yield (block for block in answer.iter_raw(1 << 20))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Failure(f"cannot reach {at} ({error})") from None


def _one_of(offered: list[Offered], identity: str) -> Offered:
    """The data set of this name, or else whose id begins so."""
    named = [one for one in offered if one.content is not None and one.content.name == identity]
    found = named or [one for one in offered if len(identity) >= 4 and one.id.startswith(identity)]
    if len(found) != 1:
        raise InputError(
            f"{len(found)} data sets have the name '{identity}' or an id that begins so, expected 1: see `list`"
        )
    return found[0]


def _plain(wanted: Offered) -> str:
    """The name of the package beside an index; a name that leads elsewhere is refused."""
    name = wanted.file or f"{wanted.id}.tar"
    if "/" in name or name.startswith("."):
        raise InputError(f"the index names the file '{name[:80]}', expected a name beside it")
    return name


def write_index(folder: Path) -> Index:
    """Check every package (`*.tar`) of a folder and write `index.json` beside them.

    InputError names a package with an error: an index promises that its data sets can be used.
    """
    if not folder.is_dir():
        raise InputError(f"'{folder}' is no folder, expected one with packages of `osml learn data contribute --to`")
    offered: list[Offered] = []
    for package in sorted(folder.glob("*.tar")):
        with tempfile.TemporaryDirectory(prefix="osml-index-") as scratch:
            unpack(package, Path(scratch))
            unpack_check(package)
            report = validate(Path(scratch), made_here=False)
            if not report.accepted:
                raise InputError(f"{package}: {report.first_error.message}")
            content = content_of(Path(scratch))
        size = package.stat().st_size
        offered.append(Offered(sha256(package), size, report.rows, report.runs, content, file=package.name))
    if not offered:
        raise InputError(f"'{folder}' has no package, expected *.tar of `osml learn data contribute --to`")
    index = Index(offered)
    with whole_file(folder / INDEX) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n")
    return index
