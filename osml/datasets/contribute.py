"""Packs a data set with its card and checksums, and hands it to a folder or to a server."""

from __future__ import annotations

import datetime
import hashlib
import re
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from osml.base.failure import Failure, InputError
from osml.base.json_file import NO_JSON
from osml.base.whole_file import whole_file
from osml.datasets.arrow import pq
from osml.datasets.card import Packed, write_card
from osml.datasets.checks.finding import Report
from osml.datasets.dataset import DatasetDescription, read_description, write_description
from osml.datasets.description import LICENCES
from osml.datasets.package import MAX_FILES, NAME, members_of
from osml.datasets.store import DATASET, LABELS, TRACES, sha256
from osml.datasets.validate import MAX_GIB, validate

_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{1,62}\Z")
_TIMEOUT_S = 600.0
_MOST_SUMS = 16 * 2**20
MEDIA_TYPE = "application/x-tar"
_ADDED = ("README.md", "croissant.json", "checksums.sha256")
_AGAIN = (429, 502, 503, 504)
"""Answers of a server, or of a proxy before it, that pass."""


class Package(NamedTuple):
    """A package: one tar file, whose members are in order of their names and have no owner and no date."""

    file: Path
    id: str  # sha256 of the file, by which servers and indexes know it; the same content has the same id
    rows: int
    report: Report


def refused(report: Report) -> InputError:
    """Why a data set is not handed on."""
    first, errors = report.first_error, report.counts["error"]
    where = "".join(
        f"{text}: " for text in (first.file, first.row_group is not None and f"row group {first.row_group}") if text
    )
    return InputError(
        f"the data set has {errors} errors; the first: {where}{first.message}; more: `osml learn data validate`"
    )


def described_for(
    folder: Path, name: str | None, contributor: str | None, description: str | None, licence: str | None
) -> DatasetDescription:
    """dataset.json with what the contributor says now. Raises InputError for impossible names and licences."""
    about = read_description(folder)
    about = msgspec.structs.replace(
        about,
        name=name or about.name,
        contributor=contributor or about.contributor,
        description=description or about.description,
        created=about.created or datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    if licence is not None and licence != about.licence:
        raise InputError(
            f"--licence is '{licence}', but the files have '{about.licence}'; the collection sets the licence"
        )
    if not _NAME.match(about.name):
        raise InputError(f"name is '{about.name}', expected 2 to 63 of a-z, 0-9, '.', '_' and '-'")
    if about.licence not in LICENCES:
        raise InputError(f"licence is '{about.licence}', expected one of {', '.join(LICENCES)}")
    return about


def _files(folder: Path) -> list[Path]:
    parquet = [file for part in (TRACES, LABELS) for file in sorted((folder / part).rglob("*.parquet"))]
    return [folder / DATASET, *parquet]


def _packed(folder: Path) -> list[Packed]:
    found: list[Packed] = []
    for file in _files(folder):
        rows = int(pq.read_metadata(file).num_rows) if file.suffix == ".parquet" else 0
        found.append(Packed(file.relative_to(folder).as_posix(), sha256(file), file.stat().st_size, rows))
    return found


def _check_unpacks(paths: Sequence[str]) -> None:
    """InputError for files that nobody could unpack again."""
    if len(paths) + len(_ADDED) > MAX_FILES:
        raise InputError(
            f"the data set has {len(paths)} files, expected at most {MAX_FILES - len(_ADDED)}: contribute it in parts"
        )
    for path in paths:
        if not NAME.match(path):
            raise InputError(f"'{path[:200]}' is no name of a file in a package: collect it under another name")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of this machine in the archive."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime, member.mode = 0, 0o644
    return member


def pack(
    dataset: Path,
    out: Path,
    *,
    name: str | None = None,
    contributor: str | None = None,
    description: str | None = None,
    licence: str | None = None,
    max_gib: float = MAX_GIB,
) -> Package:
    """Validate a data set and pack it into `out`/NAME-ID.tar. Raises InputError where it has an error.

    The data set gets its card, its checksums and the completed dataset.json; nothing else in it changes.
    """
    about = described_for(dataset, name, contributor, description, licence)
    report = validate(dataset, max_gib=max_gib, about=about)
    if not report.accepted:
        raise refused(report)
    _check_unpacks([file.relative_to(dataset).as_posix() for file in _files(dataset)])
    write_description(dataset, about)
    files = _packed(dataset)
    write_card(dataset, about, report, files)
    names = [*(file.path for file in files), *_ADDED]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".packing-") as scratch:
        packed = Path(scratch) / f"{about.name}.tar"  # its last name has the checksum of the whole file
        with whole_file(packed) as partial, tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as archive:
            for member in sorted(names):
                archive.add(dataset / member, arcname=member, recursive=False, filter=_plain)
        identity = sha256(packed)
        target = out / f"{about.name}-{identity[:12]}.tar"
        packed.replace(target)
    return Package(target, identity, report.rows, report)


