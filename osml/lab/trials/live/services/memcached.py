"""memcached with one thread: nine get to one set of 512 bytes."""

from __future__ import annotations

from pathlib import Path

from osml.lab.trials.live.services.service import LOOPBACK, Service
from osml.lab.trials.live.services.talk import talk

KEYS = 1000  # the generator asks for "key:0" to "key:999"
VALUE = b"v" * 512


def _command(directory: Path, port: int) -> list[str]:
    del directory  # it keeps nothing on disk
    return ["memcached", "-l", LOOPBACK, "-p", str(port), "-U", "0", "-t", "1", "-m", "64"]


def _fill(port: int) -> None:
    requests = [b"set key:%d 0 0 %d\r\n%s\r\n" % (key, len(VALUE), VALUE) for key in range(KEYS)]
    talk(port, b"".join(requests), KEYS, b"STORED\r\n")


SERVICE = Service("memcached", "memcached", "memcached", "memcached", _command, _fill)
