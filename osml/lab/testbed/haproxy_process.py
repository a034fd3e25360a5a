"""A HAProxy of the trial's own: one thread, one backend, a runtime socket; on loopback, never the system's."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from osml.base.failure import MachineError
from osml.lab.trials.children import Child, Children, wait_until
from osml.lab.trials.live import enter

BACKEND = "farm"
_CONFIG = """global
  nbthread 1
  maxconn 4000
  stats socket {socket} mode 600 level {level}
  stats timeout 1h
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 60s
  timeout queue 60s
frontend web
  bind 127.0.0.1:{port}
  default_backend {backend}
backend {backend}
  balance roundrobin
{servers}"""


def find_haproxy() -> str:
    """Path of the binary. Raises MachineError where there is none."""
    # It is in /usr/sbin, which is not in everybody's PATH.
    found = shutil.which("haproxy", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if found is None:
        raise MachineError("haproxy not found: install it with `scripts/setup dispatch` (Debian's package haproxy)")
    return found


def write_config(
    directory: Path, port: int, servers: Mapping[str, int], maxconn: int | None, level: str = "admin"
) -> Path:
    """haproxy.cfg for servers (name to port); the runtime socket is `<directory>/haproxy.sock`."""
    limit = "" if maxconn is None else f" maxconn {maxconn}"
    lines = "".join(f"  server {name} 127.0.0.1:{target}{limit}\n" for name, target in servers.items())
    text = _CONFIG.format(socket=directory / "haproxy.sock", port=port, backend=BACKEND, servers=lines, level=level)
    path = directory / "haproxy.cfg"
    path.write_text(text)
    return path


def start_haproxy(children: Children, config: Path, port: int, name: str = "haproxy") -> Child:
    """Start it in the foreground and wait until it accepts and its runtime socket answers."""
    runtime = config.parent / "haproxy.sock"
    child = children.start(name, enter.command([find_haproxy(), "-f", str(config), "-db"], death_signal="SIGTERM"))
    # The port alone proves nothing: another process could listen there.
    wait_until(lambda: answers(runtime) and accepts(port), "haproxy", [child])
    return child


def answers(runtime: Path) -> bool:
    """Whether a process listens on the unix socket."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(runtime))
    except OSError:
        return False
    return True


def accepts(port: int) -> bool:
    """Whether somebody listens on the port of the loopback interface."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
