"""HAProxy's runtime API over its unix socket: one kept connection in prompt mode, answers as text.

A connection is renewed every half second and whenever the socket file is another one: after a reload the old process
goes on answering on old connections until its last request is done, and what is told to it then changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from osml.base.failure import Failure, InputError, MachineError

PROMPT = b"\n> "
ANSWER_WITHIN_S = 2.0
RENEW_S = 0.5


class HaproxyGoneError(Failure):
    """Nobody answers on the socket just now: HAProxy is down or restarting. Try again later."""


class SocketForbiddenError(HaproxyGoneError):
    """This user may not open the socket. HAProxy may just be making it, so it is worth another try."""


class RuntimeSocket:
    """Sends command lines, returns answers. Reconnects by itself; raises HaproxyGoneError while it can't."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connections = 0
        self._socket: socket.socket | None = None
        self._inode = 0
        self._opened = 0.0

    def check(self) -> None:
        """Raise InputError or MachineError, saying what to do, where nothing listens or nothing may be changed."""
        try:
            if not self.path.exists():
                raise InputError(
                    f"--socket {self.path} does not exist, expected HAProxy's runtime socket (`stats socket PATH level "
                    "admin` in its configuration)"
                )
            level = self.ask("show cli level")
        except (PermissionError, SocketForbiddenError):
            raise MachineError(
                f"this user may not open {self.path}: run as its owner, or give a group access (`mode 660 group NAME` "
                "in the line `stats socket`)"
            ) from None
        except HaproxyGoneError as error:
            raise MachineError(f"no HAProxy answers on {self.path}: {error}; start it first") from None
        if level.strip() != "admin":
            raise MachineError(
                f"{self.path} has level '{level.strip()}', expected admin: add `level admin` to the line `stats socket`"
            )

    def ask(self, *commands: str) -> str:
        """The answers to commands sent as one line, together. Raises HaproxyGoneError."""
        try:
            connection = self._connected()
            connection.sendall("; ".join(commands).encode() + b"\n")
            return _answers(connection, len(commands)).decode(errors="replace")
        except OSError as error:
            self.close()
            kind = SocketForbiddenError if isinstance(error, PermissionError) else HaproxyGoneError
            raise kind(f"{self.path}: {error.strerror or error}") from None

    def close(self) -> None:
        """Hang up; the next question connects again."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None

    def _connected(self) -> socket.socket:
        inode, now = os.stat(self.path).st_ino, time.monotonic()  # noqa: PTH116 - a thousand times a second
        if self._socket is not None and inode == self._inode and now - self._opened < RENEW_S:
            return self._socket
        self.close()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_WITHIN_S)
            connection.connect(str(self.path))
            connection.sendall(b"prompt\n")
            _answers(connection, 1)
        except BaseException:
            connection.close()
            raise
        self._socket, self._inode, self._opened = connection, inode, now
        self.connections += 1
        return connection


def _answers(connection: socket.socket, prompts: int) -> bytes:
    """Everything up to so many prompts: HAProxy writes one after each command."""
    text = b""
    while text.count(PROMPT) < prompts:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError("HAProxy closed the connection")
        text += piece
    return text.replace(PROMPT, b"\n")
