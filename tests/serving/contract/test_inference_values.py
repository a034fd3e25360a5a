"""Tensors in JSON: the quick way to read them takes what the careful way takes, and leaves the rest to it."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from osml_serving import inference_protocol
from osml_serving.errors import ApiError
from osml_serving.inference_protocol import InferInput, InferRequest, features_of

COLUMNS = 3
PLAIN = st.none() | st.floats(width=32, allow_infinity=False) | st.integers(-(2**60), 2**60)
HOSTILE = st.sampled_from([True, "1", [], [1.0], {}, 1e39, -1e300, 10**39, 10**400, float("inf"), float("-inf")])


def request(data, rows):
    return InferRequest([InferInput("features", [rows, COLUMNS], "FP32", data)])


def read(data, rows):
    """The values, or the sentence that refuses them."""
    try:
        return features_of(request(data, rows), COLUMNS)
    except ApiError as error:
        return error.status, str(error)


def carefully(data, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference_protocol, "_plain_numbers", lambda data, size: None)
        return read(data, rows)


def same(one, other):
    if isinstance(one, tuple) or isinstance(other, tuple):
        return one == other
    return one.dtype == other.dtype == np.float32 and np.array_equal(one, other, equal_nan=True)


@given(st.lists(st.lists(PLAIN | HOSTILE, min_size=2, max_size=4) | HOSTILE, min_size=1, max_size=4))
def test_nested_data_is_read_as_value_by_value(data):
    assert same(read(data, len(data)), carefully(data, len(data)))


@given(st.lists(PLAIN | HOSTILE, min_size=1, max_size=10), st.integers(1, 3))
def test_flat_data_is_read_as_value_by_value(data, rows):
    assert same(read(data, rows), carefully(data, rows))


@pytest.mark.parametrize("data", [[[1.0], [1.0] * 5], [[1.0] * 6], [1.0] * 3 + [[1.0] * 3], [[]] * 3 + [[1.0] * 3] * 2])
def test_rows_of_another_length_than_the_shape_are_refused(data):
    assert read([[1.0] * COLUMNS] * 2, 2).shape == (2, COLUMNS)
    assert "nested rows of other lengths" in str(read(data, 2))


@given(st.lists(PLAIN, min_size=6, max_size=6))
def test_plain_numbers_take_the_quick_way(data):
    nested = [data[:COLUMNS], data[COLUMNS:]]
    for given_as in (data, nested):
        quick = inference_protocol._plain_numbers(given_as, len(data))
        assert same(quick.reshape(2, COLUMNS), read(given_as, 2))


def test_what_comes_out_of_json_is_of_these_types():
    decoded = msgspec.json.decode(b'[1, 1.5, null, true, "1", 12345678901234567890]')
    assert {type(value) for value in decoded} == inference_protocol._NUMBERS | {bool, str}
