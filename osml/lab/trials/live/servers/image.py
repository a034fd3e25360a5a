"""The image server: the number of an image in, the digit on it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from osml.base.onnx_runtime import load_onnx_runtime
from osml.lab.trials.live.servers.http import Handler, serve


def make_handler(folder: Path) -> Handler:
    """Load net and images. One thread, so that a request's CPU time is its own."""
    runtime = load_onnx_runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = runtime.InferenceSession(str(folder / "net.onnx"), options, providers=["CPUExecutionProvider"])
    images = np.load(folder / "images.npy", allow_pickle=False)

    def recognise(number: int) -> dict[str, Any] | None:
        if number >= len(images):
            return None
        outputs = session.run(None, {"image": images[number : number + 1]})
        return {"digit": int(outputs[0][0])}

    return recognise


if __name__ == "__main__":
    serve("/digit", make_handler)
