"""The ways to read parameters of a plain function are those of its operator whose names it has."""

import attnspec
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.stated import stated
from attnspec.subjects.readings import begun, line_of, ways
from attnspec.subjects.targets import undecorated

ATTENTION = library()["attention"]


def plain(function, operator="attention"):
    return undecorated(function, function.__name__, operator, "torch")


def masked(q, k, v, mask=None):
    """A kernel."""


def padded(q, k, v, lengths):
    """A kernel."""


def causal_kernel(q, k, v):
    """A kernel."""


def noncausal_kernel(q, k, v):
    """A kernel without a mask."""


def test_a_function_is_first_read_as_its_operator_has_it():
    assert [] == begun(plain(masked), ATTENTION)
    assert any("is added to the scores" in way.says for way in ways(plain(masked), ATTENTION))


def test_what_a_function_asks_for_is_passed_from_the_first_call_on():
    adapter = plain(padded)
    (way,) = begun(adapter, ATTENTION)
    assert "`lengths` is the number of keys of each item, [batch]" == way.says
    assert {"mask"} == way.shown
    assert adapter.guessed
    assert adapter.like == line_of(adapter, ATTENTION, [way])
    assert "not causal" in stated(adapter.like).requires


def test_a_function_may_say_by_its_name_what_it_does():
    (way,) = begun(plain(causal_kernel), ATTENTION)
    assert {"causal": "true"} == stated(line_of(plain(causal_kernel), ATTENTION, [way])).fixed
    assert [] == begun(plain(noncausal_kernel), ATTENTION)


def topk_softmax(gating_output, topk):
    """A kernel."""


def capped(q, k, v, softcap):
    """A kernel."""


def capped_or_not(q, k, v, softcap=0.0):
    """A kernel."""


def swiglu(x, alpha, limit):
    """A kernel."""


def test_what_is_returned_is_read_in_one_way_first():
    routing = library()["moe_routing"]
    adapter = plain(topk_softmax, "moe_routing")
    some = begun(adapter, routing)
    assert ("topk_weights", "topk_ids") == stated(line_of(adapter, routing, some)).returns


def test_what_is_of_functions_that_ask_for_a_parameter_is_of_no_other():
    assert any("every call has" in way.says for way in ways(plain(capped), ATTENTION))
    assert not any("every call has" in way.says for way in ways(plain(capped_or_not), ATTENTION))


def test_what_parameters_show_of_an_option_weighs_more_than_a_name():
    gates = library()["gated_activation"]
    adapter = plain(swiglu, "gated_activation")
    known = ways(adapter, gates)
    shown = next(way for way in known if way.parameters and way.fixed.get("order") == "interleaved")
    named = next(way for way in known if way.fixed.get("order") == "gate_first" and not way.parameters)
    for some in ([shown, named], [named, shown]):
        assert "interleaved" == stated(line_of(adapter, gates, some)).fixed["order"]


def test_a_parameter_with_a_default_is_none_in_calls_that_lack_it():
    way = next(way for way in ways(plain(masked), ATTENTION) if "added" in way.says)
    assert way.parameters["mask"].startswith("none if single(mask) and single(bias) else ")


def test_what_a_function_is_said_to_be_like_is_not_guessed():
    adapter = undecorated(attnspec.adapter, "f", "attention", "torch", like="flash_attn_func")
    assert not adapter.guessed


def along(x, dim):
    """A kernel."""


def along_the_last(x, dim=-1):
    """A kernel."""


def test_what_is_asked_for_is_read_where_it_has_no_default():
    softmax = library()["softmax"]
    assert any("is the last axis" in way.says for way in ways(plain(along), softmax))
    assert not any("is the last axis" in way.says for way in ways(plain(along_the_last), softmax))
