"""What the call of a class may take beside its tokens, and in which forms."""

import pytest

from attnspec.execution.survey import Survey
from attnspec.subjects.candidate import Candidate
from attnspec.subjects.masks import contrary, extensions, further, option_of, said, without_empty_rows

HEAD = Candidate("lambda *, dim: mine.Attention(dim)", "multi_head", {}, same=True)


def survey(*takes):
    return Survey("mine.Attention(dim)", (), (), tuple((name, False) for name in takes), "torch")


def test_flags_and_masks_are_looked_for_where_the_call_is_not_written_already():
    takes = survey("x", "attn_mask", "is_causal", "bias")
    assert ["is_causal", "attn_mask"] == further(HEAD, takes)
    fixed = Candidate(HEAD.factory, HEAD.operator, {}, fixed={"causal": "True"})
    assert ["attn_mask"] == further(fixed, takes)
    assert [] == further(Candidate("", "multi_head", {}, call="lambda module, x: module(x)"), takes)
    assert [] == further(Candidate("", "swiglu", {}), takes)


def test_a_flag_is_an_option_and_a_mask_of_four_axes_is_an_input():
    (wider,) = extensions(HEAD, "is_causal")
    assert {"causal": '"is_causal"'} == wider.options
    wider = next(extensions(HEAD, "attn_mask"))
    assert ({"mask": '"attn_mask"'}, "") == (wider.options, wider.call)
    assert ["causal", "mask"] == [option_of(name) for name in ("is_causal", "pad_mask")]
    assert ("single(mask) or ndim(mask) == 4",) == wider.requires
    assert 8 == len([*extensions(HEAD, "mask")])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("attention_mask", "mask[:, 0, 0].long()", "[batch, k_len], one for keys that are seen"),
        ("key_padding_mask", "~mask[:, 0, 0]", "[batch, k_len], true for keys that are hidden"),
        ("attn_mask", "added_mask(x, mask)", "added to the scores"),
    ],
)
def test_a_name_says_which_forms_a_mask_may_have(name, text, says):
    calls = {wider.call: wider for wider in extensions(HEAD, name)}
    call = f"lambda module, x, mask=None: module(x, {name}=None if mask is None else {text})"
    assert call in calls
    assert says == said(calls[call], name)
    assert calls[call].same


def test_what_the_call_takes_already_stays():
    crossed = Candidate("", "multi_head", {}, inputs='{"x": 0, "context": "memory"}', options={"causal": '"is_causal"'})
    *_, wider = extensions(Candidate(**{**fields(crossed), "keywords": {"mask": "None", "pos": "0"}}), "mask")
    taken, body = wider.call.split(": ", 1)
    assert "lambda module, x, context, mask=None, *, causal=False" == taken
    assert "module(x, memory=context, pos=0, is_causal=causal, mask=None if mask is None else mask[:, 0])" == body


def fields(candidate):
    return {name: getattr(candidate, name) for name in candidate.__slots__}


def test_other_frameworks_take_masks_as_the_operator_has_them():
    (one,) = extensions(Candidate("", "multi_head", {}, framework="numpy"), "mask")
    assert {"mask": '"mask"'} == one.options


def test_the_opposite_of_what_a_name_says_is_tried_where_each_query_sees_a_key():
    ((meant, opposite),) = contrary(HEAD, "attention_mask")
    assert "else mask[:, 0, 0].long())" in meant.call
    assert "else (~mask[:, 0, 0]).long())" in opposite.call
    assert without_empty_rows(HEAD).requires[-1:] == opposite.requires[-1:]
    assert [] == [*contrary(HEAD, "mask")]


def test_a_mask_that_has_to_be_passed_is_passed_once():
    asked = Candidate(**{**fields(HEAD), "keywords": {"attention_mask": "None"}})
    calls = [one.call for one in (*extensions(asked, "attention_mask"), *next(contrary(asked, "attention_mask")))]
    assert all(1 == call.count("attention_mask=") for call in calls[1:])
    assert {} == next(extensions(asked, "attention_mask")).keywords
