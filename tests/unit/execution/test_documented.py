"""Functions in C with the parameters that their documentation says."""

import inspect
import warnings

import pytest
import torch
from torch.nn import functional

from attnspec.execution.documented import documented, stated


def test_a_function_in_c_has_the_parameters_that_its_documentation_says():
    found = documented(functional.scaled_dot_product_attention)
    parameters = inspect.signature(found).parameters
    assert ["query", "key", "value", "attn_mask"] == [*parameters][:4]
    assert None is parameters["scale"].default
    assert inspect.Parameter.empty is parameters["query"].default
    q = torch.ones(1, 1, 2, 4)
    assert torch.equal(q, found(q, q, value=q, is_causal=True))


def test_a_function_with_a_signature_is_itself():
    def kernel(q, k, v):
        return q

    assert kernel is documented(kernel)


def test_a_function_that_torchscript_has_compiled_has_the_parameters_that_were_written():
    def scaled(x, by: float = 2.0):
        """Scales."""
        return x * by

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = documented(torch.jit.script(scaled))
    assert inspect.signature(scaled) == inspect.signature(found)
    assert (scaled.__name__, scaled.__doc__, scaled.__module__) == (found.__name__, found.__doc__, found.__module__)
    assert scaled is inspect.unwrap(found)
    assert torch.equal(torch.tensor([3.0]), found(torch.ones(1), by=3.0))


def in_a_line(data):
    q, k, v = data
    return q + 2 * k + 4 * v


def by_places(inputs):
    k = inputs[1]
    q = inputs[0]
    return q + 2 * k


def by_names(batch):
    return batch["q"] + 2 * batch["k"] + batch["q"]


def of_a_shape(data):
    rows, _ = data.shape
    return rows


def of_rows(x):
    first, second = x
    return first + second


def of_another_place(data):
    first, third = data[0], data[2]
    return first + third


@pytest.mark.parametrize(
    ("function", "parameters", "bundle", "found"),
    [(in_a_line, "q k v", "tuple", 17), (by_places, "q k", "tuple", 5), (by_names, "q k", "dict", 6)],
)
def test_a_function_of_one_tuple_or_dict_is_one_of_what_it_unpacks(function, parameters, bundle, found):
    one = documented(function)
    assert (parameters.split(), bundle) == ([*inspect.signature(one).parameters], one.bundle)
    assert found == one(*range(1, 1 + len(parameters.split())))


@pytest.mark.parametrize("function", [of_a_shape, of_rows, of_another_place])
def test_any_other_function_is_itself(function):
    assert function is documented(function)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("f(x: array, eps: float = 1e-05, *, stream: Union[None, Stream] = None) -> array\n\nMore.", "x eps stream"),
        ("f(x, /, axes=(0, 1))", "x axes"),
        ("f()", ""),
        ("Computes f (fast) of x.", None),
        ("Computes f.", None),
        ("f(x,", None),
        ("", None),
    ],
)
def test_the_first_line_may_be_a_signature(text, parameters):
    found = stated(text)
    assert parameters == (None if found is None else " ".join(found.parameters))
