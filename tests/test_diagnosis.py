"""A failure is named after the known mistake that the subject behaves like on every case, or not at all."""

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cells import Request
from attnspec.diagnosis import diagnose
from attnspec.engine import run
from attnspec.loader import library
from attnspec.plans import Profile
from attnspec.targets import mistake, subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
SMALL = [(m, name) for m in ("softmax", "alibi_slopes", "alibi_bias") for name in library()[m].mistakes]
LIKE_ANOTHER = {
    "softmax.maximum_of_all": "softmax.floored_maximum",
    "alibi_slopes.repeated": "alibi_slopes.other_half",
}
"""Mistakes that no scenario tells from one which comes before them."""
ATTENTION = [
    ("attention", "no_scale"),
    ("attention", "head_count_scale"),
    ("attention", "late_mask"),
    ("attention", "bias_scaled"),
    ("attention", "cap_after_mask"),
    ("attention", "key_tail"),
    ("attention", "mixed_pairs"),
    ("attention", "maximum_of_last_tile"),
    ("attention", "lse_without_maximum"),
    ("causal_mask", "sees_next"),
    ("grouped_query", "mixed_maps"),
    ("sliding_window", "one_more"),
    ("padding_mask", "suffix_only"),
]


def failing(one, mechanism, dtype="float32"):
    result = run(Request(one, library()[mechanism], dtype, SCENARIOS, laws=frozenset({"definition"})))
    return result.bench, result.cells[0].failure.sample


def likeness_of(one, mechanism, dtype="float32"):
    bench, sample = failing(one, mechanism, dtype)
    return diagnose(bench, sample, 0)


@pytest.mark.parametrize(("mechanism", "name"), [*SMALL, *ATTENTION])
def test_the_mistake_that_was_planted_is_named(mechanism, name):
    address = f"{mechanism}.{name}"
    likeness = likeness_of(mistake(address), mechanism)
    assert LIKE_ANOTHER.get(address, address) == likeness.name
    assert ("", "") == (likeness.convention, likeness.word)
    assert likeness.agreed >= 1


def test_a_name_comes_with_its_sentence_and_the_cases_that_tell():
    likeness = likeness_of(mistake("attention.no_scale"), "attention")
    assert library()["attention"].mistakes["no_scale"].says == likeness.says
    assert likeness.agreed > 50


def adapted(function, operator="attention", dtypes=("float32",), **declared):
    return subject(Adapter("function", operator, function, "torch", dtypes=dtypes, **declared))


def attention_of(factor=lambda q, v: q.shape[-1] ** -0.5, first=lambda q_len, k_len: k_len - q_len, over=1.0):
    def attention(q, k, v, *, causal=False):
        k, v = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        s = q.float() @ k.mT * factor(q, v)
        row = torch.arange(q.shape[2])[:, None] + first(q.shape[2], k.shape[2])
        p = torch.softmax(s.masked_fill((torch.arange(k.shape[2]) > row) & causal, -torch.inf), -1)
        return (over * p.nan_to_num(0.0) @ v).to(q.dtype)

    return attention


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"factor": lambda q, v: 1.0}, "attention.no_scale"),
        ({"factor": lambda q, v: v.shape[-1] ** -0.5}, "attention.value_scale"),
        ({"factor": lambda q, v: (q.shape[1] * q.shape[3]) ** -0.5}, "attention.model_scale"),
        ({"factor": lambda q, v: 1 / q.shape[3]}, "attention.scaled_twice"),
    ],
)
def test_a_mistake_is_known_in_the_code_of_others(fault, name, dtype):
    assert name == likeness_of(adapted(attention_of(**fault), dtypes=(dtype,)), "attention", dtype).name


def test_the_mistake_of_another_mechanism_is_known_too():
    words = {"causal_alignment": "bottom_right", "empty_row": "zeros"}
    one = adapted(attention_of(factor=lambda q, v: 1.0), conventions=words)
    assert "attention.no_scale" == likeness_of(one, "causal_mask").name


def test_another_word_than_the_declared_one_is_named_first():
    one = adapted(attention_of(first=lambda q_len, k_len: 0), conventions={"causal_alignment": "bottom_right"})
    likeness = likeness_of(one, "causal_mask")
    assert "causal_alignment = top_left" == likeness.name
    assert ("causal_alignment", "top_left") == (likeness.convention, likeness.word)
    assert library()["attention"].conventions["causal_alignment"]["top_left"] == likeness.says


def in_two_ways(q, v):
    """A factor that no mistake has on every case."""
    return 1.0 if q.shape[2] == 5 else (q.shape[1] * q.shape[3]) ** -0.5


@pytest.mark.parametrize(
    "function",
    [
        attention_of(over=1.37),
        attention_of(factor=lambda q, v: 0.7 * q.shape[-1] ** -0.5),
        attention_of(factor=in_two_ways),
        lambda q, k, v: torch.full((*q.shape[:3], v.shape[3]), torch.nan),
        lambda q, k, v: v,
        lambda q, k, v: 1 / 0,
    ],
)
def test_an_unknown_fault_has_no_name(function):
    assert likeness_of(adapted(function), "attention") is None


def test_a_mistake_on_the_failing_case_alone_has_no_name():
    def softmax(x):
        p = torch.softmax(x, -1)
        return torch.softmax(x * np.log(2), -1) if x.shape == (3, 7) else p

    bench, sample = failing(adapted(softmax, "softmax"), "softmax")
    assert "plain" == sample.case.label
    assert diagnose(bench, sample, 0) is None
