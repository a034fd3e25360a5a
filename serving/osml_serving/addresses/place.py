"""Which worker this process is, and how it finds the others."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """Worker `number` of `total`, from 0 on. Each has a Unix socket in `folder`, which only its user can enter."""

    number: int
    total: int
    folder: Path

    @property
    def socket(self) -> Path:
        """This worker's socket."""
        return socket_of(self.folder, self.number)

    @property
    def server_id(self) -> str:
        """What all workers share, and no other server has."""
        return hashlib.sha256(f"{os.uname().nodename}:{self.folder}".encode()).hexdigest()[:16]

    @property
    def siblings(self) -> list[str]:
        """Entries of the setting `peers` for all workers."""
        return [f"unix:{socket_of(self.folder, number)}" for number in range(self.total)]


def socket_of(folder: Path, number: int) -> Path:
    """The socket of a worker."""
    return folder / f"{number}.sock"


def number_of(socket: str) -> int:
    """The worker of a socket."""
    return int(Path(socket).stem)
