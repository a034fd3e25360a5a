"""A PostgreSQL of our own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


class Postgres:
    """A PostgreSQL of our own, in a scratch folder, on a socket."""

    def __init__(self, folder: Path, server: str) -> None:
        self.url = f"postgresql://osml@/postgres?host={folder}"
        self._folder = folder
        self._server = server
        self._quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        self._user = {"user": "nobody"} if os.geteuid() == 0 else {}  # it refuses to run as root
        self._process: subprocess.Popen | None = None

    def create(self, initdb: str) -> None:
        self._folder.chmod(0o777)
        data = self._folder / "data"
        subprocess.run([initdb, "-D", data, "-U", "osml", "-A", "trust"], check=True, **self._quiet, **self._user)

    def start(self) -> None:
        options = ["-D", self._folder / "data", "-k", self._folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        self._process = subprocess.Popen([self._server, *options], **self._quiet, **self._user)
        deadline = time.monotonic() + 30
        while not (self._folder / ".s.PGSQL.5432").exists():
            assert self._process.poll() is None and time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)
        time.sleep(0.5)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # at once, whoever is connected
            self._process.wait(20)
            self._process = None


def run_postgres() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    # Debian has both outside of everybody's PATH.
    places = [os.environ.get("PATH", os.defpath), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))]
    initdb, server = (shutil.which(name, path=os.pathsep.join(places)) for name in ("initdb", "postgres"))
    if initdb is None or server is None:
        pytest.skip("no PostgreSQL on this machine")
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        running = Postgres(Path(scratch), server)
        running.create(initdb)
        running.start()
        try:
            yield running
        finally:
            running.stop()
