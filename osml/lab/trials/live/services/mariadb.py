"""MariaDB: look-ups by key, sums over a range, and updates of one row, in a table of 20000 rows."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from osml.base.failure import MachineError
from osml.lab.trials.live.services.service import LOOPBACK, USER, Service
from osml.lab.trials.live.services.talk import talk

ROWS = 20_000
DATA = "whole"  # the folder that is there only when it is finished
CONNECTIONS = 8
HANDSHAKE = b"mysql_native_password"  # stands in the server's first packet
SCHEMA = (
    "CREATE DATABASE IF NOT EXISTS osml;",
    "DROP TABLE IF EXISTS osml.items;",
    "CREATE TABLE osml.items (id INT PRIMARY KEY, price INT NOT NULL, name VARCHAR(40) NOT NULL) ENGINE=InnoDB;",
    f"INSERT INTO osml.items SELECT seq, (seq * 7919) % 1000, CONCAT('item ', seq) FROM mysql.seq_1_to_{ROWS};",  # noqa: S608
)


def _statements() -> tuple[str, ...]:
    """Seven look-ups, two sums over 200 rows and one update in ten; the same every time."""
    draw = random.Random(0)  # noqa: S311 - nothing secret
    found: list[str] = []
    for number in range(500):
        row = draw.randint(1, ROWS - 200)
        if number % 10 < 7:
            found.append(f"SELECT price, name FROM items WHERE id = {row}")  # noqa: S608
        elif number % 10 < 9:
            found.append(f"SELECT SUM(price), MAX(name) FROM items WHERE id BETWEEN {row} AND {row + 199}")  # noqa: S608
        else:
            found.append(f"UPDATE items SET price = price + 1 WHERE id = {row}")  # noqa: S608
    return tuple(found)


def _prepare(folder: Path) -> None:
    """An empty data directory, which takes some seconds to make."""
    data, draft = folder / DATA, folder / "data.new"
    if data.is_dir():
        return
    for old in (draft, folder / "data"):  # of a preparation that was stopped, and of versions that could not tell
        shutil.rmtree(old, ignore_errors=True)
    command = ["mariadb-install-db", "--no-defaults", f"--datadir={draft}", "--skip-test-db", "--user=root"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"mariadb-install-db ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    draft.rename(data)


def _command(directory: Path, port: int) -> list[str]:
    data = directory / "data"
    shutil.copytree(SERVICE.prepared / DATA, data)
    (directory / "schema.sql").write_text("\n".join(SCHEMA) + "\n")
    for path in (data, *data.rglob("*")):
        shutil.chown(path, USER)
    # No rights to check: it listens on loopback, ends with the lab, and holds nothing but made-up rows.
    return [
        "mariadbd", "--no-defaults", f"--datadir={data}", f"--bind-address={LOOPBACK}", f"--port={port}",
        f"--socket={directory}/socket", f"--pid-file={directory}/pid", "--skip-grant-tables",
        f"--init-file={directory}/schema.sql", "--innodb-buffer-pool-size=64M",
        "--loose-innodb-buffer-pool-size-max=64M",  # else newer versions reserve 8 TiB of addresses
        "--innodb-flush-log-at-trx-commit=0",
        "--skip-log-bin", "--performance-schema=OFF",
    ]  # fmt: skip


def _fill(port: int) -> None:
    talk(port, b"", 1, HANDSHAKE)  # it listens after the schema is in


SERVICE = Service(
    "mariadb", "mariadbd", "mariadb-server", "mysql", _command, _fill, threads=CONNECTIONS, connections=CONNECTIONS,
    bound=True, requests=_statements(), prepare=_prepare,
)  # fmt: skip
