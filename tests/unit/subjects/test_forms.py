"""Forms: a call of an operator is arranged for a function, and what comes back is restored."""

import numpy as np
import pytest

from attnspec.errors import UsageError
from attnspec.execution.calling import Call, Reply
from attnspec.mechanisms.loader import library
from attnspec.subjects.forms import form_in

ATTENTION = library()["attention"]
CALL = Call(
    {"q": np.ones((2, 4, 5, 8)), "k": np.ones((2, 2, 7, 8)), "v": np.ones((2, 2, 7, 3))}, {"causal": True}, "float32"
)


def test_a_function_sees_the_arrays_in_its_layout_and_its_results_are_restored():
    seen = []

    def make(call):
        seen.append(call)
        return Reply({"out": np.zeros((2, 5, 4, 3))})

    reply = form_in(ATTENTION, "bshd", "").called(make, CALL)
    assert {"q": (2, 5, 4, 8), "k": (2, 7, 2, 8), "v": (2, 7, 2, 3)} == {n: x.shape for n, x in seen[0].inputs.items()}
    assert ({"causal": True}, (2, 4, 5, 3)) == (seen[0].options, reply.outputs["out"].shape)


def test_a_call_in_the_layout_of_the_operator_is_handed_on_as_it_is():
    seen = []
    form_in(ATTENTION, "", "").called(lambda call: seen.append(call) or Reply(), CALL)
    assert seen[0] is CALL


def test_a_call_without_room_is_not_supported():
    reply = form_in(ATTENTION, "qkv", "").called(lambda call: Reply(), CALL)
    assert "unsupported" == reply.fault.kind


def test_a_result_of_another_shape_is_told_in_the_layout_of_the_function():
    reply = form_in(ATTENTION, "bshd", "").called(lambda call: Reply({"out": np.zeros((2, 5))}), CALL)
    assert ("misshapen", {}) == (reply.fault.kind, reply.outputs)
    assert "out has the shape [2, 5], which has not the 4 axes of its layout" == reply.fault.says


@pytest.mark.parametrize(
    ("operator", "layout", "words"),
    [
        ("attention", "bshd", "[batch, length, heads, dim]"),
        ("attention", "qkv", "qkv as [batch, length, 3, heads, dim]"),
        ("paged_attention", "hnd", "key_pages as [pages, heads, page_size, dim]"),
    ],
)
def test_a_form_is_told_by_the_first_array_that_differs(operator, layout, words):
    assert words == form_in(library()[operator], layout, "").in_words()


@pytest.mark.parametrize(
    ("operator", "layout", "says"),
    [
        ("attention", "bsh", r"kernel: attention has no layout 'bsh'; did you mean 'bs.d'\? \(its layouts: bhsd, bshd"),
        ("softmax", "bshd", r"kernel: softmax has no layout 'bshd'; it has one layout only"),
    ],
)
def test_an_unknown_layout_is_refused_with_those_that_there_are(operator, layout, says):
    with pytest.raises(UsageError, match=says):
        form_in(library()[operator], layout, "kernel: ")
