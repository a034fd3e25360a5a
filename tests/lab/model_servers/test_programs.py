"""What runs inside MLServer and BentoML, with stubs of both: it gives the model's answers."""

import asyncio
import importlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from osml.lab.benchmarks.model_servers.measure import questions
from osml.predictors import load_predictor, models_folder

pytest.importorskip("onnxruntime")
MODEL = models_folder() / "a2-masked-e5-2697v4"
PROGRAMS = "osml.lab.benchmarks.model_servers.programs"


class Codec:
    @staticmethod
    def encode_output(name, payload):
        return name, payload


class StubOfMlModel:
    def __init__(self):
        self.name, self.settings = "a2", None

    def decode(self, given, default_codec):
        assert default_codec is Codec
        return np.array(given.data, np.float64).reshape(given.shape)


async def uri(_):
    return str(MODEL / "model.onnx")


@pytest.fixture
def load(monkeypatch):
    """A program whose server is made of `modules`: {name: what is in it}."""

    def program(name, modules):
        for module, content in modules.items():
            stub = ModuleType(module)
            vars(stub).update(content)
            monkeypatch.setitem(sys.modules, module, stub)
        monkeypatch.delitem(sys.modules, f"{PROGRAMS}.{name}", raising=False)
        return importlib.import_module(f"{PROGRAMS}.{name}")

    yield program
    for name in ("mlserver_onnx", "bentoml_onnx"):
        sys.modules.pop(f"{PROGRAMS}.{name}", None)


@pytest.fixture
def features():
    return questions(load_predictor(MODEL), 3)


@pytest.fixture
def expected(features):
    points, spread, _ = load_predictor(MODEL).predict(features)
    return np.stack([points, spread])


def test_the_runtime_for_mlserver(load, features, expected):
    modules = {
        "mlserver": {"MLModel": StubOfMlModel},
        "mlserver.codecs": {"NumpyCodec": Codec},
        "mlserver.types": {"InferenceRequest": object, "InferenceResponse": SimpleNamespace},
        "mlserver.utils": {"get_model_uri": uri},
    }
    model = load("mlserver_onnx", modules).OnnxModel()
    assert asyncio.run(model.load()) is True
    tensor = SimpleNamespace(data=features.ravel().tolist(), shape=features.shape)
    answer = asyncio.run(model.predict(SimpleNamespace(inputs=[tensor])))
    assert [name for name, _ in answer.outputs] == ["points", "spread"]
    assert np.allclose([array for _, array in answer.outputs], expected, rtol=1e-6)


def test_the_service_for_bentoml(load, features, expected, monkeypatch):
    monkeypatch.setenv("MODEL_FILE", str(MODEL / "model.onnx"))
    modules = {
        "bentoml": {"service": lambda **_: lambda kind: kind, "api": lambda function: function},
        "bentoml.validators": {"DType": str},
    }
    service = load("bentoml_onnx", modules).OnnxModel()
    assert np.allclose(service.infer(features), expected, rtol=1e-6)
