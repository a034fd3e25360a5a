"""`/v2`: the Open Inference Protocol."""

import math

import httpx
import numpy as np
import pytest

from osml.predictors import load_predictor, models_folder

pytest.importorskip("onnxruntime")
MODEL = "a2-masked-e5-2697v4"


@pytest.fixture(scope="module")
def url(process) -> str:
    return f"{process.url}/v2"


@pytest.fixture(scope="module")
def predictor():
    return load_predictor(models_folder() / MODEL)


def question(rows, **changes):
    columns = len(rows[0])
    tensor = {"name": "features", "shape": [len(rows), columns], "datatype": "FP32", "data": rows}
    return {"inputs": [tensor | changes]}


@pytest.fixture
def rows(predictor):
    low = np.array([feature.low for feature in predictor.metadata.features])
    high = np.array([feature.high for feature in predictor.metadata.features])
    found = np.random.default_rng(0).uniform(low, high, (3, len(low))).tolist()
    found[1][2] = None  # not measured
    return found


def test_health_and_metadata(url, predictor):
    assert httpx.get(f"{url}/health/live").json() == {"live": True}
    assert httpx.get(f"{url}/health/ready").json() == {"ready": True}
    assert httpx.get(url).json()["name"] == "osml"
    found = httpx.get(f"{url}/models/{MODEL}").json()
    assert found["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, len(predictor.metadata.inputs)]}]
    assert [tensor["name"] for tensor in found["outputs"]] == ["points", "spread"]
    assert httpx.get(f"{url}/models/{MODEL}/versions/1/ready").json() == {"name": MODEL, "ready": True}


@pytest.mark.parametrize("nested", [True, False])
def test_the_answer_is_the_models(url, predictor, rows, nested):
    body = question(rows, **({} if nested else {"data": [value for row in rows for value in row]}))
    answer = httpx.post(f"{url}/models/{MODEL}/infer", json=body | {"id": "x1"}).json()
    assert (answer["model_name"], answer["id"]) == (MODEL, "x1")
    expected = predictor.predict(np.array([[math.nan if v is None else v for v in row] for row in rows], np.float32))
    points, spread = answer["outputs"]
    assert (points["name"], points["shape"]) == ("points", list(expected.points.shape))
    assert np.allclose(points["data"], expected.points.ravel(), rtol=1e-6)
    assert np.allclose(spread["data"], expected.spread.ravel(), rtol=1e-6)


def test_only_the_outputs_that_are_asked_for(url, rows):
    body = question(rows) | {"outputs": [{"name": "spread"}]}
    answer = httpx.post(f"{url}/models/{MODEL}/versions/1/infer", json=body).json()
    assert [output["name"] for output in answer["outputs"]] == ["spread"]


def test_a_short_question_can_not_ask_for_an_answer_without_end(url, rows):
    body = question(rows) | {"outputs": [{"name": "spread"}] * 64}
    answer = httpx.post(f"{url}/models/{MODEL}/infer", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "outputs name a tensor twice, expected unique names"})


def test_model_c_gives_49_values(url):
    names = [m["name"] for m in httpx.get(url.replace("/v2", "/readyz")).json()["models"] if m["kind"] == "c"]
    if not names:
        pytest.skip("no Model-C is shipped")
    columns = httpx.get(f"{url}/models/{names[0]}").json()["inputs"][0]["shape"][1]
    answer = httpx.post(f"{url}/models/{names[0]}/infer", json=question([[None] * columns])).json()
    assert answer["outputs"][0]["shape"] == [1, 49]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "x"}, "expected one input 'features'"),
        ({"datatype": "FP64"}, "expected FP32"),
        ({"shape": [3]}, "has shape [3]"),
        ({"shape": [2, 2]}, "has shape [2, 2]"),
        ({"data": [1.0]}, "has 1 values"),
        ({"data": ["1"] * 3}, 'the value "1"'),
        ({"data": [True]}, "the value true"),
        ({"data": [[[1.0]]]}, "the value [1.0]"),
        ({"data": [1e39]}, "the value 1e39"),
        ({"data": [10**400]}, "(a number with more than 38 digits)"),
        ({"data": "features"}, "expected `array | null`"),
        ({"data": [1.0] * 40_000}, "has more than"),
    ],
)
def test_a_wrong_tensor_is_refused_in_the_protocols_shape(url, rows, change, words):
    answer = httpx.post(f"{url}/models/{MODEL}/infer", json=question(rows, **change))
    assert answer.status_code in (400, 422)
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/models/nobody", 404),
        ("GET", f"/models/{MODEL}/versions/9", 404),
        ("GET", "/nope", 404),
        ("GET", f"/models/{MODEL}/infer", 405),
        ("POST", "/models/nobody/infer", 404),
    ],
)
def test_every_error_has_the_protocols_shape(url, method, path, status):
    answer = httpx.request(method, f"{url}{path}")
    assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_too_long_a_body_has_the_protocols_shape_too(url):
    answer = httpx.post(f"{url}/models/{MODEL}/infer", content=b" " * 300_000)
    assert (answer.status_code, list(answer.json())) == (413, ["error"])
