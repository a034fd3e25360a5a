"""Whether a worker answers: its parent asks each at its socket, and replaces one that hangs."""

from __future__ import annotations

import socket
from pathlib import Path

EVERY_S = 5.0
TIMEOUT_S = 10.0
MOST_FAILURES = 3  # in a row: a busy worker answers late, one that hangs never does
REQUEST = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def answers(path: Path, timeout_s: float) -> bool:
    """Whether the worker of a socket says anything within a time; blocks."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(REQUEST)
            return connection.recv(1) != b""
    except OSError:
        return False
