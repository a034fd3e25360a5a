"""One of the servers of models, started on a CPU of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path

from osml.base.onnx_runtime import TELEMETRY
from osml.lab.benchmarks.model_servers.servers import Server
from osml.lab.benchmarks.server_process import Running, started
from osml.lab.trials.children import free_port


@contextlib.contextmanager
def running(server: Server, model: Path, cpu: int) -> Generator[Running]:
    """The server with a model on one CPU; all its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix=f"{server.name}-") as name:
        home, port = Path(name), free_port()
        start = server.start(port, model, home)
        own = {TELEMETRY: "1", **start.environment}
        with started(start.command, port, cpu, home, own, start.folder) as process:
            yield process
