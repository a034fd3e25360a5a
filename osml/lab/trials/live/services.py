"""The real services: how each is started on a port of its own, when it is ready, and what it is filled with."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import Failure

LOOPBACK = "127.0.0.1"
KEYS = 1000  # the generator asks for "key:0" to "key:999"
VALUE = b"v" * 512
SMALL_BYTES = 1024
LARGE_WORDS = 4000  # about 24 kB of text, which takes gzip some tenths of a millisecond
VISITOR_KEYS = 7  # "visitors:0" to "visitors:6"
VISITORS = 4000  # enough for redis to keep the sketch in its dense form of 12 kB
PFADD_BATCH = 500
ANSWER_WITHIN_S = 2.0


@dataclass(frozen=True)
class Kind:
    """A server program: where it comes from, what it speaks, how it is started."""

    name: str
    program: str
    package: str  # Debian's
    protocol: str  # osml-loadgen's
    start: Callable[[Path, int], list[str]]  # (its directory, port) -> command line
    fill: Callable[[int], None]  # puts the data in; raises OSError while the server is not ready


def _redis(directory: Path, port: int) -> list[str]:
    command = ["redis-server", "--bind", LOOPBACK, "--port", str(port), "--dir", str(directory), "--save", ""]
    return [*command, "--appendonly", "no", "--daemonize", "no", "--databases", "1", "--maxmemory", "64mb"]


def _memcached(directory: Path, port: int) -> list[str]:
    del directory  # it keeps nothing on disk
    return ["memcached", "-l", LOOPBACK, "-p", str(port), "-U", "0", "-t", "1", "-m", "64"]


NGINX = """daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  tcp_nodelay on;
  gzip on;
  gzip_comp_level 6;
  gzip_min_length 2048;
  gzip_types text/plain;
  open_file_cache max=16;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{ listen {address}:{port}; root {directory}/pages; default_type text/plain; }}
}}
"""


def _text(words: int) -> str:
    """Words of uneven frequency, so that compressing them is real work; the same every time."""
    draw = random.Random(0)  # noqa: S311 - nothing secret
    letters = "etaoinshrdlucmfw"
    known = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(400)]
    return " ".join(draw.choices(known, weights=[1 / (rank + 1) for rank in range(len(known))], k=words))


def _nginx(directory: Path, port: int) -> list[str]:
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(directory=directory, address=LOOPBACK, port=port))
    pages = directory / "pages"
    pages.mkdir()
    (pages / "small").write_bytes(b"s" * SMALL_BYTES)
    (pages / "large").write_text(_text(LARGE_WORDS))
    for path in (config, pages, pages / "small", pages / "large"):
        path.chmod(0o755)
    return ["nginx", "-e", "stderr", "-p", str(directory), "-c", str(config)]


def _talk(port: int, request: bytes, answers: int, answer: bytes) -> None:
    """Send, then wait until `answer` came `answers` times."""
    with socket.create_connection((LOOPBACK, port), ANSWER_WITHIN_S) as connection:
        connection.sendall(request)
        text = b""
        while text.count(answer) < answers:
            piece = connection.recv(65536)
            if not piece:
                raise ConnectionResetError(f"port {port} closed the connection after {text[:100]!r}")
            text += piece


def _resp(*parts: bytes) -> bytes:
    """A command in redis' protocol."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _fill_redis(port: int) -> None:
    _talk(port, b"".join(_resp(b"SET", b"key:%d" % key, VALUE) for key in range(KEYS)), KEYS, b"+OK\r\n")
    for day in range(VISITOR_KEYS):
        name = b"visitors:%d" % day
        for first in range(0, VISITORS, PFADD_BATCH):
            people = [b"%d" % (day * VISITORS // 2 + person) for person in range(first, first + PFADD_BATCH)]
            _talk(port, _resp(b"PFADD", name, *people), 1, b"\r\n")


def _fill_memcached(port: int) -> None:
    requests = [b"set key:%d 0 0 %d\r\n%s\r\n" % (key, len(VALUE), VALUE) for key in range(KEYS)]
    _talk(port, b"".join(requests), KEYS, b"STORED\r\n")


def _fill_nginx(port: int) -> None:
    _talk(port, b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 1, b"HTTP/1.1 200 OK\r\n")


KINDS = {
    kind.name: kind
    for kind in (
        Kind("redis", "redis-server", "redis-server", "redis", _redis, _fill_redis),
        Kind("nginx", "nginx", "nginx-light", "http", _nginx, _fill_nginx),
        Kind("memcached", "memcached", "memcached", "memcached", _memcached, _fill_memcached),
    )
}


def try_fill(kind: Kind, port: int) -> bool:
    """True where the service answered and has its data now."""
    with contextlib.suppress(OSError):
        kind.fill(port)
        return True
    return False


def stress_command(directory: Path, cpu_workers: int, memory_workers: int) -> list[str]:
    """The best-effort load: computing and memory-streaming workers that never sleep."""
    if cpu_workers + memory_workers < 1:
        raise Failure("the best-effort job has no workers, expected at least one")
    command = ["stress-ng", "--temp-path", str(directory), "--timeout", "0", "--oom-avoid"]
    if cpu_workers:
        command += ["--cpu", str(cpu_workers), "--cpu-method", "matrixprod"]
    if memory_workers:
        command += ["--stream", str(memory_workers)]
    return command
