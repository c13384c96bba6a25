"""Layouts: in which order axes come, which are folded, and which arrays are passed as one."""

import numpy as np
import pytest

from attnspec.mechanisms.layouts import (
    MisfitError,
    axes_in_words,
    conditions,
    faults,
    layout_of,
    numbers_of_axes,
    pattern,
    sizes_of_letters,
)
from attnspec.mechanisms.loader import library

ATTENTION = library()["attention"]
SHAPES = {"q": (2, 3, 5, 7), "k": (2, 3, 11, 7), "v": (2, 3, 11, 13), "out": (2, 3, 5, 13), "lse": (2, 3, 5)}
SIZES = sizes_of_letters(ATTENTION.layouts["bhsd"], ATTENTION.shapes)


def arrays(**shapes):
    return {name: np.arange(float(np.prod(shape))).reshape(shape) for name, shape in {**SHAPES, **shapes}.items()}


def same(name):
    """Shapes in which all parts of a layout fit into one array."""
    return {"q": (2, 3, 5, 7), "k": (2, 3, 5, 7), "v": (2, 3, 5, 7), "out": (2, 3, 5, 7)} if "kv" in name else {}


@pytest.mark.parametrize(
    ("layout", "name", "shape"),
    [
        ("bshd", "q", (2, 5, 3, 7)),
        ("bshd", "out", (2, 5, 3, 13)),
        ("bshd", "lse", (2, 3, 5)),
        ("sbhd", "v", (11, 2, 3, 13)),
        ("bsd", "k", (2, 11, 21)),
    ],
)
def test_axes_come_in_the_order_of_the_letters(layout, name, shape):
    assert shape == layout_of(ATTENTION.layouts, layout).arranged(arrays())[name].shape


def test_an_entry_goes_where_its_letters_say():
    found = layout_of(ATTENTION.layouts, "bshd").arranged(arrays())["q"]
    assert arrays()["q"][1, 2, 4, 6] == found[1, 4, 2, 6]
    assert found.flags.c_contiguous


def test_arrays_that_are_passed_as_one_lie_along_an_axis_of_their_own():
    given = arrays(**same("qkv"))
    found = layout_of(ATTENTION.layouts, "qkv").arranged(given)
    assert (["qkv", "out", "lse"], (2, 5, 3, 3, 7)) == ([*found], found["qkv"].shape)
    assert np.array_equal(given["v"].swapaxes(1, 2), found["qkv"][:, :, 2])


@pytest.mark.parametrize(
    ("operator", "layout"),
    [(m.name, layout) for m in library().values() if m.name == m.operator for layout in m.layouts],
)
def test_what_is_arranged_is_restored(operator, layout):
    m, stream = library()[operator], np.random.default_rng(0)
    own = {name: pattern(text).letters for name, text in next(iter(m.layouts.values())).items()}
    length = {letter: 2 + n for n, letter in enumerate(sorted({x for letters in own.values() for x in letters}))}
    made = layout_of(m.layouts, layout)
    kept = {letter for form in made.patterns.values() for letter in form.letters}
    length = dict.fromkeys(length, 3) if made.stacks else length
    length |= dict.fromkeys(length.keys() - kept, 1)  # of a pack: it has one item
    given = {name: stream.normal(size=[length[x] for x in letters]) for name, letters in own.items()}
    back = made.restored(made.arranged(given), made.lengths(given))
    assert {*given} == {*back}
    assert all(np.array_equal(given[name], back[name]) for name in given)


def test_gradients_of_what_is_passed_as_one_are_restored_as_its_parts():
    made, given = layout_of(ATTENTION.layouts, "kv"), arrays(**same("kv"))
    found = made.restored({"kv": np.stack([np.ones((2, 5, 3, 7)), np.zeros((2, 5, 3, 7))], 2)}, made.lengths(given))
    assert {"k": 1.0, "v": 0.0} == {name: x.mean() for name, x in found.items()}
    assert (2, 3, 5, 7) == found["k"].shape


def test_arrays_of_different_lengths_do_not_fit_into_one():
    with pytest.raises(MisfitError, match=r"q and k and v do not fit into one array"):
        layout_of(ATTENTION.layouts, "qkv").arranged(arrays())