def _sums(content: bytes, package: Path) -> dict[str, str]:
    """Checksums by file; InputError where they are no text."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(
            f"{package}: checksums.sha256 is not UTF-8, expected lines of a checksum and a file name: pack it again"
        ) from None
    return {path: total for total, _, path in (line.partition("  ") for line in lines)}


def unpack_check(package: Path) -> list[Packed]:
    """The files of a package after their checksums were compared. InputError for a package that is not whole.

    Reads in place: nothing is written, whatever the names in the archive are.
    """
    sums: dict[str, str] = {}
    found: list[Packed] = []
    with members_of(package) as members:
        for member, stream in members:
            if member.name.startswith("/") or ".." in member.name.split("/"):
                raise InputError(f"{package}: '{member.name[:200]}' is not a plain file inside the data set")
            if member.name == "checksums.sha256":
                sums = _sums(stream.read(_MOST_SUMS), package)
                continue
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
            found.append(Packed(member.name, digest.hexdigest(), member.size, 0))
    for file in found:
        if file.path not in ("README.md", "croissant.json") and sums.get(file.path) != file.sha256:
            raise InputError(f"{package}: the sha256 of '{file.path}' differs from checksums.sha256")
    missing = set(sums) - {file.path for file in found}
    if missing:
        raise InputError(f"{package}: '{min(missing)}' is in checksums.sha256, but not in the package")
    return found


def send(package: Package, server: str, token: str | None) -> dict[str, Any]:
    """POST the package to `server`/v1/datasets; returns the answer. Failure where it is refused, now or before."""
    if not server.startswith(("http://", "https://")):
        raise InputError(f"--server is '{server}', expected http://HOST:PORT")
    headers = {"content-type": MEDIA_TYPE, "x-content-sha256": package.id}
    headers["content-length"] = str(package.file.stat().st_size)
    if token:
        headers["authorization"] = f"Bearer {token}"
    try:
        with package.file.open("rb") as stream:
            answer = httpx.post(
                f"{server.rstrip('/')}/v1/datasets",
                content=iter(lambda: stream.read(1 << 20), b""),
                headers=headers,
                timeout=_TIMEOUT_S,
            )
    except httpx.InvalidURL as error:
        raise InputError(f"--server is '{server}', expected http://HOST:PORT ({error})") from None
    except httpx.HTTPError as error:
        raise Failure(f"cannot reach {server} ({error}); the package stays in {package.file}") from None
    if answer.is_success:
        taken = _json(answer)
        if "id" not in taken:
            raise Failure(f"{server} is not an osml server; the package stays in {package.file}")
        _check_state(server, str(taken["id"]), taken)
        return taken
    raise Failure(f"{server} refused the data set ({_said(answer)}); the package stays in {package.file}")


def _said(answer: httpx.Response) -> str:
    """The status of an answer, with the server's own words where it has some."""
    said = _json(answer).get("error")
    text = msgspec.convert(said, dict[str, Any]).get("message", "") if isinstance(said, dict) else answer.reason_phrase
    return f"{answer.status_code}: {text}"


def _check_state(server: str, identity: str, record: dict[str, Any]) -> None:
    """Failure with the first finding where the record of a data set says that it was not accepted."""
    if record.get("state") in ("refused", "failed"):
        findings = msgspec.convert(record.get("findings") or [], list[dict[str, Any]])
        why = findings[0].get("message", "") if findings else "it does not say why"
        raise Failure(f"{server} did not accept data set {identity[:12]} ({record['state']}): {why}")


def wait_for_check(server: str, identity: str, token: str | None, within_s: float) -> dict[str, Any]:
    """Ask until the server has checked a data set that it received; returns what `GET /v1/datasets/ID` says.

    Failure where it refuses the data set, with its first finding, and where it has not checked it `within_s` seconds.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    at, deadline = f"{server.rstrip('/')}/v1/datasets/{identity}", time.monotonic() + within_s
    while True:
        try:
            answer = httpx.get(at, headers=headers, timeout=_TIMEOUT_S)
        except httpx.HTTPError as error:
            raise Failure(f"cannot reach {server} ({error}); it has the data set, ask again: GET {at}") from None
        if not answer.is_success and answer.status_code not in _AGAIN:
            raise Failure(f"{server} does not say what became of the data set ({_said(answer)}); ask again: GET {at}")
        record = _json(answer)
        if record.get("state") == "accepted":
            return record
        _check_state(server, identity, record)
        if time.monotonic() > deadline:
            raise Failure(
                f"{server} has not checked data set {identity[:12]} within {within_s:g} s, ask again: GET {at}"
            )
        time.sleep(1.0)


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.content, type=dict[str, Any])
    except NO_JSON:
        return {}
