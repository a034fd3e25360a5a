"""The node's files through FUSE: every system call gets the errno that a kernel would give."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from osml.simulator.kernel import rename
from osml.simulator.kernel.kernfs import Caller, Directory, Entry, File, error
from osml.simulator.kernel.machine import Machine


class FuseUnavailable(Exception):  # noqa: N818 - a state of the machine that callers handle
    """FUSE can't be used here; the text says why."""


class _Open:
    """One open file: bound to the file itself, not to its path, and to the content at the last read from offset 0."""

    def __init__(self, entry: File) -> None:
        self.entry = entry
        self.content = b""


class Operations:
    """System calls on a machine's tree, in the shape that mfusepy calls. One at a time, as in the kernel."""

    use_ns = True
    flag_nopath = True
    flag_nullpath_ok = True

    def __init__(self, machine: Machine, lock: threading.RLock) -> None:
        self._machine = machine
        self._tree = machine.tree
        self._lock = lock
        self._open: dict[int, _Open] = {}
        self._listed: dict[int, Directory] = {}
        self._next = 1
        self._now = time.time_ns()

    def _caller(self) -> Caller:
        import mfusepy  # noqa: PLC0415 - optional dependency

        return Caller(*mfusepy.fuse_get_context())

    def _attributes(self, entry: Entry) -> dict[str, Any]:
        links = 2 if isinstance(entry, Directory) else 1
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self._now)
        return {
            "st_mode": entry.mode,
            "st_nlink": links,
            "st_uid": entry.uid,
            "st_gid": entry.gid,
            "st_size": 0,
            **times,
        }

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, Any]:
        """System call stat and fstat(2)."""
        with self._lock:
            if path is not None:
                return self._attributes(self._tree.lookup(path))
            opened = self._open.get(fh or 0)
            return self._attributes(opened.entry if opened else self._listed[fh or 0])

    def _handle(self) -> int:
        handle, self._next = self._next, self._next + 1
        return handle

    def opendir(self, path: str) -> int:
        """System call opendir: like a file, an open directory is bound to itself, not to its path."""
        with self._lock:
            entry = self._tree.lookup(path)
            if not isinstance(entry, Directory):
                raise error(errno.ENOTDIR, path)
            handle = self._handle()
            self._listed[handle] = entry
            return handle

    def releasedir(self, path: str | None, fh: int) -> int:
        """System call closedir."""
        del path
        with self._lock:
            self._listed.pop(fh, None)
            return 0

    def readdir(self, path: str | None, fh: int) -> list[str]:
        """System call getdents."""
        del path
        with self._lock:
            return [".", "..", *sorted(self._listed[fh].children)]

    def open(self, path: str, flags: int) -> int:
        """System call open: a file without write permission can't be opened for writing, not even by root."""
        with self._lock:
            entry = self._tree.lookup(path)
            if not isinstance(entry, File):
                raise error(errno.EISDIR, path)
            if flags & os.O_ACCMODE != os.O_RDONLY and entry.strict and not entry.mode & 0o222:
                raise error(errno.EACCES, path)
            handle = self._handle()
            self._open[handle] = _Open(entry)
            return handle

    def release(self, path: str | None, fh: int) -> int:
        """The last close(2)."""
        del path
        with self._lock:
            self._open.pop(fh, None)
            return 0

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        """System call read: the content is made when reading starts at offset 0."""
        del path
        with self._lock:
            opened = self._open[fh]
            if offset == 0 or opened.entry.removed:
                opened.content = opened.entry.read()
            return opened.content[offset : offset + size]

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        """System call write: one command, wherever the offset is."""
        del path, offset
        with self._lock:
            return self._open[fh].entry.write(data, self._caller())

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        """System call truncate and O_TRUNC succeed and change nothing."""
        del path, length, fh
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        """System call mkdir."""
        del mode
        with self._lock:
            self._tree.mkdir(path, self._caller())
            return 0

    def rmdir(self, path: str) -> int:
        """System call rmdir."""
        with self._lock:
            self._tree.rmdir(path)
            return 0

    def rename(self, old: str, new: str) -> int:
        """System call rename: resctrl allows it for monitoring groups, nothing else does."""
        with self._lock:
            if old.startswith("/resctrl/") and new.startswith("/resctrl/"):
                rename.rename(self._machine.resctrl, old.removeprefix("/resctrl"), new.removeprefix("/resctrl"))
                return 0
            raise error(errno.EPERM, old)

    def chmod(self, path: str, mode: int) -> int:
        """System call chmod sticks."""
        with self._lock:
            entry = self._tree.lookup(path)
            entry.mode = stat.S_IFMT(entry.mode) | stat.S_IMODE(mode)
            return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        """System call chown sticks."""
        with self._lock:
            entry = self._tree.lookup(path)
            entry.uid = entry.uid if uid in (-1, 2**32 - 1) else uid
            entry.gid = entry.gid if gid in (-1, 2**32 - 1) else gid
            return 0

    def create(self, path: str, mode: int, fi: int | None = None) -> int:
        """O_CREAT of a name that is not there."""
        del mode, fi
        raise error(errno.EACCES, path)

    def unlink(self, path: str) -> int:
        """System call unlink."""
        raise error(errno.EPERM, path)

    def symlink(self, target: str, source: str) -> int:
        """System call symlink."""
        del source
        raise error(errno.EPERM, target)

    def link(self, target: str, source: str) -> int:
        """System call link."""
        del source
        raise error(errno.EPERM, target)

    def mknod(self, path: str, mode: int, dev: int) -> int:
        """System call mknod: making a file is refused as a permission, making a device as an operation."""
        del dev
        raise error(errno.EACCES if stat.S_ISREG(mode) else errno.EPERM, path)

    def utimens(self, path: str, times: object = None) -> int:
        """System call utimensat changes nothing."""
        del path, times
        return 0


