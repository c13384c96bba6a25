"""Gradients of a function whose parameters are other ones than the operator's inputs."""

import pytest
import torch

from attnspec.execution.backward import COTANGENT, Backward, differentiated
from attnspec.frameworks.torch import TorchFramework


@pytest.mark.parametrize("used", [("first",), ("second",), ("first", "second")])
def test_gradients_of_an_input_that_is_passed_twice_are_added_up(used):
    def kernel(first, second):
        return 3 * sum({"first": first, "second": second}[name] for name in used)

    leaves = {"first": "d_x", "second": "d_x"}
    backward = Backward(("first", "second"), frozenset(), {}, ("out",), leaves)
    gradients = differentiated(kernel, TorchFramework(), backward, ("first", "second", COTANGENT), frozenset({"d_x"}))
    x, cotangent = torch.ones(3), torch.tensor([1.0, 2.0, 4.0])
    found = gradients(x.clone(), x.clone(), cotangent)
    assert torch.equal(3 * len(used) * cotangent, found["d_x"])
