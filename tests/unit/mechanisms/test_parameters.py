"""How functions read parameters is data, and what is wrong with it is told with its place."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.mechanisms.parameters import called, described, faults, readings, words


def test_the_shipped_files_have_no_fault():
    assert [] == [*faults(library())]


def test_readings_are_in_the_order_of_the_file():
    first, *others = readings("attention")
    assert "is true where a query may see a key" in first.says
    assert any(("key_padding_mask" in names) for one in others for names in one.parameters)
    assert () == readings("softmax")


def test_words_in_names_say_one_operator_each():
    assert ("moe_routing", "merge_states") == (called()["router"], called()["merge_state"])
    assert sorted({*called().values()}) == [name for name in described() if words(name).called]
    assert "top_k" in words("moe_routing").names["k"]


def test_an_option_of_one_value_may_have_several():
    first = readings("moe_routing")[0]
    assert (("false", "true"), ("topk_weights", "topk_ids")) == (first.fixed["renormalise"], first.returns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("operator: attention\nreadings: []", "readings"),
        ("operator: atention\nreadings: [{says: x, named: [y]}]", "operator: the file is called 'attention'"),
        ("operator: attention\nreadings: [{says: x}]", "a reading has parameters, or says"),
        ("operator: attention\nreadings: [{says: x, parameters: {m: maks}}]", "parameters.m: unknown name 'maks'"),
        ("operator: attention\nreadings: [{says: x, parameters: {m: '{out: lse}'}}]", "what is read is computed"),
        ("operator: attention\nreadings: [{says: x, named: [y], fixed: {casual: 'true'}}]", "no option 'casual'"),
        (
            "operator: attention\nreadings: [{says: x, named: [y], fixed: {causal: [no_word, 'true']}}]",
            "fixed: unknown",
        ),
        (
            "operator: attention\nreadings: [{says: x, returns: [p], outputs: {out: q}}]",
            "outputs.out: unknown name 'q'",
        ),
        ("operator: attention\ncalled: [router]", "called: 'router' says 'moe_routing'"),
        ("operator: attention\ncalled: [softmax]", "called: 'softmax' says 'softmax'"),
        ("operator: attention\nnames: {scal: factor}", "names: attention has no input or option 'scal'"),
        ("operator: attention\nnames: {scale: causal}", "names.scale: attention has 'causal' itself"),
        ("operator: attention\nlimits: [heeds == 1]", "limits: unknown name 'heeds'"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path, text, says):
    (tmp_path / "attention.yaml").write_text(text)
    found = [str(fault) for fault in faults(library(), tmp_path)]
    assert len(found) == 1
    assert says in found[0]
