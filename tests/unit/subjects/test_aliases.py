"""What libraries call options: a parameter by such a name is told what the operator calls it."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.subjects.aliases import FURTHER, aliases, meant, untested
from attnspec.subjects.targets import operators

ATTENTION = (*library()["attention"].optional, *library()["attention"].options)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("is_causal", "; did you mean 'causal'?"),
        ("attn_mask", "; did you mean 'mask' or 'bias'?"),
        ("softmax_scale", "; did you mean 'scale'?"),
        ("sm_scale", "; did you mean 'scale'?"),
        ("window_size", "; did you mean 'window_left'?"),
        ("logits_soft_cap", "; did you mean 'softcap'?"),
        ("alibi_slopes", "; did you mean 'bias'?"),
        ("Is_Causal", "; did you mean 'causal'?"),
        ("casual", "; did you mean 'causal'?"),
        ("block_size", ""),
    ],
)
def test_a_name_of_the_field_is_told_what_it_is_called_here(name, hint):
    assert hint == meant(name, ATTENTION)


def test_what_known_interfaces_call_an_option_is_read_from_their_files_alone():
    told = aliases()
    for own, name in (("scale", "softmax_scale"), ("sink", "s_aux"), ("window_left", "window_size"), ("q", "query")):
        assert (True, False) == (name in told[own], name in FURTHER[own].split())
    assert "max_seqlen_q" not in told["q_lens"]


def test_what_an_operator_has_not_is_not_meant():
    assert "; did you mean 'window'?" == meant("window_size", ("window",))
    assert "" == meant("is_causal", ("eps",))


def test_every_name_of_the_table_is_that_of_an_input_or_an_option():
    known = {name for m in operators().values() for name in (*m.inputs, *m.options)}
    assert set() == set(FURTHER) - known


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        ("is_causal", "`is_causal` is not an option: did you mean `causal`? not tested"),
        ("block_size", "`block_size` is not an option: not tested"),
        ("**more", "`**more` accepts any arguments; they are not tested"),
    ],
)
def test_what_is_not_tested_is_said_in_a_sentence(parameter, says):
    assert says == untested(parameter, ATTENTION)
