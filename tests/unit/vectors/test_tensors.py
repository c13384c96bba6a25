"""Files of safetensors hold every dtype bit for bit."""

import json

import ml_dtypes
import numpy as np
import pytest

from attnspec.errors import UsageError
from attnspec.vectors.tensors import DTYPES, decoded, encoded, narrowed

BITS = np.arange(256, dtype=np.uint8)
TENSORS = {
    "bytes": BITS.reshape(16, 16),
    "half": BITS.repeat(2).view(np.float16),
    "bfloat16": BITS.repeat(2).view(ml_dtypes.bfloat16),
    "float8_e4m3fn": BITS.view(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": BITS.view(ml_dtypes.float8_e5m2),
    "signed": BITS.view(np.int8),
    "float32": np.array([1.5, -0.0, np.inf, np.nan], np.float32),
    "float64": np.array(2.0),
    "whole": np.array([[-3], [2**40]]),
    "truths": np.array([True, False]),
    "none": np.zeros((0, 3), np.float32),
}


def bits(x):
    return x.dtype, x.shape, x.tobytes()


def test_what_is_written_is_read_bit_for_bit():
    found = decoded(encoded(TENSORS))
    assert {name: bits(x) for name, x in TENSORS.items()} == {name: bits(x) for name, x in found.items()}


def test_the_package_of_the_format_reads_the_same():
    safetensors = pytest.importorskip("safetensors")
    read = safetensors.deserialize(encoded(TENSORS))
    assert {name: (DTYPES[str(x.dtype)], [*x.shape], x.tobytes()) for name, x in TENSORS.items()} == {
        name: (said["dtype"], said["shape"], bytes(said["data"])) for name, said in read
    }


def test_every_array_is_aligned():
    data = encoded(TENSORS)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert 0 == length % 8
    assert [] == [name for name, x in header.items() if x["data_offsets"][0] % TENSORS[name].dtype.itemsize]


def test_a_transposed_array_is_written_in_its_own_order():
    x = np.arange(6.0).reshape(2, 3).T
    assert bits(np.ascontiguousarray(x)) == bits(decoded(encoded({"x": x}))["x"])


def test_a_dtype_that_the_format_has_not_is_told():
    with pytest.raises(UsageError, match="a vector has no complex128"):
        encoded({"x": np.zeros(1, complex)})


def test_bounds_take_half_the_room_and_are_rounded_up():
    bound = np.array([0.0, 0.1, 1e-30, 1e30, np.inf, np.nan])
    found = narrowed(bound)
    assert "float32" == str(found.dtype)
    assert (found[:4] >= bound[:4]).all()
    np.testing.assert_allclose(bound, found, rtol=1e-6)
    assert (0.0, np.inf) == (found[0], found[4])


@pytest.mark.parametrize("x", [1e-40, 1e300])
def test_bounds_that_float32_has_not_stay_as_they_are(x):
    assert "float64" == str(narrowed(np.array([1.0, x])).dtype)
