"""A plain function that is not read is no wrong implementation."""

import pytest
import torch

import attnspec
from attnspec.errors import TargetError


def attention_pattern(height, width, shift):
    return torch.arange(height)[:, None] // width == torch.arange(height) // shift


def attention_of_others(height, width, shift):
    """Taken for queries, keys and values by their places, and it has results."""
    return torch.softmax(height @ width.mT, -1) @ shift


def attention(q, k, v):
    return {}[q.shape]


def softmax(rows):
    return {}[rows.shape]


def rope_update(rotary):
    def updated(x, positions):
        return rotary(x, positions)

    return updated


def softmax_settings(x):
    return None if len(x) else ""


def rope_uses_positions(x, positions):
    return x.shape[-2] == positions.shape[0]


def softmax_and_saved(x):
    p = torch.softmax(x, -1)
    return ((p, x), x)


def moe_routing(logits, k):
    _, _, experts = logits.shape
    return torch.softmax(logits, -1) + k / experts


def rms_norm(x, weight):
    """Which has results for all but one of the first cases."""
    if x.shape[0] == 1:
        _, _ = x
    return x / x.square().mean(-1, keepdim=True).sqrt() * weight


def checked(function):
    return attnspec.check(function, dtypes="float32", profile="smoke", isolate=False, explain_time=0, exitfirst=True)


def test_what_raises_errors_alone_and_says_by_no_name_what_it_takes_is_not_read():
    with pytest.raises(TargetError) as caught:
        checked(attention_pattern)
    assert "by their places alone it takes `height` for q, `width` for k, `shift` for v, and each first call" in str(
        caught.value
    )
    assert "--like 'attention(height=EXPRESSION)'" in str(caught.value)


@pytest.mark.parametrize("function", [attention_of_others, attention, softmax])
def test_what_has_results_or_says_by_names_what_it_takes_is_wrong(function):
    """And so is what takes one array, which cannot be confused with another."""
    assert {function.__name__: "violated"} == checked(function).verdicts


def test_what_makes_something_in_place_of_computing_it_is_not_read():
    with pytest.raises(TargetError, match=r"each first call returned a function as 'out', .*; name what computes it"):
        checked(rope_update)


def test_what_returns_nothing_or_text_is_not_read():
    with pytest.raises(TargetError, match="each first call returned None, and no 'p'; name what computes it"):
        checked(softmax_settings)


@pytest.mark.parametrize(
    ("function", "returned"), [(rope_uses_positions, "a bool as 'out'"), (softmax_and_saved, "a tuple as 'p'")]
)
def test_what_answers_a_question_or_returns_several_results_in_one_is_not_read(function, returned):
    with pytest.raises(TargetError, match=f"each first call returned {returned}, .*; name what computes it"):
        checked(function)


def test_what_takes_arrays_of_another_number_of_axes_is_not_read():
    with pytest.raises(TargetError) as caught:
        checked(moe_routing)
    assert "each first call raises an error (ValueError: not enough values to unpack" in str(caught.value)
    assert "say what to pass with --like, or wrap the function" in str(caught.value)


def attention_of_frames(q, k, v):
    """Of five axes, as only layouts of several arrays in one have them."""
    b, c, _, _, _ = q.shape
    return torch.softmax(q.reshape(b, c, -1).mT @ k.reshape(b, c, -1), -1) @ v.reshape(b, c, -1).mT


def attention_of_moved_frames(q, k, v):
    q, k, v = (x.permute(0, 3, 4, 2, 1) for x in (q, k, v))
    return torch.softmax(q @ k.mT, -1) @ v


def attention_of_rows(q, k, v):
    """Of two axes, as one layout has them."""
    rows, _ = q.shape
    return torch.softmax(q @ k.mT / rows, -1) @ v


def route_in_a_row(logits, k):
    """The weights of all tokens one after the other."""
    return torch.softmax(logits, -1).topk(k, -1).values.flatten()


def test_what_returns_arrays_of_other_axes_is_not_read():
    with pytest.raises(TargetError, match=r"in each first call weights has the shape \[.*which has other axes; name"):
        checked(route_in_a_row)


def softmax_of_slots(x, slots=None):
    return torch.softmax(x[slots.tolist()], -1)


@pytest.mark.parametrize("function", [attention_of_frames, attention_of_moved_frames, softmax_of_slots])
def test_what_asks_for_other_arrays_than_an_operator_has_is_not_read(function):
    with pytest.raises(TargetError, match=r"each first call raises an error \(.*, as where other arrays are meant"):
        checked(function)


def test_what_may_be_in_another_layout_is_wrong():
    assert {"attention_of_rows": "violated"} == checked(attention_of_rows).verdicts


def test_what_fails_to_unpack_some_arrays_is_wrong():
    assert {"rms_norm": "violated"} == checked(rms_norm).verdicts
