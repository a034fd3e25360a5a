"""First words to a service on loopback: the data that goes in, and one answer that is checked."""

from __future__ import annotations

import socket

from osml.lab.trials.live.services.service import LOOPBACK

ANSWER_WITHIN_S = 5.0


def talk(port: int, request: bytes, answers: int, answer: bytes) -> None:
    """Send, then wait until `answer` came `answers` times. Raises OSError where it does not."""
    with socket.create_connection((LOOPBACK, port), ANSWER_WITHIN_S) as connection:
        connection.sendall(request)
        text = b""
        while text.count(answer) < answers:
            piece = connection.recv(65536)
            if not piece:
                raise ConnectionResetError(f"port {port} closed the connection after {text[:100]!r}")
            text += piece


def ask_http(port: int, path: str, answer: bytes) -> None:
    """GET `path`; raises OSError where status 200 or `answer` in the body is missing."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection((LOOPBACK, port), ANSWER_WITHIN_S) as connection:
        connection.sendall(request.encode())
        text = b""
        while answer not in text:
            piece = connection.recv(65536)
            if not piece:
                raise ConnectionResetError(f"port {port} answered {text[:200]!r} to {path}")
            text += piece
    if b" 200 " not in text[:16]:
        raise ConnectionResetError(f"port {port} answered {text[:200]!r} to {path}")
