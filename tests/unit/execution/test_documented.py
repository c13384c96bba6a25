"""Functions in C with the parameters that their documentation says."""

import inspect

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
