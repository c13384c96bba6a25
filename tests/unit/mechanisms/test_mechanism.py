"""What a mechanism says of itself: its signature, words, dtypes and addresses."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import LAYOUTS, Mechanism


@pytest.fixture
def attention() -> Mechanism:
    return library()["attention"]


def test_required_inputs_bind_by_position_and_optional_ones_by_name(attention):
    assert ("q", "k", "v") == attention.required
    assert ("mask", "bias", "sink") == attention.optional
    assert set(attention.inputs) == {*attention.required, *attention.optional}


def test_the_signature_is_all_that_can_be_passed(attention):
    options = {"scale", "causal", "window_left", "window_right", "softcap", "dropout_p", "seed"}
    assert frozenset({"q", "k", "v", "mask", "bias", "sink", *options}) == attention.signature


def test_the_defaults_are_the_first_choices(attention):
    absent = {"mask": True, "bias": 0, "sink": float("-inf")}
    options = {"scale": None, "causal": False, "window_left": None, "window_right": None, "softcap": None}
    options |= {"dropout_p": 0.0, "seed": None}
    assert {**absent, **options} == attention.defaults


def test_an_option_without_a_first_choice_has_no_default():
    assert {} == library()["alibi_slopes"].defaults


def test_a_further_mechanism_has_the_defaults_of_its_operator(attention):
    assert attention.defaults == library()["causal_mask"].defaults
    assert "true" == library()["causal_mask"].options["causal"].text


def test_the_shapes_of_required_inputs_fix_the_sizes(attention):
    expected = {
        "q": ("batch", "heads", "q_len", "head_dim"),
        "k": ("batch", "kv_heads", "k_len", "head_dim"),
        "v": ("batch", "kv_heads", "k_len", "value_dim"),
    }
    assert expected == attention.shapes
    assert expected == library()["multi_query"].shapes


def test_own_is_what_a_further_mechanism_draws_in_its_own_way(attention):
    assert frozenset() == attention.own
    assert frozenset({"causal"}) == library()["causal_mask"].own
    assert {"kv_heads", "heads"} <= library()["grouped_query"].own


def test_a_further_mechanism_takes_over_the_definition_but_not_the_laws(attention):
    mask = library()["causal_mask"]
    assert attention.definition == mask.definition
    assert attention.regimes == mask.regimes
    assert attention.conventions == mask.conventions
    assert attention.follows == mask.follows
    assert [] == [name for name, law in mask.laws.items() if attention.laws.get(name) is law]
    assert "no_future" in mask.laws


def test_every_convention_is_at_its_first_word(attention):
    expected = {
        "causal_alignment": "bottom_right",
        "empty_row": "zeros",
        "empty_bias_row": "zero_row",
        "masked_nonfinite": "ignored",
        "grouping": "block",
        "lse_base": "natural",
    }
    assert expected == attention.words


@pytest.mark.parametrize(
    ("declared", "meant"),
    [
        ({}, {}),
        ({"grouping": "tiled"}, {"grouping": "tiled"}),
        ({"empty_row": "zeros"}, {"empty_row": "zeros", "empty_bias_row": "zero_row"}),
        ({"empty_row": "nans"}, {"empty_row": "nans", "empty_bias_row": "nan_row"}),
        ({"empty_row": "mean_value"}, {"empty_row": "mean_value", "empty_bias_row": "mean_row"}),
        (
            {"empty_row": "nans", "empty_bias_row": "mean_row"},
            {"empty_row": "nans", "empty_bias_row": "mean_row"},
        ),
        ({"empty_bias_row": "mean_row"}, {"empty_bias_row": "mean_row"}),
    ],
)
def test_a_convention_that_follows_another_takes_the_word_in_its_place(attention, declared, meant):
    given = dict(declared)
    assert meant == attention.declared(declared)
    assert given == declared


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("out", "bfloat16", "bfloat16"),
        ("out", "float64", "float64"),
        ("lse", "bfloat16", "float32"),
        ("lse", "float16", "float32"),
        ("lse", "float32", "float32"),
        ("lse", "float64", "float64"),
    ],
)
def test_an_output_of_its_own_dtype_has_the_wider_of_both(attention, name, dtype, expected):
    assert expected == attention.dtype_of(name, dtype)


@pytest.mark.parametrize(
    ("option", "x", "expected"),
    [
        ("rate", "slow", "0.5x"),
        ("rate", "other", "other"),
        ("scale", "slow", "slow"),
        ("rate", 2, 2),
        ("rate", None, None),
    ],
)
def test_a_word_of_an_option_is_passed_as_what_it_stands_for(attention, option, x, expected):
    assert expected == replace(attention, vocabulary={"rate": {"slow": "0.5x"}}).passed(option, x)


def test_a_list_of_numbers_is_passed_as_a_tuple(attention):
    found = attention.passed("scale", np.array([1, 2]))
    assert (1, 2) == found
    assert tuple is type(found)


def test_the_address_of_a_law_names_its_mechanism(attention):
    assert "attention.convex" == attention.address("convex")


def test_a_mechanism_is_frozen(attention):
    with pytest.raises(FrozenInstanceError):
        attention.name = "other"
    assert "other" == replace(attention, name="other").name


def test_the_first_layout_is_the_plain_one():
    assert "contiguous" == LAYOUTS[0]
    assert len(LAYOUTS) == len(set(LAYOUTS))


@pytest.mark.parametrize(("name", "drawn"), [("dropout", True), ("lightning_indexer", False), ("attention", False)])
def test_random_outputs_of_what_draws_nothing_are_choices_among_equals(name, drawn):
    assert drawn is library()[name].stochastic
