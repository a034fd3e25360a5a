"""Image recognition: a small net for handwritten digits, trained at set-up, run by onnxruntime."""

from __future__ import annotations

import sys
from pathlib import Path

from osml.lab.trials.live.services.service import Service, python_server
from osml.lab.trials.live.services.talk import ask_http

IMAGES = 360  # the held-out fifth of scikit-learn's digits


def _prepare(folder: Path) -> None:
    """Train the net: some seconds."""
    if (folder / "net.onnx").exists():
        return
    from osml.lab.trials.live.servers.digits import make_net  # noqa: PLC0415 - loads scikit-learn and onnx

    make_net(folder)


def _fill(port: int) -> None:
    ask_http(port, "/digit?n=0", b'"digit":')


SERVICE = Service(
    "image", sys.executable, "python3", "http", python_server("image"), _fill,
    modules=("onnxruntime", "onnx", "sklearn"), prepare=_prepare, user=None,
    requests=tuple(f"/digit?n={number}" for number in range(IMAGES)),
)  # fmt: skip
