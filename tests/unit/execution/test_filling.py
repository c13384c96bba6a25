"""Modules as functions: built once for each size, filled from each case, called as the declaration says."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from attnspec import adapters
from attnspec.adapters import Adapter, module, registered
from attnspec.execution.calling import Interface, callable_of
from attnspec.execution.declarations import checked
from attnspec.execution.filling import ROOM, Filled, planned
from attnspec.execution.mapping import MappingError

FEED_FORWARD = Interface(
    "swiglu",
    ("x", "w_in", "w_out"),
    ("out",),
    {},
    axes={"x": ("rows", "dim"), "w_in": ("dim", "hidden"), "w_out": ("hidden", "dim")},
    absent={"b_in": 0.0},
)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(adapters, "_registered", list(registered()))


class FeedForward(nn.Module):
    """What fills it is told by its parameters."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.first, self.second = nn.Linear(dim, hidden), nn.Linear(hidden, dim, bias=False)

    def forward(self, x, double=False):
        return (2 if double else 1) * self.second(self.first(x))


WEIGHTS = {"w_in": "first.weight.T", "b_in": "first.bias", "w_out": "second.weight.T"}


def function(factory=FeedForward, weights=WEIGHTS, **parts):
    """The function that a worker calls."""
    return callable_of(module(factory, "swiglu", weights=weights, **parts), FEED_FORWARD)


def case(rows=2, dim=3, hidden=5, dtype=torch.float32, bias=True):
    made = torch.Generator().manual_seed(rows + 10 * dim + 100 * hidden)
    draw = lambda *shape: torch.randn(*shape, generator=made).to(dtype)  # noqa: E731 - a name for three draws
    given = {"x": draw(rows, dim), "w_in": draw(dim, hidden), "w_out": draw(hidden, dim)}
    return {**given, "b_in": draw(hidden)} if bias else given


def expected(x, w_in, w_out, b_in=0):
    return (x @ w_in + b_in) @ w_out


@torch.no_grad()
def test_a_module_is_filled_from_each_case():
    called = function()
    for given in (case(), case(bias=False), case(rows=4), case(dim=4)):
        torch.testing.assert_close(expected(**given), called(**given))


@torch.no_grad()
def test_it_is_in_the_dtype_of_the_case():
    given = case(dtype=torch.bfloat16)
    assert torch.bfloat16 == function()(**given).dtype
    torch.testing.assert_close(expected(**given), function()(**given))


@torch.no_grad()
def test_it_is_built_once_for_its_sizes_and_few_are_kept():
    built = []
    called = function(lambda *, dim, hidden: built.append(dim) or FeedForward(dim, hidden))
    for dim in (3, 3, 4, 3):
        called(**case(rows=dim + 1, dim=dim))
    assert [3, 4] == built
    for dim in range(1, 2 * ROOM):
        called(**case(dim=dim))
    assert ROOM == len(called._built)


@torch.no_grad()
def test_what_a_module_draws_is_nobody_elses_loss():
    states = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    function(lambda *, dim, hidden: (random.random(), np.random.rand(), FeedForward(dim, hidden))[-1])(**case())
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert states[1:] == (random.getstate(), np.random.get_state()[1].tolist())


@torch.no_grad()
def test_options_and_keywords_are_passed_under_its_own_names():
    given = case()
    torch.testing.assert_close(2 * expected(**given), function(options={"twice": "double"})(**given, twice=True))
    torch.testing.assert_close(2 * expected(**given), function(keywords={"double": True})(**given))
    torch.testing.assert_close(expected(**given), function(inputs={"x": "x"})(**given))


@torch.no_grad()
def test_a_call_of_ones_own_gets_the_module_and_what_is_no_weight():
    given = case()
    found = function(call=lambda made, x, twice=False: made(x, twice))(**given, twice=True)
    torch.testing.assert_close(2 * expected(**given), found)


@torch.no_grad()
def test_the_output_is_taken_from_what_is_returned():
    class Both(FeedForward):
        def forward(self, x):
            return x, super().forward(x)

    given = case()
    torch.testing.assert_close(expected(**given), function(Both, returns=1)(**given))
    with pytest.raises(MappingError, match=r"^the module returned 2 results, and there is 1 output; say which"):
        function(Both)(**given)
    with pytest.raises(MappingError, match=r"^returns=5 is not among the results of the module \(tuple\)$"):
        function(Both, returns=5)(**given)


@torch.no_grad()
def test_a_weight_may_be_held_layer_by_layer_and_by_several():
    class Layers(nn.Module):
        def __init__(self, dim, layers):
            super().__init__()
            self.maps = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
            self.last = nn.Linear(dim, dim, bias=False)

        def forward(self, x):
            for layer in self.maps:
                x = layer(x)
            return self.last(x)

    said = Interface("o", ("x", "w", "e"), ("out",), {}, axes={"w": ("layers", "dim", "dim")})
    called = callable_of(module(Layers, "o", weights={"w": "maps.*.weight.T", "e": ("last.weight",)}), said)
    w, x = torch.randn(11, 2, 2), torch.randn(1, 2)
    torch.testing.assert_close(torch.linalg.multi_dot([x, *w]), called(x=x, w=w, e=torch.eye(2)))


