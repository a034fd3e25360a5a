"""The servers: how each is started, asked and read. Access logs are off; metrics are on where a server has them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from osml.lab.benchmarks.model_servers.environments import PROGRAMS, environment, version
from osml.lab.trials.children import OSML, free_port
from osml.predictors.metadata import ONNX

Floats = NDArray[np.float32]
OUTPUTS = ("points", "spread")


def protocol_body(features: Floats) -> bytes:
    """A request of the Open Inference Protocol, flat, as its clients write it."""
    data = features.ravel().tolist()
    tensor = {"name": "features", "shape": list(features.shape), "datatype": "FP32", "data": data}
    return msgspec.json.encode({"inputs": [tensor]})


def protocol_answer(content: bytes) -> Floats:
    """The answer in the Open Inference Protocol."""
    outputs = {one["name"]: one for one in msgspec.json.decode(content)["outputs"]}
    return np.array([np.reshape(outputs[name]["data"], outputs[name]["shape"]) for name in OUTPUTS], np.float32)


class Start(NamedTuple):
    """How a process is started: its command, what its environment has beside ours, and its folder."""

    command: list[str]
    environment: Mapping[str, str] = {}
    folder: Path | None = None


@dataclass(frozen=True)
class Server:
    """One way to serve the model of a folder."""

    name: str
    start: Callable[[int, Path, Path], Start]
    """Of a port, the folder of the model, and an empty folder of its own. NoEnvironmentError where it can't be had."""
    path: Callable[[str], str] = field(default=lambda model: f"/v2/models/{model}/infer")
    body: Callable[[Floats], bytes] = field(default=protocol_body)
    answer: Callable[[bytes], Floats] = field(default=protocol_answer)
    """Points and spread out of the content of an answer, (2, rows, outputs)."""


def _osml(port: int, model: Path, home: Path) -> Start:
    flags = ["--models", str(model.parent), "--store", "none", "--log-format", "json"]
    return Start([*OSML, "run", "serve", "--port", str(port), *flags])


def _fastapi(port: int, model: Path, home: Path) -> Start:
    return Start([sys.executable, str(PROGRAMS / "fastapi_onnx.py"), str(port), str(model / ONNX)])


def _mlserver(workers: int) -> Callable[[int, Path, Path], Start]:
    def start(port: int, model: Path, home: Path) -> Start:
        settings: dict[str, Any] = {"host": "127.0.0.1", "http_port": port, "parallel_workers": workers, "debug": False}
        settings |= {"grpc_port": free_port(), "metrics_port": free_port()}
        of_model = {
            "name": model.name,
            "implementation": "mlserver_onnx.OnnxModel",
            "parameters": {"uri": str(model / ONNX)},
        }
        (home / "settings.json").write_text(json.dumps(settings), "utf-8")
        (home / "model-settings.json").write_text(json.dumps(of_model), "utf-8")
        command = [str(environment("mlserver") / "mlserver"), "start", str(home)]
        return Start(command, {"PYTHONPATH": str(PROGRAMS)}, home)

    return start


def _bentoml(port: int, model: Path, home: Path) -> Start:
    bin_folder = environment("bentoml")
    command = [str(bin_folder / "bentoml"), "serve", "bentoml_onnx:OnnxModel", "--host", "127.0.0.1"]
    own = {"MODEL_FILE": str(model / ONNX), "BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True"}
    own["PATH"] = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return Start([*command, "--port", str(port), "--working-dir", str(PROGRAMS)], own, home)


def _array_answer(content: bytes) -> Floats:
    return np.array(msgspec.json.decode(content), np.float32)


SERVERS = (
    Server("osml", _osml),
    Server("fastapi", _fastapi, path=lambda _: "/v2/models/model/infer"),
    Server("mlserver", _mlserver(0)),
    Server("mlserver_with_a_worker", _mlserver(1)),
    Server(
        "bentoml",
        _bentoml,
        path=lambda _: "/infer",
        body=lambda features: msgspec.json.encode({"features": features.tolist()}),
        answer=_array_answer,
    ),
)
"""MLServer twice: without worker processes, where it takes least, and with one, which is its default."""


def versions() -> dict[str, str]:
    """Of the servers that are not ours."""
    from importlib.metadata import version as installed  # noqa: PLC0415 - beside our own function of that name

    ours = {name: installed(name) for name in ("fastapi", "pydantic", "uvicorn", "onnxruntime")}
    return ours | {name: version(name) for name in ("mlserver", "bentoml")}
