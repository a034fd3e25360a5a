"""nginx in one process: a small file, or a text that it compresses for each request."""

from __future__ import annotations

import random
from pathlib import Path

from osml.lab.trials.live.services.service import LOOPBACK, Service
from osml.lab.trials.live.services.talk import ask_http

SMALL_BYTES = 1024
LARGE_WORDS = 4000  # about 24 kB of text, which takes gzip some tenths of a millisecond

# One process: a worker would outlive a master that is killed.
NGINX = """daemon off;
master_process off;
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


def _command(directory: Path, port: int) -> list[str]:
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(directory=directory, address=LOOPBACK, port=port))
    pages = directory / "pages"
    pages.mkdir()
    (pages / "small").write_bytes(b"s" * SMALL_BYTES)
    (pages / "large").write_text(_text(LARGE_WORDS))
    for path in (config, pages, pages / "small", pages / "large"):
        path.chmod(0o755)
    return ["nginx", "-e", "stderr", "-p", str(directory), "-c", str(config)]


def _fill(port: int) -> None:
    ask_http(port, "/small", b"s" * SMALL_BYTES)


SERVICE = Service("nginx", "nginx", "nginx-light", "http", _command, _fill)
