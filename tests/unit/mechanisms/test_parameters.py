"""How functions read parameters is data, and what is wrong with it is told with its place."""

import numpy as np
import pytest

from attnspec.cases.drawing import seed_of
from attnspec.cases.samples import Case, Sample
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.parameters import (
    called,
    called_so,
    described,
    documented,
    faults,
    namesakes,
    readings,
    words,
)
from attnspec.mechanisms.stated import expressions_in
from attnspec.numerics import budget
from attnspec.subjects.passing import compiled, plain_value


def test_the_shipped_files_have_no_fault():
    assert [] == [*faults(library())]


def test_readings_are_in_the_order_of_the_file():
    first, *others = readings(library()["attention"])
    assert "is true where a query may see a key" in first.says
    assert any(("key_padding_mask" in names) for one in others for names in one.parameters)
    assert [] == readings(library()["alibi_slopes"])


def test_gradients_have_the_readings_of_their_operator_too_as_far_as_they_take_the_same():
    own = [one.says for one in readings(library()["attention_gradient"])]
    assert "is the output of the forward pass" == own[0]
    assert "is true for padding, [batch, k_len]" in own
    tables = [
        one for one in readings(library()["rotary_gradient"]) if ("cos", "freqs_cos", "cos_table") in one.parameters
    ]
    assert tables
    assert ["weight"] == [one.lacking for one in readings(library()["rms_norm_gradient"]) if one.lacking]
    assert not [one for one in readings(library()["layer_norm_gradient"]) if one.lacking == "bias"]  # which it has not


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The mask is aligned to the bottom-right corner.", "bottom_right"),
        ("Causal from the upper left.", "top_left"),
        ("Bottom right, or top left with old=True.", ""),
        ("Nothing.", ""),
    ],
)
def test_documentation_may_say_one_word_of_a_convention(text, word):
    expected = {"causal_alignment": word} if word else {}
    assert expected == documented(library()["attention"], text)
    assert expected == documented(library()["attention_gradient"], text)
    assert {} == documented(library()["softmax"], text)


def test_words_in_names_say_one_operator_each():
    assert ("moe_routing", "merge_states") == (called()["router"], called()["merge_state"])
    assert sorted({*called().values()}) == [name for name in described() if words(name).called]
    assert "top_k" in words("moe_routing").names["k"]


def test_functions_of_an_operator_may_have_the_name_of_another():
    assert ("gated_activation",) == namesakes("swiglu")
    assert () == namesakes("gated_activation")


def test_what_functions_call_an_input_alone_or_among_others_is_known():
    found = called_so(library()["multi_head"], ["wq", "wo"])
    assert {"wq", "w_q", "q_proj", "in_proj_weight", "out_proj"} <= found
    assert not {"x", "key", "value"} & found


def test_an_option_of_one_value_may_have_several():
    first = readings(library()["moe_routing"])[0]
    assert (("false", "true"), ("topk_weights", "topk_ids")) == (first.fixed["renormalise"], first.returns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("operator: attention\nreadings: []", "readings"),
        ("operator: atention\nreadings: [{says: x, named: [y]}]", "operator: the file is called 'attention'"),
        ("operator: attention\nreadings: [{says: x}]", "a reading has parameters, or says"),
        ("operator: attention\nreadings: [{says: x, parameters: {m: maks}}]", "parameters.m: unknown name 'maks'"),
        (
            "operator: attention\nreadings: [{says: x, parameters: {m: '{out: lse}'}}]",
            "what is read is computed or text",
        ),
        ("operator: attention\nreadings: [{says: x, parameters: {m: out}}]", "parameters.m: unknown name 'out'"),
        ("operator: attention\nreadings: [{says: x, named: [y], shown: [k]}]", "shown: attention does not"),
        (
            "operator: attention\nreadings: [{says: x, conventions: {grouping: tailed}}]",
            "attention has no convention 'grouping' with the word 'tailed'",
        ),
        ("operator: attention\nreadings: [{says: x, named: [y], fixed: {casual: 'true'}}]", "no option 'casual'"),
        (
            "operator: attention\nreadings: [{says: x, named: [y], fixed: {causal: [no_word, 'true']}}]",
            "fixed: unknown",
        ),
        (
            "operator: attention\nreadings: [{says: x, returns: [p], outputs: {outs: p}}]",
            "attention has no output 'outs'",
        ),
        ("operator: attention\ncalled: [router]", "called: 'router' says 'moe_routing'"),
        ("operator: attention\ncalled: [softmax]", "called: 'softmax' says 'softmax'"),
        ("operator: attention\nalso: [attention]", "also: no other operator is 'attention'"),
        ("operator: attention\nalso: [softmaks]", "also: no other operator is 'softmaks'; did you mean 'softmax'"),
        ("operator: attention\nnames: {scal: factor}", "names: attention has no input or option 'scal'"),
        ("operator: attention\nnames: {scale: causal}", "names.scale: attention has 'causal' itself"),
        ("operator: attention\nlimits: [heeds == 1]", "limits: unknown name 'heeds'"),
        (
            "operator: attention\nsays: {causal_alignment: {bottom_right: [lower right], left: [upper left]}}",
            "says: attention has no convention causal_alignment = left",
        ),
        (
            "operator: attention\nbeside: {operator: rotary_pear, parameters: {q: q}, returns: [q_out]}",
            "beside: no other operator is 'rotary_pear'; did you mean 'rotary_pair'?",
        ),
        (
            "operator: attention\nbeside: {operator: rotary_pair, parameters: {q: v}, returns: [q_out]}",
            "beside: unknown name 'v'",
        ),
        (
            "operator: attention\nbeside: {operator: rotary_pair, parameters: {q: q}, returns: [out]}",
            "beside: rotary_pair has no output 'out'",
        ),
        (
            "operator: attention\n"
            "beside: {operator: rotary_pair, parameters: {q: q}, fixed: {k: 'true'}, returns: [q_out]}",
            "beside: rotary_pair has no option 'k'",
        ),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path, text, says):
    (tmp_path / "attention.yaml").write_text(text)
    found = [str(fault) for fault in faults(library(), tmp_path)]
    assert len(found) == 1
    assert says in found[0]


def known_in(mechanism):
    """What is known of a case that has no optional input and no option."""
    own = {name: x for name, x in mechanism.defaults.items() if name in mechanism.takes}
    case = Case(mechanism.name, "lacking", seed_of(0, "lacking"), own)
    return Frame(mechanism, {**mechanism.defaults, **Sample(mechanism, case, "float32").values})


@pytest.mark.parametrize("operator", [name for name in described() if not library()[name].gradient_of])
def test_what_a_function_asks_for_that_a_call_may_lack_can_be_passed(operator):
    mechanism = library()[operator]
    lacking = [text for one in readings(mechanism) if one.absent for text in one.parameters.values()]
    for part in (part for text in lacking for part in expressions_in(text)):
        with np.errstate(all="ignore"), budget.metered():
            assert plain_value(compiled(mechanism, part)(known_in(mechanism))) is not None, part
