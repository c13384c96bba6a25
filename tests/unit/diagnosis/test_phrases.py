"""A condition is told in the words of the field, with its counts."""

import pytest

from attnspec.diagnosis.conditions import Condition, Literal
from attnspec.diagnosis.phrases import counted, phrase
from attnspec.diagnosis.separation import When


@pytest.mark.parametrize(
    ("literal", "words"),
    [
        (Literal("from", "k_len", 1025), "k_len >= 1025"),
        (Literal("up to", "q_len", 1), "q_len = 1"),
        (Literal("up to", "q_len", 7), "q_len <= 7"),
        (Literal("remainder", "k_len", (16, 1, 3)), "k_len % 16 is 1 to 3"),
        (Literal("remainder", "k_len", (16, 1, 15)), "k_len % 16 is not 0"),
        (Literal("remainder", "k_len", (4, 0, 0)), "k_len % 4 is 0"),
        (Literal("remainder", "k_len", (2, 0, 0)), "k_len is even"),
        (Literal("less", "kv_heads", "heads"), "kv_heads < heads"),
        (Literal("power", "heads", "kv_heads"), "heads / kv_heads is a power of two"),
        (Literal("unpowered", "heads", "kv_heads"), "heads / kv_heads is no power of two"),
        (Literal("given", "mask"), "a mask is given"),
        (Literal("absent", "bias"), "no bias is given"),
        (Literal("set", "softcap"), "softcap is given"),
        (Literal("set", "causal", True), "causal = True"),
        (Literal("usual", "causal", False), "causal = False"),
        (Literal("equal", "scale", 0.5), "scale = 0.5"),
        (Literal("scattered", "q"), "q is not contiguous"),
        (Literal("layout", "layout", "expanded"), "the layout is expanded"),
        (Literal("shared", "mask", "heads"), "mask is broadcast along heads"),
        (Literal("apart", "mask", "heads"), "mask is not broadcast along heads"),
        (Literal("some", "k_lens", "zero"), "some of k_lens are 0"),
        (Literal("none", "k_lens", "zero"), "none of k_lens is 0"),
        (Literal("some", "k_lens", "page_size"), "some of k_lens are not multiples of page_size"),
        (Literal("none", "k_lens", "page_size"), "all of k_lens are multiples of page_size"),
        (Literal("some", "k_lens", "not q_lens"), "some of k_lens are not those of q_lens"),
        (Literal("none", "k_lens", "not q_lens"), "k_lens are q_lens"),
        (Literal("some", "targets", "= ignore_index"), "some of targets are ignore_index"),
        (Literal("none", "targets", "= ignore_index"), "none of targets is ignore_index"),
    ],
)
def test_a_literal_in_words(literal, words):
    assert words == phrase(literal)


def told(*literals, **more):
    found = {"wrong": 3, "inside": 4, "outside": 8, "tested": True, **more}
    return counted(When(Condition(literals), "bfloat16", **found))


def test_a_threshold_is_told_from_where_on():
    assert "wrong for k_len >= 33 (3 of 4 cases); right otherwise (8 of 8)" == told(Literal("from", "k_len", 33))


def test_where_the_budget_ended_it_is_so_far():
    says = "wrong where causal = True (3 of 4 cases, so far); right otherwise (8 of 8)"
    assert says == told(Literal("set", "causal", True), tested=False)


def test_what_is_wrong_everywhere_has_no_other_side():
    assert "wrong on every case (4 of 4 cases)" == told(wrong=4, outside=0)
    assert "wrong on nearly every case (3 of 4 cases)" == told(outside=0)


def test_what_depends_on_entries_too_is_wrong_at_times():
    says = "sometimes wrong where a mask is given (3 of 4 cases); right otherwise (8 of 8)"
    assert says == told(Literal("given", "mask"), partly=True)


def test_of_a_memory_layout_it_is_told_what_another_one_changes():
    says = "wrong where q is not contiguous (3 of 4 cases); right otherwise, and on contiguous copies (8 of 8)"
    assert says == told(Literal("scattered", "q"))


def test_places_and_dtypes_stand_beside_the_condition():
    says = "wrong for batch >= 2, at every item but the first, in bfloat16 only (3 of 4 cases); right otherwise"
    assert f"{says} (8 of 8)" == told(Literal("from", "batch", 2), right_in=("float32",), at="every item but the first")
