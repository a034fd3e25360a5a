"""The binary tensor extension of the Open Inference Protocol: an unmodified tritonclient works with its defaults."""

import json
import math

import httpx
import numpy as np
import pytest

from osml.predictors import load_predictor, models_folder

pytest.importorskip("onnxruntime")
MODEL = "a2-masked-e5-2697v4"
LENGTH = "inference-header-content-length"


@pytest.fixture(scope="module")
def predictor():
    return load_predictor(models_folder() / MODEL)


@pytest.fixture(scope="module")
def features(predictor):
    low = np.array([feature.low for feature in predictor.metadata.features])
    high = np.array([feature.high for feature in predictor.metadata.features])
    found = np.random.default_rng(0).uniform(low, high, (3, len(low))).astype(np.float32)
    found[1, 2] = math.nan  # not measured
    return found


def post(process, features, head_changes=None, tensor_changes=None, raw=None, **headers):
    raw = features.astype("<f4").tobytes() if raw is None else raw
    tensor = {"name": "features", "shape": list(features.shape), "datatype": "FP32"}
    tensor |= {"parameters": {"binary_data_size": len(raw)}} | (tensor_changes or {})
    head = json.dumps({"inputs": [tensor], **(head_changes or {})}).encode()
    given = {LENGTH: str(len(head)), "content-type": "application/octet-stream"} | headers
    return httpx.post(f"{process.url}/v2/models/{MODEL}/infer", content=head + raw, headers=given)


def tensors(answer):
    """The tensors of an answer, by name: binary where the header says so."""
    assert answer.status_code == 200, answer.text
    length = int(answer.headers.get(LENGTH, len(answer.content)))
    rest = answer.content[length:]
    found = {}
    for output in json.loads(answer.content[:length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        assert (size is None) != ("data" not in output)
        values = output["data"] if size is None else np.frombuffer(rest[:size], "<f4")
        rest = rest[size or 0 :]
        found[output["name"]] = np.array(values, np.float32).reshape(output["shape"])
    assert rest == b""
    return found


@pytest.mark.parametrize("defaults", [{}, {"parameters": {"binary_data_output": True}}])
def test_binary_in_and_binary_or_json_out(process, predictor, features, defaults):
    answer = post(process, features, defaults)
    found, expected = tensors(answer), predictor.predict(features)
    assert (LENGTH in answer.headers) == bool(defaults)
    assert np.allclose(found["points"], expected.points, rtol=1e-6)
    assert np.allclose(found["spread"], expected.spread, rtol=1e-6)


def test_each_output_says_how_it_wants_to_be_sent(process, predictor, features):
    wanted = [{"name": "spread", "parameters": {"binary_data": True}}, {"name": "points"}]
    answer = post(process, features, {"outputs": wanted})
    head = json.loads(answer.content[: int(answer.headers[LENGTH])])
    assert [("data" in output) for output in head["outputs"]] == [False, True]
    found, expected = tensors(answer), predictor.predict(features)
    assert np.allclose(found["spread"], expected.spread, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"raw": b"\0" * 7}, "binary_data_size of input features is 7"),
        ({"tensor_changes": {"parameters": {"binary_data_size": -1}}}, "binary_data_size of input features is -1"),
        ({"tensor_changes": {"parameters": {"binary_data_size": "x"}}}, "binary_data_size of input features is x"),
        ({"tensor_changes": {"parameters": {}}}, "has no data"),
        ({LENGTH: "999999"}, "expected the length of the JSON"),
        ({LENGTH: "-1"}, "expected the length of the JSON"),
        ({LENGTH: "9" * 5000}, "expected the length of the JSON"),
        ({LENGTH: "0" * 5000}, "expected the length of the JSON"),
        ({LENGTH: "5"}, "JSON"),
        ({"content-encoding": "gzip"}, "the body is compressed"),
    ],
)
def test_what_does_not_fit_is_one_sentence(process, features, changes, words):
    answer = post(process, features, **changes)
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]


def test_infinity_is_no_measurement(process, features):
    wrong = features.copy()
    wrong[0, 0] = math.inf
    answer = post(process, wrong)
    assert (answer.status_code, "infinite value" in answer.json()["error"]) == (400, True)


def test_an_unmodified_tritonclient_works_in_its_defaults_and_with_json(process, predictor, features):
    client_of = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    client = client_of.InferenceServerClient(process.url.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(MODEL)
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    described = client.get_model_metadata(MODEL)
    expected = predictor.predict(features)
    for binary in (True, False):
        tensor = client_of.InferInput("features", list(features.shape), described["inputs"][0]["datatype"])
        tensor.set_data_from_numpy(features, **({} if binary else {"binary_data": False}))
        wanted = [client_of.InferRequestedOutput("spread", binary_data=binary)]
        for outputs in (None, wanted):
            answer = client.infer(MODEL, [tensor], outputs=outputs)
            assert np.allclose(answer.as_numpy("spread"), expected.spread, rtol=1e-6)
    with pytest.raises(Exception, match="model 'no-such-model' is unknown"):
        client.infer("no-such-model", [tensor])
    client.close()
