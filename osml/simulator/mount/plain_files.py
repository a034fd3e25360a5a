"""The node's files as plain files that are watched: for users without FUSE.

A write can't be refused here. It is obeyed or reverted within milliseconds, and info/last_cmd_status says why. A new
directory is a mkdir, a directory that is gone an rmdir. A file that was unlinked comes back only after a second:
whoever takes a group away has to empty it first.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from osml.simulator.kernel.kernfs import Caller, Directory, Entry, File, Tree

_PATIENCE_S = 1.0
_SETTLED_S = 0.05
_DRAFT = ".draft"
# Whoever made a group waits for these: when they are there, everything is.
_COMES_LAST = frozenset({"schemata", "tasks", "cgroup.procs"})
# What a path gives when somebody took away, made again or replaced what was seen there a moment ago.
_OVERTAKEN = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
# File times move in steps of the kernel's tick (1 to 10 ms): two changes within one carry the same time.
_SAME_TIME_NS = 30_000_000


def command_in(before: bytes, after: bytes) -> bytes:
    """What was written, given a file's content before and after one write at offset 0 (or appended, or truncated).

    A shorter command leaves the old tail behind: the command is the shortest whole line (or text) whose rest is just
    that tail.
    """
    if before and after.startswith(before) and len(after) > len(before):
        return after[len(before) :]
    end = after.find(b"\n") + 1
    while end > 0:
        if after[end:] == before[end:]:
            return after[:end]
        end = after.find(b"\n", end) + 1
    if len(after) == len(before):
        differing = [i for i in range(len(after)) if after[i] != before[i]]
        return after[: differing[-1] + 1] if differing else after
    return after


def _recent(mtime_ns: int) -> bool:
    """True where a further change could have left the time as it is."""
    return time.time_ns() - mtime_ns < _SAME_TIME_NS


@dataclass
class _Watched:
    entry: File
    descriptor: int
    content: bytes
    mtime_ns: int


class PlainExport:
    """Keeps a directory `top` and a tree the same. `poll` must be called every few milliseconds."""

    def __init__(self, tree: Tree, top: Path) -> None:
        self._tree = tree
        self._top = top
        self._caller = Caller(os.geteuid(), os.getegid(), 0)
        self._files: dict[str, _Watched] = {}
        self._live: dict[str, _Watched] = {}  # the part of _files that changes by itself
        self._commanded: dict[str, _Watched] = {}  # the part of _files that takes commands
        self._directories: dict[str, tuple[Directory, int]] = {}
        self._incomplete: dict[str, float] = {}

    def start(self) -> None:
        """Write the whole tree out; what was there from a previous run is replaced."""
        (self._top / _DRAFT).unlink(missing_ok=True)  # of one that was killed: it may be read-only
        for name, entry in self._tree.root.children.items():
            target = self._top / name
            if target.is_symlink() or target.is_file():
                target.unlink()
            elif target.exists():
                shutil.rmtree(target)
            self._export(name, entry, watch=isinstance(entry, Directory) and entry.make is not None)

    def stop(self) -> None:
        """Take all files away."""
        for watched in self._files.values():
            os.close(watched.descriptor)
        for name in self._tree.root.children:
            shutil.rmtree(self._top / name, ignore_errors=True)
        self._files.clear()
        self._live.clear()
        self._commanded.clear()
        self._directories.clear()

    # -- tree to disk --------------------------------------------------------------------------------------------

    def _export(self, path: str, entry: Entry, *, watch: bool = True) -> None:
        """Write an entry out with all below. Directories are watched only in trees where groups come and go."""
        target = self._top / path
        if isinstance(entry, Directory):
            target.mkdir(exist_ok=True)
            for name in sorted(entry.children, key=_COMES_LAST.__contains__):
                self._export(f"{path}/{name}", entry.children[name], watch=watch)
            # A user who is not root must be able to make and remove groups in what only root could write.
            target.chmod(stat.S_IMODE(entry.mode) | 0o200)
            if watch:
                self._directories[path] = (entry, target.stat().st_mtime_ns)
        elif isinstance(entry, File):
            watched = self._appear(target, entry)
            if entry.constant:  # most files are; an open one each would be more than a process may usually have
                os.close(watched.descriptor)
                return
            self._files[path] = watched
            if entry.live:
                self._live[path] = watched
            if entry.store is not None:
                self._commanded[path] = watched

    def _appear(self, target: Path, entry: File) -> _Watched:
        """A new file, there with its content at once: a command to one still empty would be overwritten by it."""
        draft = self._top / _DRAFT
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.fchmod(descriptor, stat.S_IMODE(entry.mode))
            watched = _Watched(entry, descriptor, b"", 0)
            self._write_out(watched, entry.read(), force=True)
            draft.replace(target)
        except OSError:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        return watched

    def _write_out(self, watched: _Watched, content: bytes, *, force: bool = False) -> None:
        if content != watched.content or force:
            os.pwrite(watched.descriptor, content, 0)
            if len(content) != len(watched.content) or force:
                os.ftruncate(watched.descriptor, len(content))
        watched.content = content
        watched.mtime_ns = os.fstat(watched.descriptor).st_mtime_ns

    def _close(self, path: str) -> None:
        """Drop one file from the books; it isn't there where writing it out again was overtaken."""
        watched = self._files.pop(path, None)
        if watched is None:
            return
        os.close(watched.descriptor)
        self._live.pop(path, None)
        self._commanded.pop(path, None)

    def _forget(self, path: str, *, on_disk: bool = True) -> None:
        """Drop a directory and all below it from the books, and from the disk."""
        for name in [name for name in self._files if name.startswith(path + "/")]:
            self._close(name)
        for name in [n for n in self._directories if n == path or n.startswith(path + "/")]:
            del self._directories[name]
            self._incomplete.pop(name, None)
        if on_disk:
            shutil.rmtree(self._top / path, ignore_errors=True)

    def refresh_counters(self) -> None:
        """Write out what changes by itself."""
        self._refresh(self._live)

    def _refresh(self, files: Mapping[str, _Watched]) -> None:
        for watched in files.values():
            content = watched.entry.read()
            # A command that came in meanwhile must not be overwritten: the next poll reads it first.
            if content != watched.content and os.fstat(watched.descriptor).st_mtime_ns == watched.mtime_ns:
                self._write_out(watched, content)

    # -- disk to tree --------------------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Look for commands and obey them; True where there was one."""
        changed = self._poll_directories()
        for watched in list(self._commanded.values()):
            if not watched.entry.removed:
                changed |= self._poll_file(watched)
        if changed:
            self._refresh(self._files)
        return changed

    def _poll_file(self, watched: _Watched) -> bool:
        status = os.fstat(watched.descriptor)
        if status.st_mtime_ns == watched.mtime_ns and not _recent(status.st_mtime_ns):
            return False
        after = os.pread(watched.descriptor, 65536, 0)
        if status.st_mtime_ns == watched.mtime_ns and after == watched.content:
            return False
        if not after and 0 <= time.time_ns() - status.st_mtime_ns < 50_000_000:
            return False  # truncated by an open that has not written yet; a time in the future says nothing
        if after:
            try:
                watched.entry.write(command_in(watched.content, after), self._caller)
            except OSError:
                pass  # reverted below; resctrl says why in last_cmd_status
            if os.pread(watched.descriptor, 65536, 0) != after:  # the next command, for the next poll
                watched.content, watched.mtime_ns = after, -1
                return True
        self._write_out(watched, watched.entry.read(), force=True)
        return True

    def _poll_directories(self) -> bool:
        changed = False
        for path, (entry, known_mtime) in list(self._directories.items()):
            if path not in self._directories:
                continue  # went away with its parent
            try:
                found = os.stat(f"{self._top}/{path}")  # noqa: PTH116 - in the hot loop
            except (FileNotFoundError, NotADirectoryError):
                found = None
            if found is None or not stat.S_ISDIR(found.st_mode):
                changed |= self._gone(path, entry)
                continue
            mtime = found.st_mtime_ns
            if mtime != known_mtime or path in self._incomplete or _recent(mtime):
                self._directories[path] = (entry, mtime)
                try:
                    changed |= self._compare(path, entry)
                except _OVERTAKEN:
                    self._look_again(path)  # it went while we looked: the next poll finds out
                    changed = True
        return changed

    def _look_again(self, path: str) -> None:
        """Have the next poll compare a directory whatever its time says."""
        if path in self._directories:
            self._directories[path] = (self._directories[path][0], -1)

    def _compare(self, path: str, entry: Directory) -> bool:
        """What is new or missing in a directory.

        The time it is known by stays the one from before the look: what changes during the look is seen next time.
        """
        changed = False
        names = {found.name for found in (self._top / path).iterdir()}
        for name in sorted(names - set(entry.children)):
            below = f"{path}/{name}"
            if not (self._top / below).is_dir():
                try:
                    (self._top / below).unlink(missing_ok=True)
                except _OVERTAKEN:
                    self._look_again(path)  # a directory by now
                continue
            changed = True
            try:
                self._tree.mkdir(below, self._caller)
            except OSError:
                shutil.rmtree(self._top / below, ignore_errors=True)
            else:
                self._export_new(below, entry.children[name])
        missing = {name for name in set(entry.children) - names if isinstance(entry.children[name], File)}
        if not missing:
            self._incomplete.pop(path, None)
            return changed
        since = self._incomplete.setdefault(path, time.monotonic())
        if not names and self._made_again(path, entry):
            return True
        if time.monotonic() - since > _PATIENCE_S:
            del self._incomplete[path]
            for name in missing:
                self._close(f"{path}/{name}")
                self._export(f"{path}/{name}", entry.children[name])
        return changed

    def _export_new(self, path: str, entry: Entry) -> None:
        """Fill the directory of a new group; where its maker has taken it away again meanwhile, the group goes too."""
        try:
            self._export(path, entry)
        except _OVERTAKEN:
            self._tree.rmdir(path)
            self._forget(path)

    def _gone(self, path: str, entry: Directory) -> bool:
        """A directory was removed: obey, or put it back where the kernel would have refused.

        Not at once: the parent may be on its way out, and whoever empties it must not find it filled again.
        """
        parent = path.rpartition("/")[0]
        if parent and not (self._top / parent).exists():
            return False  # the parent's turn comes
        try:
            self._tree.rmdir(path)
        except OSError:
            if time.monotonic() - self._incomplete.setdefault(path, time.monotonic()) <= _PATIENCE_S:
                return False
            self._forget(path)
            try:
                if not (self._top / path).is_dir():
                    (self._top / path).unlink(missing_ok=True)
                self._export(path, entry)
            except _OVERTAKEN:
                pass  # the parent has gone too: its turn comes
            return True
        self._forget(path, on_disk=False)  # what stands there by now is a new group
        return True

    def _made_again(self, path: str, entry: Directory) -> bool:
        """A group directory that stays empty was removed and made again between two polls: so it is a new group."""
        if entry.make is None and "tasks" not in entry.children:
            return False
        if time.monotonic() - self._incomplete[path] < _SETTLED_S:
            return False
        try:
            self._tree.rmdir(path)
            self._forget(path, on_disk=False)  # whoever made it waits in it
            self._tree.mkdir(path, self._caller)
        except OSError:
            return False
        self._export_new(path, self._tree.lookup(path))
        return True
