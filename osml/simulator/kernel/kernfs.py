"""A tree of files that are made when read and obeyed when written, as the kernel's kernfs.

One write is one command. All operations raise OSError with the kernel's errno.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_WRITE = 4096  # one page: longer commands are E2BIG


def error(code: int, path: str = "") -> OSError:
    """An OSError as a system call would give it."""
    return OSError(code, os.strerror(code), path) if path else OSError(code, os.strerror(code))


@dataclass(frozen=True)
class Caller:
    """Who does it: the owner of what is made, and the `0` of a task list."""

    uid: int = 0
    gid: int = 0
    pid: int = 0


ROOT = Caller()


@dataclass(eq=False)
class Entry:
    """A file or directory. `removed` outlives the name: an open descriptor then gives ENODEV."""

    mode: int
    uid: int = 0
    gid: int = 0
    removed: bool = False


@dataclass(eq=False)
class File(Entry):
    """`show` makes the content at each read, `store` obeys one write; without `store` writing is EINVAL.

    `live` files change by themselves (counters): an export that copies contents must refresh them. `constant` ones
    never change. `strict` files refuse even root when the mode has no write bit (resctrl does, cgroup does not).
    """

    show: Callable[[], str] = str
    store: Callable[[str, Caller], None] | None = None
    live: bool = False
    constant: bool = False
    strict: bool = True

    def read(self) -> bytes:
        """The content now."""
        if self.removed:
            raise error(errno.ENODEV)
        return self.show().encode("utf-8", "surrogateescape")

    def write(self, data: bytes, caller: Caller = ROOT) -> int:
        """Obey one command; returns the number of bytes, which is always all of them."""
        if self.removed:
            raise error(errno.ENODEV)
        if self.store is None:
            raise error(errno.EINVAL)
        if len(data) > MAX_WRITE:
            raise error(errno.E2BIG)
        self.store(data.decode("utf-8", "surrogateescape"), caller)
        return len(data)


@dataclass(eq=False)
class Directory(Entry):
    """`make` obeys mkdir of a name in it, `remove` obeys rmdir of one of its directories; without them EPERM."""

    children: dict[str, Entry] = field(default_factory=dict[str, Entry])
    make: Callable[[str, Caller], None] | None = None
    remove: Callable[[str], None] | None = None

    def add(self, name: str, entry: Entry, owner: Caller = ROOT) -> Entry:
        """Put an entry here; it belongs to the owner."""
        entry.uid, entry.gid = owner.uid, owner.gid
        self.children[name] = entry
        return entry

    def drop(self, name: str) -> None:
        """Take an entry away; whoever still holds it or something below gets ENODEV."""
        _mark_removed(self.children.pop(name))


def _mark_removed(entry: Entry) -> None:
    entry.removed = True
    if isinstance(entry, Directory):
        for child in entry.children.values():
            _mark_removed(child)


def file(
    show: Callable[[], str],
    store: Callable[[str, Caller], None] | None = None,
    *,
    live: bool = False,
    constant: bool = False,
    strict: bool = True,
    mode: int | None = None,
) -> File:
    """A file: 0644 where it can be written, else 0444."""
    permissions = mode if mode is not None else (0o644 if store else 0o444)
    return File(stat.S_IFREG | permissions, show=show, store=store, live=live, constant=constant, strict=strict)


def directory(mode: int = 0o755) -> Directory:
    """An empty directory."""
    return Directory(stat.S_IFDIR | mode)


class Tree:
    """System calls by path ('a/b', '/' or '' is the root) on a root directory."""

    def __init__(self, root: Directory) -> None:
        self.root = root

    def lookup(self, path: str) -> Entry:
        """The entry of a path; ENOENT or ENOTDIR."""
        entry: Entry = self.root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(entry, Directory):
                raise error(errno.ENOTDIR, path)
            if name not in entry.children:
                raise error(errno.ENOENT, path)
            entry = entry.children[name]
        return entry

    def _file(self, path: str) -> File:
        entry = self.lookup(path)
        if not isinstance(entry, File):
            raise error(errno.EISDIR, path)
        return entry

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that holds a path, and the last name of the path."""
        head, _, name = path.rstrip("/").rpartition("/")
        entry = self.lookup(head)
        if not isinstance(entry, Directory):
            raise error(errno.ENOTDIR, path)
        return entry, name

    def read(self, path: str) -> bytes:
        """Open, read everything, close."""
        return self._file(path).read()

    def write(self, path: str, data: bytes, caller: Caller = ROOT) -> int:
        """Open for writing, one write, close."""
        entry = self._file(path)
        if entry.strict and not entry.mode & 0o222:
            raise error(errno.EACCES, path)
        return entry.write(data, caller)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        entry = self.lookup(path)
        if not isinstance(entry, Directory):
            raise error(errno.ENOTDIR, path)
        return sorted(entry.children)

    def mkdir(self, path: str, caller: Caller = ROOT) -> None:
        """System call mkdir."""
        parent, name = self.parent(path)
        if not name or name in parent.children:
            raise error(errno.EEXIST, path)
        if parent.make is None:
            raise error(errno.EPERM, path)
        parent.make(name, caller)

    def rmdir(self, path: str) -> None:
        """System call rmdir; kernel file systems take directories away with all that is in them."""
        parent, name = self.parent(path)
        if not name:
            raise error(errno.EBUSY, path)
        if name not in parent.children:
            raise error(errno.ENOENT, path)
        if not isinstance(parent.children[name], Directory):
            raise error(errno.ENOTDIR, path)
        if parent.remove is None:
            raise error(errno.EPERM, path)
        parent.remove(name)
