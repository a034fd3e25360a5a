"""The floor: what FastAPI, pydantic and onnxruntime take for an answer. It checks shapes and types, and nothing else.

`python fastapi_onnx.py PORT model.onnx`
"""
# pyright: basic

import sys
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Tensor(BaseModel):
    """A tensor of the Open Inference Protocol."""

    name: str
    shape: list[int]
    datatype: str
    data: list[float]


class Question(BaseModel):
    """The request."""

    inputs: list[Tensor]


class Answer(BaseModel):
    """The answer."""

    model_name: str
    outputs: list[Tensor]


def application(model: str) -> FastAPI:
    """The server of one model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session: Any = onnxruntime.InferenceSession(model, options)
    app = FastAPI()

    @app.post("/v2/models/model/infer")
    async def infer(question: Question) -> Answer:
        given = question.inputs[0]
        features = np.array(given.data, np.float32).reshape(given.shape)
        answers = zip(("points", "spread"), session.run(["points", "spread"], {"features": features}), strict=True)
        tensors = [Tensor(name=n, shape=list(x.shape), datatype="FP32", data=x.ravel().tolist()) for n, x in answers]
        return Answer(model_name="model", outputs=tensors)

    return app


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[2]), port=int(sys.argv[1]), access_log=False)
