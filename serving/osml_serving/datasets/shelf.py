"""Contributed data sets in a folder: `ID.tar` and `ID.json`, the ID being the checksum of the package."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from osml import __version__
from osml.base.failure import InputError
from osml.base.json_file import from_json, read_json
from osml_serving.child_process import ONE_THREAD, environment_without_secrets
from osml_serving.log import Log

IDENTITY = r"^[0-9a-f]{64}$"
CHECK_S = 1200.0
MAX_OUTPUT = 4 * 2**20  # bytes; its findings are less
KEEP_S = 14 * 86_400.0  # the record of a package that was not accepted: so long its contributor can ask why
MAX_KEPT = 1000  # such records
RESERVE = 2**30  # bytes of the disk that contributions leave alone
State = Literal["checking", "accepted", "refused", "failed"]


class DatasetRecord(msgspec.Struct):
    """What is known of a contribution.

    `findings` are the first ones of `osml learn data validate`, and `counts` says how many of each severity there are.
    `received` is since 1970. An accepted one has `content`. `checked_by` is the version of osml.
    """

    id: str
    state: State
    bytes: int
    received: float
    rows: int | None = None
    runs: int | None = None
    findings: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    content: dict[str, Any] | None = None  # name, kind, licence, contributor, platforms, services, outcomes
    checked_by: str | None = None


class DatasetList(msgspec.Struct):
    """Contributions, newest first, without their findings."""

    datasets: list[DatasetRecord]


class DatasetShelf:
    """The folder, and the checks that are under way: one at a time. Raises InputError where it can't be made."""

    def __init__(self, folder: Path, log: Log) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--datasets is {folder}, but the server cannot create this folder: {error.strerror}"
            ) from None
        self.folder = folder
        self._log = log
        self._turn = asyncio.Lock()
        self._taking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Repeat the checks that a stop interrupted; a fault in the folder does not stop the start of the server."""
        try:
            records = await asyncio.to_thread(self._tidy)
        except OSError as error:
            message = f"the server cannot read the data set folder {self.folder}: {error.strerror}"
            self._log.event("error", "dataset", message)
            return
        for record in records:
            if record.state == "checking":
                self._begin(record)

    def _tidy(self) -> list[DatasetRecord]:
        """Remove what a stop left behind; the records, with new ones of packages that have lost theirs."""
        for leftover in self.folder.glob(".incoming-*"):
            leftover.unlink(missing_ok=True)
        for leftover in self.folder.glob(".unpacked-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        self._forget()
        records = self.records()
        known = {record.id: record.state for record in records}
        for package in self.folder.glob("*.tar"):
            if known.get(package.stem) in ("refused", "failed"):
                package.unlink(missing_ok=True)
            elif re.match(IDENTITY, package.stem) and package.stem not in known:
                status = package.stat()
                records.append(DatasetRecord(package.stem, "checking", status.st_size, round(status.st_mtime, 3)))
                self._write(records[-1])
        return records

    def _forget(self) -> None:
        """Remove records of packages that were not accepted: those that are old, and the oldest of too many."""
        kept = [record for record in self.records() if record.state in ("refused", "failed")]
        oldest = time.time() - KEEP_S
        for index, record in enumerate(kept):
            if index >= MAX_KEPT or record.received < oldest:
                (self.folder / f"{record.id}.json").unlink(missing_ok=True)

    async def stop(self) -> None:
        """Cancel the checks; they begin again at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def room_for(self, length: int) -> bool:
        """Whether the disk has room for so many bytes, twice: packed and, for a while, unpacked."""
        return shutil.disk_usage(self.folder).free > 2 * length + RESERVE

    def find(self, identity: str) -> DatasetRecord | None:
        """The record of a contribution, None where there is none."""
        if not re.match(IDENTITY, identity):
            return None
        try:
            return read_json(self.folder / f"{identity}.json", DatasetRecord)
        except InputError:
            return None

    def package(self, identity: str) -> Path | None:
        """The file of an accepted contribution, None where there is none."""
        record = self.find(identity)
        file = self.folder / f"{identity}.tar"
        return file if record is not None and record.state == "accepted" and file.is_file() else None

    def records(self) -> list[DatasetRecord]:
        """All of them, newest first."""
        records = [self.find(file.stem) for file in self.folder.glob("*.json")]
        return sorted((r for r in records if r is not None), key=lambda record: -record.received)

    async def take(self, incoming: Path, identity: str, length: int) -> DatasetRecord:
        """Keep a package that has arrived whole, and begin to check it. A version checks the same package once.

        Raises OSError where it can't be kept; nothing of it is left then.
        """
        async with self._taking:  # else the same package, sent twice at once, would be checked twice
            record, new = await asyncio.to_thread(self._keep, incoming, identity, length)
            if new:
                self._begin(record)
        return record

    def _keep(self, incoming: Path, identity: str, length: int) -> tuple[DatasetRecord, bool]:
        """The record of a package, and whether it is a new one. Reads all records: not for the event loop."""
        known = self.find(identity)
        if known is not None and not _to_repeat(known):
            incoming.unlink()
            return known, False
        self._forget()
        record = DatasetRecord(identity, "checking", length, round(time.time(), 3))
        package = self.folder / f"{identity}.tar"
        incoming.replace(package)
        try:
            self._write(record)
        except OSError:
            package.unlink(missing_ok=True)  # a package without a record stays unchecked
            raise
        return record, True

    def _begin(self, record: DatasetRecord) -> None:
        task = asyncio.create_task(self._check(record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, record: DatasetRecord) -> None:
        package = self.folder / f"{record.id}.tar"
        try:
            async with self._turn:
                result = await self._check_in_scratch(package)
        except OSError as error:  # such as a full disk or too many processes
            result = f"the server cannot check the package: {error.strerror}; send it again later"
        if isinstance(result, str):
            record.state = "failed"
            record.findings, record.counts = [{"severity": "error", "message": result}], {"error": 1}
        else:
            record.state = "accepted" if result.get("accepted") is True else "refused"
            record.rows, record.runs, record.findings = result["rows"], result["runs"], result["findings"]
            record.counts, record.content = result.get("counts", {}), result.get("content")
        record.checked_by = __version__
        outcome = f"data set {record.id[:12]} is {record.state}"
        try:
            async with self._taking:  # else a package that comes again could be the one that is removed
                self._write(record)
                if record.state != "accepted":
                    package.unlink(missing_ok=True)  # not before its record: without one it is checked again
        except OSError as error:
            fault = f"but its record cannot be written ({error.strerror})"
            remedy = "the server repeats the check at the next start"
            self._log.event("error", "dataset", f"{outcome}, {fault}; {remedy}")
            return
        rows = "" if record.rows is None else f"; it has {record.rows} rows"
        self._log.event("info", "dataset", f"{outcome}{rows}")

    async def _check_in_scratch(self, package: Path) -> dict[str, Any] | str:
        """Making and emptying the folder of up to MAX_FILES files is nothing for the event loop."""
        scratch = await asyncio.to_thread(tempfile.mkdtemp, dir=self.folder, prefix=".unpacked-")
        try:
            return await _run_worker(package, Path(scratch))
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    def _write(self, record: DatasetRecord) -> None:
        partial = self.folder / f".{record.id}.new"
        partial.write_bytes(msgspec.json.encode(record))
        partial.replace(self.folder / f"{record.id}.json")


def _to_repeat(record: DatasetRecord) -> bool:
    """Whether a package that comes again is checked again: it never was, or another version refused it."""
    return record.state == "failed" or (record.state == "refused" and record.checked_by != __version__)


async def _run_worker(package: Path, scratch: Path) -> dict[str, Any] | str:
    """The worker's document, or the error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "osml_serving.datasets.worker", str(package), str(scratch)),
        env=environment_without_secrets() | ONE_THREAD,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(CHECK_S):
            out, err = await asyncio.gather(_written(process, process.stdout), _written(process, process.stderr))
            await process.wait()
    except TimeoutError:
        return f"the check took longer than {CHECK_S:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if max(len(out), len(err)) > MAX_OUTPUT:
        return f"the check wrote more than {MAX_OUTPUT // 2**20} MiB"
    if process.returncode != 0:
        last = err.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return f"the check failed: {last[0][:300]}"
    try:
        return from_json(out, dict[str, Any], "the output of the check is invalid")
    except InputError as error:
        return str(error)


async def _written(process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None) -> bytes:
    """What a worker writes to a pipe; it is killed when that is more than MAX_OUTPUT."""
    found = bytearray()
    while stream is not None and (part := await stream.read(2**16)):
        found += part
        if len(found) > MAX_OUTPUT:
            with suppress(ProcessLookupError):
                process.kill()
            break
    return bytes(found)
