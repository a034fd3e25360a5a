"""What the lab has to know of a service. One file in this folder describes one service: its `SERVICE`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import InputError

LOOPBACK = "127.0.0.1"
PREPARED = Path("/var/cache/osml-live")
"""What `prepare` makes, a folder a service. Fixed, so that it is made once on a machine."""

USER = "nobody"


def _prepared(name: str) -> Path:
    return PREPARED / name


def python_server(name: str) -> Callable[[Path, int], list[str]]:
    """The command of a server of ours in `servers/`, with what `prepare` made for the service of that name."""
    module = f"osml.lab.trials.live.servers.{name}"
    return lambda _, port: [sys.executable, "-m", module, "--port", str(port), "--folder", str(_prepared(name))]


@dataclass(frozen=True)
class Service:
    """A server program: where it comes from, what it speaks, how it is started, what it is asked.

    `program` is looked for on PATH, `package` is Debian's, `modules` are Python modules that it needs besides.
    `command(directory, port)` writes what the service needs into its own directory and returns the command line.
    `fill(port)` puts the data in and raises OSError while the service is not ready or answers wrongly.
    `threads` is how many requests it works on at once, `connections` how many the generator keeps open.
    `bound` is true where each connection has a thread of its own. `requests` are paths (http) or statements (mysql).
    `prepare(folder)` does what takes long, once on a machine. `user` None means: as whoever runs the lab.
    """

    name: str
    program: str
    package: str
    protocol: str
    command: Callable[[Path, int], list[str]]
    fill: Callable[[int], None]
    threads: int = 1
    connections: int = 16
    bound: bool = False
    requests: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    prepare: Callable[[Path], None] | None = None
    user: str | None = USER

    def __post_init__(self) -> None:
        """Raise InputError, naming the field, for a description that cannot work."""
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", self.name) is None:
            raise InputError(
                f"the name of a service is '{self.name}', expected up to 63 letters, digits, '.', '_' or '-'"
            )
        if not 1 <= self.threads <= 64:
            raise InputError(f"threads of service '{self.name}' is {self.threads}, expected 1 to 64")
        if not 1 <= self.connections <= 1024:
            raise InputError(f"connections of service '{self.name}' is {self.connections}, expected 1 to 1024")
        if self.protocol not in ("redis", "memcached", "http", "mysql"):
            raise InputError(
                f"protocol of service '{self.name}' is '{self.protocol}', expected redis, memcached, http or mysql"
            )

    @property
    def prepared(self) -> Path:
        """Folder of what `prepare` made."""
        return _prepared(self.name)
