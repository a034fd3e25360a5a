"""The health check of the server's container, as the container runs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "deploy" / "Containerfile.server"


def test_a_server_is_healthy_on_the_port_of_its_setting_whatever_it_speaks() -> None:
    [line] = [line for line in FILE.read_text().splitlines() if line.startswith("HEALTHCHECK ")]
    _python, *arguments = json.loads(line[line.index("[") :])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environment = {**os.environ, "OSML_PORT": str(listener.getsockname()[1])}

        def healthy() -> bool:
            done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
            return done.returncode == 0

        assert healthy()
        listener.close()
        assert not healthy()
