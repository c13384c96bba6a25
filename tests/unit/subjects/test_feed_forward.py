"""The maps of a feed-forward are told by the shapes of their parameters."""

import pytest

from attnspec.errors import UsageError
from attnspec.execution.survey import Survey, Weight
from attnspec.subjects.feed_forward import functions_of, hidden_of, maps_of, told_by_shape


def survey(*weights, uses=("width", "hidden")):
    return Survey("mine.MLP(dim, hidden)", uses, tuple(Weight(*one) for one in weights), (("x", True),), "torch")


def parts(*weights, hidden=88, **more):
    return {weight.path: part for part, weight in maps_of(survey(*weights, **more), hidden)}


def linear(name, n, m, bias=True):
    return [(f"{name}.weight", (n, m), "Linear"), *([(f"{name}.bias", (n,), "Linear")] * bias)]


def test_two_layers_and_their_biases_are_told_whatever_their_names_are():
    found = parts(*linear("net.0", 88, 60), *linear("net.3", 60, 88))
    assert {"net.0.weight": "up", "net.0.bias": "up", "net.3.weight": "down", "net.3.bias": "down"} == found
    assert {"a.weight": "down", "b.weight": "up"} == parts(*linear("a", 60, 88, False), *linear("b", 88, 60, False))


def test_bare_matrices_lead_inward_first_whichever_axis_is_their_input():
    bare = [("w1", (88, 60), "MLP"), ("b1", (88,), "MLP"), ("w2", (60, 88), "MLP"), ("b2", (60,), "MLP")]
    assert {"w1": "up", "b1": "up", "w2": "down", "b2": "down"} == parts(*bare)
    assert {"w1": "up", "w2": "down"} == parts(("w1", (60, 88), ""), ("w2", (88, 60), ""))
    assert {"w1": "up", "w2": "down"} == parts(("w1", (60, 88), ""), ("w2", (60, 88), ""))


def test_a_gate_is_told_by_its_name_or_left_open():
    maps = [*linear("fc1_x", 88, 60), *linear("fc1_gate", 88, 60), *linear("fc2", 60, 88)]
    found = parts(*maps)
    assert ("up", "gate", "gate") == (found["fc1_x.weight"], found["fc1_gate.weight"], found["fc1_gate.bias"])
    open_ = parts(*linear("one", 88, 60, False), *linear("two", 88, 60, False), *linear("three", 60, 88, False))
    assert {"one.weight": "gate?", "two.weight": "up?", "three.weight": "down"} == open_
    assert "gate_up" == parts(*linear("proj", 176, 60), *linear("out", 60, 88))["proj.bias"]


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([*linear("a", 88, 60), *linear("norm", 60, 60)], "these are not the maps of a feed_forward"),
        ([*linear("a", 88, 60), *linear("b", 60, 88), ("scale", (60,), "")], "unknown parameter scale"),
        ([("w", (7, 7), "")], "these are not the maps"),
        (
            [one for n in "abc" for one in linear(n, 88, 60, False)] + linear("d", 60, 88, False),
            "3 matrices lead to the hidden units",
        ),
    ],
)
def test_other_parameters_are_refused(weights, says):
    with pytest.raises(UsageError, match=says):
        maps_of(survey(*weights), 88)


def test_hidden_units_that_no_size_says_are_a_multiple_of_the_width():
    assert 240 == hidden_of(survey(*linear("a", 240, 60), *linear("b", 60, 240), uses=("width",)))
    assert 88 == hidden_of(survey(*linear("a", 240, 60)))
    with pytest.raises(UsageError, match="no size says how many hidden units there are"):
        hidden_of(survey(*linear("a", 100, 60), uses=("width",)))


def test_the_name_of_a_class_may_say_its_function():
    assert ("gelu", "gelu_tanh") == functions_of("GEGLUFeedForward")
    assert (("silu",), ("quick_gelu",)) == (functions_of("SwiGLU"), functions_of("QuickGELU_MLP"))
    assert 6 == len(functions_of("MLP"))


def test_the_last_of_three_matrices_with_numbers_is_told_by_its_shape():
    named = [
        (part, Weight(f"{name}.weight", shape, "Linear"))
        for part, name, shape in [("gate", "w1", (88, 60)), ("up", "w2", (88, 60)), ("down", "w3", (60, 88))]
    ]
    assert named == told_by_shape(named)
    exchanged = [("down", named[0][1]), ("gate", named[1][1]), ("up", named[2][1])]
    assert ["gate?", "up?", "down"] == [part for part, _ in told_by_shape(exchanged)]
