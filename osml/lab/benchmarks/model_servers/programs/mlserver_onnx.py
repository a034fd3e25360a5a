"""The model in MLServer: a runtime of its own, since MLServer has none for ONNX."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver.utils import get_model_uri


class OnnxModel(MLModel):
    """`model.onnx` by onnxruntime with one thread."""

    async def load(self) -> bool:
        """Open the file of the model's settings."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(await get_model_uri(self.settings), options)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Both outputs of the model."""
        features = self.decode(payload.inputs[0], default_codec=NumpyCodec).astype(np.float32)
        answers = self._session.run(["points", "spread"], {"features": features})
        outputs = [NumpyCodec.encode_output(name, x) for name, x in zip(("points", "spread"), answers, strict=True)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
