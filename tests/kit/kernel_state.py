"""What the kernel files of a node say, once they have come to rest."""

from __future__ import annotations

import errno
import time
from pathlib import Path

GROUP_WENT = (errno.ENOENT, errno.ENODEV, errno.ESTALE)
"""What a look answers when a group goes meanwhile: its path, a file of it that is open, its directory on FUSE."""


def kernel_state(directory: Path) -> dict[str, str]:
    """What the node's kernel files say of CPUs, masks and who is in which group."""
    files = [*directory.glob("resctrl/**/schemata"), *directory.glob("resctrl/**/tasks")]
    files += [*directory.glob("cgroup/**/cpuset.cpus"), *directory.glob("cgroup/**/cpu.max")]
    return {str(path.relative_to(directory)): " ".join(path.read_text().split()) for path in files}


def steady_state(directory: Path) -> dict[str, str]:
    """The kernel files once the node has digested the last writes (plain files are watched, not called)."""
    before = None
    for _ in range(100):
        try:
            now = kernel_state(directory)
        except OSError as error:
            if error.errno not in GROUP_WENT:
                raise
            now = None
        if now is not None and now == before:
            return now
        before = now
        time.sleep(0.1)
    raise AssertionError("the kernel files do not come to rest")
