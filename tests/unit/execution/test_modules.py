"""Modules of each framework, filled with what a case has."""

import os

import numpy as np
import pytest

from attnspec.adapters import Module
from attnspec.execution.calling import Interface, callable_of
from attnspec.execution.mapping import MappingError

LINEAR = Interface("linear", ("x", "w"), ("out",), {}, axes={"x": ("rows", "n"), "w": ("n", "m")}, absent={"b": 0.0})


def function(factory, **weights):
    once = {"inputs": ("x",), "options": (), "same": {}, "keywords": {}, "returns": None, "leave": (), "call": None}
    return callable_of(Module(factory, "linear", ("", "", 0), name=None, weights=weights, **once), LINEAR)


def case(dtype=np.float32, n=2):
    draw = np.random.default_rng(n)
    given = {"x": draw.normal(size=(4, n)), "w": draw.normal(size=(n, 3)), "b": draw.normal(size=3)}
    return {name: x.astype(dtype) for name, x in given.items()}


def check(called, dtype=np.float32):
    for given in (case(dtype), case(dtype, n=5)):
        found = called(**given)
        assert (np.ndarray, np.dtype(dtype)) == (type(found), found.dtype)
        np.testing.assert_allclose(given["x"] @ given["w"] + given["b"], found, rtol=1e-5)
        given.pop("b")
        np.testing.assert_allclose(given["x"] @ given["w"], called(**given), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_module_of_linen(dtype):
    pytest.importorskip("flax")
    import flax.linen as nn

    class Linear(nn.Module):
        m: int

        @nn.compact
        def __call__(self, x):
            return nn.Dense(self.m, name="inner")(x)

    check(function(lambda *, m: Linear(m), w="inner.kernel", b="inner.bias"), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_module_of_nnx(dtype):
    pytest.importorskip("flax")
    from flax import nnx

    class Linear(nnx.Module):
        def __init__(self, n, m):
            self.inner = nnx.List([nnx.Linear(n, m, rngs=nnx.Rngs(0))])

        def __call__(self, x):
            return self.inner[0](x)

    check(function(Linear, w="inner.0.kernel", b="inner.0.bias"), dtype)


def test_a_layer_of_keras():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")

    class Linear(keras.layers.Layer):
        def __init__(self, m, dtype):
            super().__init__(dtype=dtype)
            self.inner = [keras.layers.Dense(m, dtype=dtype)]

        def call(self, x):
            return self.inner[0](x)

    check(function(lambda *, m, dtype: Linear(m, dtype), w="inner.0.kernel", b="inner.0.bias"))


def test_the_maps_of_keras_attention_are_found_by_its_attributes():
    torch = pytest.importorskip("torch")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    from attnspec.execution.modules import filling

    x = torch.ones(1, 2, 4)
    found = filling(keras.layers.MultiHeadAttention(2, 3), [x], lambda layer: layer(x, x))
    assert (4, 2, 3) == found.shapes["_query_dense.kernel"]
    assert {"_query_dense", "_key_dense", "_value_dense", "_output_dense"} == {
        n.partition(".")[0] for n in found.shapes
    }


def test_a_parameter_of_torch_that_goes_by_two_paths_is_one():
    torch = pytest.importorskip("torch")
    from attnspec.execution.modules import filling

    made = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2, bias=False), "b": torch.nn.Linear(2, 2, bias=False)})
    made["b"].weight = made["a"].weight
    found = filling(made, [torch.ones(1)], lambda _: None)
    assert ({"a.weight": (2, 2)}, "a.weight") == (found.shapes, found.aliases["b.weight"])


def test_what_is_no_module_is_told():
    with pytest.raises(MappingError, match=r"^the factory made an int, which is not a module of torch, Flax or Keras$"):
        function(lambda: 3, w="x")(**case())


def test_a_module_of_torch_wants_arrays_of_torch():
    torch = pytest.importorskip("torch")
    with pytest.raises(MappingError, match=r"^Linear is a module of torch: declare framework='torch'$"):
        function(lambda *, n, m: torch.nn.Linear(n, m), w="weight.T", b="bias")(**case())
