"""Arrays in files: what is written is read as it was, whatever its strides, and what a program wrote is taken back."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnspec.execution.exchange import Exchange, MisfitError, folder
from attnspec.frameworks.numpy import NumpyFramework

LAYOUTS = ("contiguous", "strided", "transposed", "offset", "expanded")


@pytest.fixture
def exchange(tmp_path):
    return lambda strides: Exchange(str(tmp_path / "arrays"), strides=strides)


def seen(exchange, said):
    """An input as a program sees it."""
    dtype = np.dtype(said["dtype"])
    strides = [n * dtype.itemsize for n in said["strides"]]
    return np.ndarray(said["shape"], dtype, exchange.given.read_bytes(), said["offset"], strides)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strides", [True, False])
def test_an_input_is_seen_as_it_is(exchange, layout, strides):
    source = np.repeat(np.arange(12.0).reshape(1, 3, 4), 2, 0)
    x = NumpyFramework().make(source, "float32", "cpu", layout, 0)
    one = exchange(strides)
    said = one.write({"first": np.ones(3, np.int64), "x": x, "none": np.ones((0, 2))})
    assert source.tolist() == seen(one, said["x"]).tolist()
    assert strides or [12, 4, 1] == said["x"]["strides"]
    assert strides or 0 == said["x"]["offset"] % 64
    assert [0, 2] == said["none"]["shape"]


def test_strides_are_those_of_the_array_where_they_are_read(exchange):
    x = np.zeros((2, 6), np.float32)[:, ::2]
    assert [6, 2] == exchange(True).write({"x": x})["x"]["strides"]


def test_nothing_but_nan_is_between_inputs(exchange):
    one = exchange(False)
    said = one.write({"x": np.zeros(3, np.float32), "y": np.zeros(3, np.float32)})
    assert np.isnan(np.frombuffer(one.given.read_bytes()[12 : said["y"]["offset"]], np.float32)).all()


@pytest.mark.parametrize("layout", LAYOUTS[:4])
@pytest.mark.parametrize("strides", [True, False])
def test_what_is_written_to_an_input_is_taken_back(exchange, layout, strides):
    x = NumpyFramework().make(np.arange(6.0).reshape(1, 2, 3), "float32", "cpu", layout, 0)
    one = exchange(strides)
    said = one.write({"x": x})["x"]
    with one.given.open("r+b") as file:
        file.seek(said["offset"])
        file.write(np.float32(7).tobytes())
    one.take_back()
    assert [[[7, 1, 2], [3, 4, 5]]] == x.tolist()


def test_outputs_are_read_and_outlast_the_next_question(exchange):
    one = exchange(False)
    one.write({})
    one.results.write_bytes(bytes(8) + np.arange(4, dtype=np.float32).tobytes())
    found = one.read({"out": {"dtype": "float32", "shape": [2, 2], "offset": 8}, "no": {"dtype": "bool", "shape": [0]}})
    one.write({})
    one.results.write_bytes(bytes(100))
    assert ([[0, 1], [2, 3]], []) == (found["out"].tolist(), found["no"].tolist())


@pytest.mark.parametrize(
    "said",
    [
        None,
        {"out": 1},
        {"out": {"dtype": "float33", "shape": [1]}},
        {"out": {"dtype": "object", "shape": [1]}},
        {"out": {"dtype": "float32", "shape": [-1]}},
        {"out": {"dtype": "float32", "shape": [True]}},
        {"out": {"dtype": "float32", "shape": [3]}},
        {"out": {"dtype": "float32", "shape": [1], "offset": -4}},
        {"out": {"dtype": "float32", "shape": [1 << 40, 1 << 40]}},
    ],
)
def test_what_is_no_array_of_the_file_is_refused(exchange, said):
    one = exchange(False)
    one.write({})
    one.results.write_bytes(bytes(8))
    with pytest.raises(MisfitError):
        one.read(said)


def test_a_folder_is_for_its_owner_alone_and_goes_once_the_process_that_made_it_was_killed():
    made = Path(folder())
    command = [sys.executable, "-c", "from attnspec.execution.exchange import folder; print(folder())"]
    left = Path(subprocess.check_output(command, text=True).strip())
    found = left.is_dir(), 0o700 == made.stat().st_mode & 0o777
    shutil.rmtree(folder())
    assert ((True, True), (False, True)) == (found, (left.exists(), made.exists()))
    shutil.rmtree(made)
