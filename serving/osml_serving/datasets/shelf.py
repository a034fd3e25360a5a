"""Contributed data sets in a folder: `ID.tar` and `ID.json`, the ID being the checksum of the package."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from osml.base.failure import InputError
from osml_serving.log import Log

IDENTITY = r"^[0-9a-f]{64}$"
CHECK_S = 1200.0
RESERVE = 2**30  # bytes of the disk that contributions leave alone
WORKER_VARIABLES = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "LD_LIBRARY_PATH",
        "XDG_CACHE_HOME",
        "CACHE_DIRECTORY",
    }
)
State = Literal["checking", "accepted", "refused", "failed"]


class DatasetRecord(msgspec.Struct):
    """What is known of a contribution. `findings` are those of `osml learn data validate`; `received` is since 1970."""

    id: str
    state: State
    bytes: int
    received: float
    rows: int | None = None
    runs: int | None = None
    findings: list[dict[str, Any]] = []


class DatasetList(msgspec.Struct):
    """Contributions, newest first, without their findings."""

    datasets: list[DatasetRecord]


class DatasetShelf:
    """The folder, and the checks that are under way: one at a time. Raises InputError where it can't be made."""

    def __init__(self, folder: Path, log: Log) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--datasets is {folder}, which can't be made: {error.strerror}") from None
        self.folder = folder
        self._log = log
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Go on with checks that a stop cut off; nothing that is wrong in the folder keeps the server from starting."""
        try:
            records = await asyncio.to_thread(self._tidy)
        except OSError as error:
            self._log.event("error", "dataset", f"{self.folder} can't be looked through: {error.strerror}")
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
        records = self.records()
        known = {record.id for record in records}
        for package in self.folder.glob("*.tar"):
            if re.match(IDENTITY, package.stem) and package.stem not in known:
                found = package.stat()
                records.append(DatasetRecord(package.stem, "checking", found.st_size, round(found.st_mtime, 3)))
                self._write(records[-1])
        return records

    async def stop(self) -> None:
        """Let go of the checks; they begin again at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @staticmethod
    def can_check() -> bool:
        """Whether the package that checks is installed."""
        return find_spec("pyarrow") is not None

    def room_for(self, length: int) -> bool:
        """Whether the disk has room for so many bytes, twice: packed and, for a while, unpacked."""
        return shutil.disk_usage(self.folder).free > 2 * length + RESERVE

    def find(self, identity: str) -> DatasetRecord | None:
        """The record of a contribution, None where there is none."""
        if not re.match(IDENTITY, identity):
            return None
        try:
            return msgspec.json.decode((self.folder / f"{identity}.json").read_bytes(), type=DatasetRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def records(self) -> list[DatasetRecord]:
        """All of them, newest first."""
        found = [self.find(file.stem) for file in self.folder.glob("*.json")]
        return sorted((r for r in found if r is not None), key=lambda record: -record.received)

    def take(self, incoming: Path, identity: str, length: int) -> DatasetRecord:
        """Keep a package that has arrived whole, and begin to check it. The same package is checked once.

        Raises OSError where it can't be kept; nothing of it is left then.
        """
        known = self.find(identity)
        if known is not None and known.state != "failed":
            incoming.unlink()
            return known
        record = DatasetRecord(identity, "checking", length, round(time.time(), 3))
        package = self.folder / f"{identity}.tar"
        incoming.replace(package)
        try:
            self._write(record)
        except OSError:
            package.unlink(missing_ok=True)  # nobody would ever look at it
            raise
        self._begin(record)
        return record

    def _begin(self, record: DatasetRecord) -> None:
        task = asyncio.create_task(self._check(record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, record: DatasetRecord) -> None:
        package = self.folder / f"{record.id}.tar"
        try:
            async with self._turn:
                done = await self._check_in_scratch(package)
        except OSError as error:  # a full disk, no more processes: it may be handed in again
            done = f"the check can't be made: {error.strerror}"
        if isinstance(done, str):
            record.state = "failed"
            record.findings = [{"severity": "error", "message": done}]
        else:
            record.state = "accepted" if done.get("accepted") is True else "refused"
            record.rows, record.runs, record.findings = done["rows"], done["runs"], done["findings"]
        if record.state != "accepted":
            package.unlink(missing_ok=True)
        try:
            self._write(record)
        except OSError as error:
            why = f"is {record.state}, which can't be written ({error.strerror}): the next start checks it again"
            self._log.event("error", "dataset", f"{record.id[:12]} {why}")
            return
        self._log.event("info", "dataset", f"{record.id[:12]} is {record.state}, {record.rows} rows")

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


def worker_environment() -> dict[str, str]:
    """What a process that reads strangers' files needs of ours: no passwords, no addresses."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in WORKER_VARIABLES or name.startswith(("LC_", "NUMBA_"))
    }


async def _run_worker(package: Path, scratch: Path) -> dict[str, Any] | str:
    """The worker's document, or why there is none."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "osml_serving.datasets.worker", str(package), str(scratch)),
        env=worker_environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(CHECK_S):
            out, err = await process.communicate()
    except TimeoutError:
        return f"the check took longer than {CHECK_S:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        last = err.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return f"the check failed: {last[0][:300]}"
    try:
        return msgspec.json.decode(out, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        return f"the check gave no answer ({error})"