def why_not() -> str | None:
    """One reason why FUSE can't be used by this user on this machine, or None."""
    try:
        importlib.import_module("mfusepy")
    except ImportError:
        return "the Python package mfusepy is not installed (osml[fuse])"
    except OSError:
        return "libfuse is not installed (Debian: fuse3)"
    if not Path("/dev/fuse").exists():
        return "there is no /dev/fuse"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "this user may not open /dev/fuse"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is not installed (Debian: fuse3)"
    return None


def is_mounted(point: Path) -> bool:
    """True where something is mounted on exactly this path, also when its process is dead."""
    octal = os.fsencode(point)
    for special in b"\\ \t\n":  # what the kernel writes as octal; the backslash first
        octal = octal.replace(bytes([special]), b"\\%03o" % special)
    lines = Path("/proc/self/mountinfo").read_bytes().split(b"\n")
    return any(line.split(b" ")[4:5] == [octal] for line in lines)


def unmount(point: Path) -> None:
    """Take the mount away; lazily where it is busy or its process is dead."""
    for options in (("-u",), ("-u", "-z")):
        if not is_mounted(point):
            return
        subprocess.run(["fusermount3", *options, str(point)], capture_output=True, check=False, timeout=10)


class FuseExport:
    """The mount of a machine at `point`, served by a thread of this process."""

    def __init__(self, machine: Machine, point: Path, lock: threading.RLock) -> None:
        self._operations = Operations(machine, lock)
        self._point = point
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="fuse", daemon=True)

    def _serve(self) -> None:
        import mfusepy  # noqa: PLC0415 - optional dependency

        options: dict[str, Any] = {"allow_other": True} if os.geteuid() == 0 else {}
        try:
            mfusepy.FUSE(
                self._operations,
                str(self._point),
                foreground=True,
                nothreads=True,
                direct_io=True,
                hard_remove=True,
                fsname="osml-virtual",
                subtype="osml",
                default_permissions=True,
                attr_timeout=0,
                entry_timeout=0,
                negative_timeout=0,
                **options,
            )
        except BaseException as failure:  # told to whoever waits for the mount
            self._failure = failure

    def start(self, timeout_s: float = 5.0) -> None:
        """Mount and wait until the files are there; FuseUnavailable where that fails."""
        self._point.mkdir(exist_ok=True)
        self._thread.start()
        end = time.monotonic() + timeout_s
        while not is_mounted(self._point) or not (self._point / "resctrl").is_dir():
            if self._failure is not None or not self._thread.is_alive() or time.monotonic() > end:
                raise FuseUnavailable(f"mounting failed ({self._failure or 'no answer'})")
            time.sleep(0.005)

    def stop(self) -> None:
        """Unmount and wait for the thread."""
        unmount(self._point)
        self._thread.join(timeout=5.0)