@torch.no_grad()
def test_what_is_left_stays_or_holds_a_number():
    called = function(weights={k: t for k, t in WEIGHTS.items() if k != "b_in"}, leave={"first.b*": 2})
    torch.testing.assert_close(expected(**case(bias=False), b_in=2), called(**case(bias=False)))


@torch.no_grad()
def test_one_may_have_been_taken_from_a_weight():
    given = case()
    called = function(weights={**WEIGHTS, "b_in": "1 + first.bias"})
    torch.testing.assert_close(expected(**{**given, "b_in": given["b_in"] - 1}), called(**given))
    torch.testing.assert_close(expected(**case(bias=False), b_in=-1), called(**case(bias=False)))


@pytest.mark.parametrize(
    ("weights", "leave", "says"),
    [
        (
            {**WEIGHTS, "w_in": "frist.weight.T"},
            (),
            "w_in: the module has no parameter 'frist.weight'; did you mean 'first.weight'? "
            "(it has: first.weight, first.bias, second.weight)",
        ),
        (
            {**WEIGHTS, "w_in": "first.weight"},
            (),
            "w_in [dim=3, hidden=5] does not fit 'first.weight', which is [5, 3] (first.weight is [5, 3]; "
            "case: rows=2 dim=3 hidden=5)",
        ),
        (
            {k: t for k, t in WEIGHTS.items() if k != "b_in"},
            (),
            "no weight fills 'first.bias' [5]; name it in weights=, or in leave={'first.bias': 0} to fill it "
            "with zeros, or in leave=('first.bias',) to keep its initial value",
        ),
        (
            {**WEIGHTS, "b_in": "first.bias[:2]"},
            (),
            "no weight fills 3 of 5 entries of 'first.bias' [5]; name it in weights=, or in leave={'first.bias': 0} to "
            "fill it with zeros, or in leave=('first.bias',) to keep its initial value",
        ),
        (
            {**WEIGHTS, "w_out": "first.weight"},
            ("second.weight",),
            "w_out: entries of 'first.weight' are filled twice, by w_in and w_out",
        ),
        (WEIGHTS, ("thrid.weight",), "leave: no parameter is 'thrid.weight'"),
    ],
)
def test_a_mapping_that_does_not_fit_is_told(weights, leave, says):
    with pytest.raises(MappingError) as error:
        function(weights=weights, leave=leave)(**case())
    assert says in str(error.value)


def test_inputs_that_contradict_one_another_are_refused():
    given = case() | {"w_in": torch.zeros(4, 5)}
    with pytest.raises(ValueError, match=r"^dim is 3, but 4 in w_in$"):
        function()(**given)


def test_a_declaration_that_cannot_be_meant_is_told_with_its_place():
    parts = {"weights": WEIGHTS, "inputs": ("x",), "options": (), "same": {}, "keywords": {}, "returns": None}
    parts |= {"leave": (), "call": None}
    for wrong, says in [
        ({"weights": {}}, "weights is empty; a module without weights is a function, and takes @adapter(...)"),
        ({"weights": {"w_in": 3}}, "weights['w_in'] is 3; expected a text, or several in a tuple"),
        ({"inputs": ("w_in",)}, "'w_in' is passed by inputs and also fills 'first.weight.T'; use it for only one"),
        ({"inputs": {"x": 1}}, "inputs has the positions [1]; they count from 0"),
        ({"same": ["x"]}, "same is ['x']; expected a dict with names for its keys"),
    ]:
        with pytest.raises(MappingError) as error:
            planned(parts | wrong)
        assert says == str(error.value)


def test_a_function_stays_as_it_is():
    assert planned is callable_of(planned, FEED_FORWARD)
    assert Filled is type(function())


def test_a_module_is_registered_with_its_place_and_what_its_factory_takes():
    made = module(lambda *, dim, hidden=4: FeedForward(dim, hidden), "swiglu", weights=WEIGHTS, same={"y": "x"})
    one: Adapter = checked(registered()[-1])
    assert made is one.function
    assert ("swiglu", ("dim", "hidden"), {"y": "x"}) == (one.name, one.factory, one.same)
    assert one.place.rpartition(":")[0].endswith("test_filling.py")
    assert __name__ == one.module
    assert "FeedForward" == module(FeedForward, "swiglu", weights=WEIGHTS).__name__
    with pytest.raises(TypeError, match=r"^swiglu is called by attnspec alone"):
        made()
