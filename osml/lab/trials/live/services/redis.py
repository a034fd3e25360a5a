"""redis: a key-value store of one thread. GET, SET of 512 bytes, and PFCOUNT over seven sketches, real work."""

from __future__ import annotations

from pathlib import Path

from osml.lab.trials.live.services.service import LOOPBACK, Service
from osml.lab.trials.live.services.talk import talk

KEYS = 1000  # the generator asks for "key:0" to "key:999"
VALUE = b"v" * 512
VISITOR_KEYS = 7  # "visitors:0" to "visitors:6"
VISITORS = 4000  # enough for redis to keep the sketch in its dense form of 12 kB
PFADD_BATCH = 500


def _command(directory: Path, port: int) -> list[str]:
    command = ["redis-server", "--bind", LOOPBACK, "--port", str(port), "--dir", str(directory), "--save", ""]
    return [*command, "--appendonly", "no", "--daemonize", "no", "--databases", "1", "--maxmemory", "64mb"]


def _resp(*parts: bytes) -> bytes:
    """A command in redis' protocol."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _fill(port: int) -> None:
    talk(port, b"".join(_resp(b"SET", b"key:%d" % key, VALUE) for key in range(KEYS)), KEYS, b"+OK\r\n")
    for day in range(VISITOR_KEYS):
        name = b"visitors:%d" % day
        for first in range(0, VISITORS, PFADD_BATCH):
            people = [b"%d" % (day * VISITORS // 2 + person) for person in range(first, first + PFADD_BATCH)]
            talk(port, _resp(b"PFADD", name, *people), 1, b"\r\n")


SERVICE = Service("redis", "redis-server", "redis-server", "redis", _command, _fill)
