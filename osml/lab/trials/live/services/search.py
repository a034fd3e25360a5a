"""A search server on Xapian (`osml-search`), over an index of the texts that Debian ships with Perl and Python."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from osml.base.agent_binary import BUILD
from osml.base.failure import MachineError
from osml.lab.trials.live.services.service import Service
from osml.lab.trials.live.services.talk import ask_http

PROGRAM = BUILD / "search/osml-search"
THREADS = 4
DOCUMENTS = 30_000
ROOTS = ("/usr/share/perl", "/usr/lib/python3.11", "/usr/share/doc")
WORDS = (
    "file", "value", "string", "return", "object", "class", "module", "error", "line", "default", "option", "name",
    "license", "copyright", "server", "socket", "thread", "memory", "index", "encoding", "character", "package",
    "table", "match", "pattern", "test", "process", "signal", "buffer", "version", "import", "format", "number",
    "function", "argument", "hash", "list", "read", "write", "path", "time", "date", "user", "system", "message",
)  # fmt: skip


def _requests() -> tuple[str, ...]:
    """Queries of one to four words, the same every time."""
    draw = random.Random(0)  # noqa: S311 - nothing secret
    return tuple("/search?q=" + "+".join(draw.sample(WORDS, draw.randint(1, 4))) for _ in range(200))


def _prepare(folder: Path) -> None:
    """The index: most of a minute."""
    index = folder / "index"
    if (folder / "done").exists():
        return
    roots = [root for root in ROOTS if Path(root).is_dir()]
    command = [str(PROGRAM), "index", "--index", str(index), "--most", str(DOCUMENTS), *roots]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"osml-search index ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    (folder / "done").write_text(done.stdout)


def _command(directory: Path, port: int) -> list[str]:
    del directory
    index = str(SERVICE.prepared / "index")
    return [str(PROGRAM), "serve", "--index", index, "--port", str(port), "--threads", str(THREADS)]


def _fill(port: int) -> None:
    ask_http(port, "/search?q=file", b'"score":')


SERVICE = Service(
    "search", str(PROGRAM), "libxapian-dev", "http", _command, _fill, threads=THREADS, connections=THREADS,
    bound=True, requests=_requests(), prepare=_prepare, user=None,
)  # fmt: skip
