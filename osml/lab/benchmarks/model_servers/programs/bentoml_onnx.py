"""The model in BentoML: arrays in and out, both outputs of the model in one."""
# pyright: basic, reportMissingImports=false

import os
from typing import Annotated, Any

import bentoml
import numpy as np
import onnxruntime
from bentoml.validators import DType


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class OnnxModel:
    """`model.onnx` by onnxruntime with one thread."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(os.environ["MODEL_FILE"], options)

    @bentoml.api
    def infer(self, features: Annotated[np.ndarray, DType("float32")]) -> np.ndarray:
        """Points and spread, (2, rows, outputs)."""
        return np.stack(self._session.run(["points", "spread"], {"features": features}))