@pytest.mark.parametrize(
    ("layout", "shape", "says"),
    [
        ("bshd", (2, 5, 39), r"out has the shape \[2, 5, 39\], which does not have the 4 axes of its layout"),
        ("bsd", (2, 5, 38), r"out has the shape \[2, 5, 38\], not \[2, 5, 39\]"),
    ],
)
def test_a_result_of_other_axes_is_a_misfit(layout, shape, says):
    made = layout_of(ATTENTION.layouts, layout)
    with pytest.raises(MisfitError, match=says):
        made.restored({"out": np.zeros(shape)}, made.lengths(arrays()))


def test_an_axis_that_is_left_out_has_length_one():
    own = {"q": "b h s d", "out": "b h s d"}
    made = layout_of({"bhsd": own, "hsd": {"q": "h s d", "out": "h s d"}}, "hsd")
    given = {"q": np.ones((1, 2, 3, 4))}
    assert (2, 3, 4) == made.arranged(given)["q"].shape
    assert (1, 2, 3, 4) == made.restored({"out": np.ones((2, 3, 4))}, made.lengths(given))["out"].shape
    assert ("batch == 1",) == conditions(made, {"b": "batch"})
    with pytest.raises(MisfitError, match="no room for q"):
        made.arranged({"q": np.ones((2, 2, 3, 4))})


def test_a_layout_of_one_array_requires_that_its_parts_are_alike():
    assert {"q_len == k_len", "heads == kv_heads", "head_dim == value_dim"} == {
        *conditions(layout_of(ATTENTION.layouts, "qkv"), SIZES)
    }


@pytest.mark.parametrize(
    ("layout", "name", "words"),
    [
        ("bshd", "q", "[batch, length, heads, dim]"),
        ("bsd", "q", "[batch, length, heads * dim]"),
        ("sbhd", "k", "[length, batch, heads, dim]"),
    ],
)
def test_axes_are_told_in_words(layout, name, words):
    assert words == axes_in_words(layout_of(ATTENTION.layouts, layout), name, SIZES)


@pytest.mark.parametrize("text", ["", "b  s", "b s (h", "bs", "b s b", "B s", "b ()"])
def test_a_text_without_a_meaning_is_no_pattern(text):
    assert [("own", "q")] == [(layout, name) for layout, name, _ in faults({"own": {"q": text or "("}}, {"q"})], (
        f"{text!r} is taken for a pattern"
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x": "b s"}, "no input or output is called 'x'"),
        ({"q": "b z"}, "'q' has no axis 'z'; it has 'b s'"),
        ({"k": "b s"}, "the first layout says nothing of 'k'"),
        ({"q": "b _ s", "qk": "q + k"}, "'k' has not one axis '_' along which it lies"),
        ({"k": "q + q"}, "'k' is an array of the operator already"),
    ],
)
def test_a_layout_that_contradicts_the_first_is_a_fault(given, says):
    assert says in [told for _, _, told in faults({"own": {"q": "b s"}, "other": given}, {"q", "k"})]


def test_axes_of_one_entry_are_added_and_taken_away():
    rows = layout_of({"rn": {"x": "r n", "p": "r n"}, "bhrn": {"x": "_ _ r n", "p": "_ _ r n"}}, "bhrn")
    x = np.arange(6.0).reshape(2, 3)
    given = rows.arranged({"x": x})["x"]
    assert (1, 1, 2, 3) == given.shape
    assert np.array_equal(x, rows.restored({"p": given}, rows.lengths({"x": x}))["p"])


def test_a_scale_of_unknown_axes_is_restored_where_the_rows_were_arranged():
    rows = layout_of({"rn": {"x": "r n", "scale": "a b"}, "brn": {"x": "_ r n", "scale": "_ a b"}}, "brn")
    x, scale = np.ones((2, 3)), np.ones((1, 2, 1))
    assert (2, 1) == rows.restored({"scale": scale}, rows.lengths({"x": x}))["scale"].shape
    assert (1, 2, 1) == rows.restored({"scale": scale}, rows.lengths({"x": x[None]}))["scale"].shape


def test_inputs_have_the_axes_of_the_definition_in_a_layout_of_more():
    rows = layout_of({"rn": {"x": "r n", "p": "r n"}, "bhrn": {"x": "_ _ r n", "p": "_ _ r n"}}, "bhrn")
    assert ("ndim(x) == 2",) == numbers_of_axes(rows, {"x": ("rows", "n")})
    assert () == numbers_of_axes(rows, {"x": ()})
    assert () == numbers_of_axes(layout_of(ATTENTION.layouts, "qkv"), ATTENTION.shapes)
