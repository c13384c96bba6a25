"""Forms: a call of an operator is arranged for a function, and what comes back is restored."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.errors import TargetError, UsageError
from attnspec.execution.calling import Call, Reply
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.signatures import signatures
from attnspec.subjects.forms import form_in
from attnspec.subjects.taken import layout_parts
from attnspec.subjects.targets import subject

ATTENTION = library()["attention"]
CALL = Call(
    {"q": np.ones((2, 4, 5, 8)), "k": np.ones((2, 2, 7, 8)), "v": np.ones((2, 2, 7, 3))}, {"causal": True}, "float32"
)


def test_a_function_sees_the_arrays_in_its_layout_and_its_results_are_restored():
    seen = []

    def make(call):
        seen.append(call)
        return Reply({"out": np.zeros((2, 5, 4, 3))})

    reply = form_in(ATTENTION, "bshd", "").called(make, CALL)
    assert {"q": (2, 5, 4, 8), "k": (2, 7, 2, 8), "v": (2, 7, 2, 3)} == {n: x.shape for n, x in seen[0].inputs.items()}
    assert ({"causal": True}, (2, 4, 5, 3)) == (seen[0].options, reply.outputs["out"].shape)


def test_the_dtypes_of_inputs_go_with_the_arrays_that_they_are_in():
    call = replace(CALL, inputs={**CALL.inputs, "v": np.ones((2, 2, 7, 8))}, dtypes={"k": "int8", "v": "int8"})
    assert "int8" == form_in(ATTENTION, "kv", "").arranged(call).dtypes["kv"]
    fault = form_in(ATTENTION, "kv", "").called(lambda call: Reply(), replace(call, dtypes={"k": "int8"})).fault
    assert fault is not None
    assert "kv has one dtype, and its parts have several" == fault.says


def test_a_call_in_the_layout_of_the_operator_is_handed_on_as_it_is():
    seen = []
    form_in(ATTENTION, "", "").called(lambda call: seen.append(call) or Reply(), CALL)
    assert seen[0] is CALL


def test_a_call_without_room_is_not_supported():
    reply = form_in(ATTENTION, "qkv", "").called(lambda call: Reply(), CALL)
    assert "unsupported" == reply.fault.kind


def test_a_result_of_another_shape_is_told_in_the_layout_of_the_function():
    reply = form_in(ATTENTION, "bshd", "").called(lambda call: Reply({"out": np.zeros((2, 5))}), CALL)
    assert ("misshapen", {}) == (reply.fault.kind, reply.outputs)
    assert "out has the shape [2, 5], which does not have the 4 axes of its layout" == reply.fault.says


@pytest.mark.parametrize(
    ("operator", "layout", "words"),
    [
        ("attention", "bshd", "[batch, length, heads, dim]"),
        ("attention", "bhsd_bshd", "[batch, heads, length, dim] and returns [batch, length, heads, dim]"),
        ("attention", "qkv", "qkv as [batch, length, 3, heads, dim]"),
        ("paged_attention", "hnd", "key_pages as [pages, heads, page_size, dim]"),
    ],
)
def test_a_form_is_told_by_the_first_array_that_differs(operator, layout, words):
    assert words == form_in(library()[operator], layout, "").in_words()


@pytest.mark.parametrize(
    ("operator", "layout", "says"),
    [
        ("attention", "bsh", r"kernel: attention has no layout 'bsh'; did you mean 'bs.d'\? \(its layouts: bhsd, bshd"),
        ("top_k_filter", "bshd", r"kernel: top_k_filter has no layout 'bshd'; it has one layout only"),
    ],
)
def test_an_unknown_layout_is_refused_with_those_that_there_are(operator, layout, says):
    with pytest.raises(UsageError, match=says):
        form_in(library()[operator], layout, "kernel: ")


def dummy(one, m):
    """A function with all parameters of an interface, each with a default but the arrays of every call."""
    kinds = inspect.Parameter
    needed = layout_parts(one, m)
    parameters = [
        kinds(name, kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if name in needed else None)
        for name in sorted(one.parameters, key=lambda name: name not in needed)
    ]

    def function(*arguments, **keywords):
        raise AssertionError

    function.__signature__ = inspect.Signature(parameters)
    return function


@pytest.mark.parametrize("name", signatures())
def test_a_call_is_arranged_for_every_known_interface(name):
    one = signatures()[name]
    m = library()[one.operator]
    own = subject(Adapter("mine", "", dummy(one, m), "numpy", like=name))
    sample = next(sample for sample in plan(m, own.claims, PROFILES["quick"], 0, "float32").scenarios)
    wanted = {n: sample.values[n] for n in m.options if n not in m.defaults}
    call = Call({n: sample.values[n] for n in m.required}, wanted, "float32")
    made = own.form.arranged(call)
    assert {*made.inputs, *made.options} <= {*one.parameters}
    arrays = own.form.layout.arranged(call.inputs)
    for parameter, array in own.form.taken.arrays.items():
        if array in arrays:
            assert arrays[array].shape == made.inputs[parameter].shape


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ({}, {"causal": False, "window_size": (-1, -1), "softcap": 0.0}),
        ({"window_left": 3, "causal": True}, {"causal": True, "window_size": (3, -1), "softcap": 0.0}),
        ({"scale": 0.5}, {"causal": False, "window_size": (-1, -1), "softcap": 0.0, "softmax_scale": 0.5}),
    ],
)
def test_options_are_passed_as_the_interface_has_them(options, passed):
    own = subject(
        Adapter("mine", "", dummy(signatures()["flash_attn_func"], ATTENTION), "numpy", like="flash_attn_func")
    )
    assert passed == own.form.arranged(replace(CALL, options=options)).options


def test_an_option_with_words_is_passed_as_its_text():
    one, m = signatures()["kl_div"], library()["distillation_loss"]
    own = subject(Adapter("mine", "", dummy(one, m), "numpy", like="kl_div"))
    x = np.ones((2, 3))
    made = own.form.arranged(Call({"log_probs": x, "teacher": x}, {"reduction": "mean"}, "float32"))
    assert {"reduction": "mean", "log_target": True} == dict(made.options)
    made = own.form.arranged(Call({"log_probs": x, "teacher": x}, {}, "float32"))
    assert "batchmean" == made.options["reduction"]


def test_running_sums_are_made_of_lengths():
    one, m = signatures()["flash_attn_varlen_func"], library()["packed_attention"]
    own = subject(Adapter("mine", "", dummy(one, m), "numpy", like=one.name))
    x = np.ones((5, 2, 4))
    lens = {"q_lens": np.array([2, 0, 3]), "k_lens": np.array([1, 4, 0])}
    made = own.form.arranged(Call({"q": x, "k": x, "v": x, **lens}, {}, "float32"))
    assert ([0, 2, 2, 5], [0, 1, 5, 5]) == (made.inputs["cu_seqlens_q"].tolist(), made.inputs["cu_seqlens_k"].tolist())
    assert (3, 4) == (made.options["max_seqlen_q"], made.options["max_seqlen_k"])


def test_slots_are_for_functions_that_are_told_how_much_of_them_is_used():
    def told(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None):
        return q

    def untold(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k):
        return q

    one, other = (subject(Adapter("mine", "", f, "numpy", like="flash_attn_varlen_func")) for f in (told, untold))
    assert (True, False) == tuple({"q_slots", "k_slots"} <= each.claims.names for each in (one, other))
    x, lens = np.ones((5, 2, 4)), {"q_lens": np.array([2, 1]), "k_lens": np.array([1, 3])}
    slots = {"q_slots": np.array([2, 3]), "k_slots": np.array([2, 3])}
    made = one.form.arranged(Call({"q": x, "k": x, "v": x, **lens, **slots}, {}, "float32")).inputs
    assert ([0, 2, 5], [2, 1]) == (made["cu_seqlens_q"].tolist(), made["seqused_q"].tolist())
    plain = one.form.arranged(Call({"q": x[:3], "k": x[:4], "v": x[:4], **lens}, {}, "float32")).inputs
    assert ([0, 2, 3], "seqused_q" in plain) == (plain["cu_seqlens_q"].tolist(), False)


def test_what_a_function_is_to_be_taken_for_has_to_fit():
    with pytest.raises(TargetError, match="flash_attn_func has the parameter 'v', which the function does not have"):
        subject(Adapter("mine", "", lambda q, k: q, "numpy", like="flash_attn_func"))
    with pytest.raises(UsageError, match="flash_attn_func is an interface of attention, and not of softmax"):
        subject(Adapter("mine", "softmax", lambda q, k, v: q, "numpy", like="flash_attn_func"))


def test_a_result_is_read_from_the_parameter_that_it_is_written_to():
    def attention(q, k, v, out):
        out[...] = v.mean(-2, keepdims=True)

    own = subject(Adapter("mine", "attention", attention, "numpy"))
    same = replace(CALL, options={}, inputs={**CALL.inputs, "q": np.ones((2, 2, 5, 8))})
    reply = own.call(same)
    assert ((2, 2, 5, 3), 1.0, ()) == (reply.outputs["out"].shape, reply.outputs["out"].mean(), reply.breaches)


@pytest.mark.parametrize(("in_place", "contracts"), [("x", []), ("", ["inputs_unchanged"])])
def test_an_input_changes_only_where_that_is_declared(in_place, contracts):
    def softmax(x):
        x[...] = 1.0

    own = subject(Adapter("mine", "softmax", softmax, "numpy", in_place=in_place))
    reply = own.call(Call({"x": np.zeros((2, 3))}, {}, "float32"))
    assert contracts == [breach.contract for breach in reply.breaches]
    assert ("p" in reply.outputs) == bool(in_place)


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        ({"topk_weights": [[0.75, 0.25]], "topk_ids": [[2, 0]]}, ""),
        ({"topk_weights": [[0.75, 0.25]], "topk_ids": [[2, 0, 1]]}, "misshapen"),
        ({"topk_weights": [[0.75, 0.25]]}, "returned"),
    ],
)
def test_an_output_is_assembled_from_what_is_returned(returned, kind):
    def fused_topk(hidden_states, gating_output, topk, renormalize):
        return gating_output, topk

    own = subject(Adapter("mine", "", fused_topk, "numpy", like="fused_topk"))
    asked = Call({"logits": np.ones((1, 3))}, {"k": 2}, "float32")
    reply = own.form.restored(Reply({name: np.array(x) for name, x in returned.items()}), asked)
    if kind:
        assert (kind, {}) == (reply.fault.kind, reply.outputs)
    else:
        assert {"weights": [[0.25, 0, 0.75]]} == {name: x.tolist() for name, x in reply.outputs.items()}


def test_an_output_that_is_written_has_the_shape_of_the_definition_where_there_are_no_layouts():
    one, m = signatures()["silu_and_mul"], library()["gated_activation"]
    own = subject(Adapter("mine", "", dummy(one, m), "numpy", like=one.name))
    assert (2, 3, 5) == own.form.arranged(Call({"x": np.ones((2, 3, 10))}, {}, "float32")).inputs["out"].shape
    refused = own.form.arranged(Call({"x": np.ones((2, 0))}, {}, "float32"))
    assert (2, 0) == refused.inputs["out"].shape
