"""What is judged beside a call: each contract is broken by what breaks it, and by nothing else."""

import itertools

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter, Unsupported
from attnspec.cases.profiles import PROFILES
from attnspec.execution.calling import Call
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.subject import AdapterSubject

X = np.array([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])


def softmax(x):
    return torch.softmax(x.float(), -1).to(x.dtype)


def subject_of(function, operator="softmax", framework="torch", **declared):
    return AdapterSubject(Adapter("function", operator, function, framework, **declared), library()[operator])


def cells_of(function, operator="softmax", dtype="float32", **declared):
    one = subject_of(function, operator, dtypes=(dtype,), **declared)
    return run(Request(one, library()[operator], dtype, PROFILES["quick"])).cells


def bad(cells):
    return {cell.law for cell in cells if cell.bad}


def changes_after(x):
    y = softmax(x)
    if x.is_contiguous():
        x.mul_(2)
    return y


def in_place(x):
    return x.copy_(softmax(x)) if x.is_contiguous() else softmax(x)


BUFFERS = {}
SCRATCH = torch.empty(1 << 17)


def reuses_its_buffer(x):
    return BUFFERS.setdefault(x.shape, torch.empty(x.shape)).copy_(softmax(x))


TURNS = itertools.count()


def off_by_a_unit_in_turns(x):
    y = softmax(x)
    return torch.nextafter(y, torch.ones(())) if next(TURNS) % 2 else y


BREAKING = {
    "nothing": (softmax, set()),
    "changed afterwards": (changes_after, {"inputs_unchanged"}),
    "in place": (in_place, {"inputs_unchanged", "fresh_output"}),
    "buffer": (reuses_its_buffer, {"fresh_output"}),
    "float64": (lambda x: softmax(x).double(), {"dtype"}),
    "complex": (lambda x: softmax(x).to(torch.complex64), {"dtype"}),
    "one in turns": (off_by_a_unit_in_turns, {"repeatable"}),
}


@pytest.mark.parametrize("case", BREAKING)
def test_right_numbers_break_no_contract_but_their_own(case):
    function, contracts = BREAKING[case]
    assert {f"contract.{name}" for name in contracts} == bad(cells_of(function))


def one_contract(cells, name):
    return next(cell for cell in cells if cell.law == f"contract.{name}")


def test_narrow_inputs_have_narrow_outputs():
    cells = cells_of(lambda x: torch.softmax(x.float(), -1), dtype="bfloat16")
    assert {"contract.dtype"} == bad(cells)
    assert "the output 'p' is float32, not bfloat16" == one_contract(cells, "dtype").says


def test_a_view_of_an_input_is_no_fresh_output():
    def one_key_is_the_answer(q, k, v):
        if k.shape[2] == q.shape[2] == 1 and q.shape[1] == k.shape[1]:
            return v[:, :, :]
        return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v

    cells = cells_of(one_key_is_the_answer, "attention")
    assert {"contract.fresh_output"} == bad(cells)
    assert "the output 'out' shares memory with the input 'v'" == one_contract(cells, "fresh_output").says


HONEST = {
    "a view of fresh memory": lambda x: torch.stack([softmax(x), softmax(x)], -1)[..., 0],
    "a transposed view": lambda x: softmax(x).movedim(0, -1).clone().movedim(-1, 0),
    "fresh memory filled": lambda x: torch.empty_like(x).copy_(softmax(x)),
    "a scratch room that is kept": lambda x: SCRATCH[: x.numel()].view(x.shape).copy_(softmax(x)).clone(),
    "with a gradient": lambda x: softmax(x).requires_grad_(),
    "in a tuple": lambda x: (softmax(x),),
    "by name": lambda x: {"p": softmax(x)},
}


@pytest.mark.parametrize("case", HONEST)
def test_an_honest_subject_is_not_accused(case):
    assert set() == bad(cells_of(HONEST[case]))


def test_unwritten_memory_is_found():
    def leaves_the_first_row(x):
        out = torch.empty_like(x)
        out[1:] = softmax(x)[1:]
        return out

    cells = cells_of(leaves_the_first_row)
    assert {"contract.written"} == {law for law in bad(cells) if law.startswith("contract.")}
    assert "entries of 'p' are not written" == one_contract(cells, "written").says


def rows_that_are_sent(x, chosen, *, experts):
    """Tokens by expert, with memory that nothing was written to behind them."""
    if len(chosen) != len(x) or bool((chosen >= experts).any()):
        raise ValueError("every token has its choices, of experts that there are")
    rows = torch.empty(chosen.numel(), x.shape[1], dtype=x.dtype)
    sources = torch.empty(chosen.numel(), dtype=torch.int64)
    order = chosen.flatten().argsort(stable=True)
    sent = order[chosen.flatten()[order] >= 0]
    sources[: len(sent)] = sent // chosen.shape[1]
    rows[: len(sent)] = x[sources[: len(sent)]]
    return {"rows": rows, "sources": sources}


def test_what_a_definition_leaves_open_need_not_be_written():
    assert set() == bad(cells_of(rows_that_are_sent, "token_permutation"))


def test_what_a_definition_says_is_to_be_written_beside_what_it_leaves_open():
    def without_the_first(x, chosen, *, experts):
        found = rows_that_are_sent(x, chosen, experts=experts)
        return {"rows": torch.cat((torch.empty_like(x[:1]), found["rows"][1:]))}

    assert "contract.written" in bad(cells_of(without_the_first, "token_permutation"))


def test_memory_that_is_kept_from_call_to_call_is_found():
    kept = torch.zeros(1 << 17)

    def does_not_clear_what_lies_behind(x):
        kept[: x.numel()] = x.float().flatten()
        return softmax(x) + (0 * kept[x.numel() :].sum()).to(x.dtype)

    assert "definition" in bad(cells_of(does_not_clear_what_lies_behind))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: softmax(x)[..., 1:], "p has the shape [3, 6], not [3, 7]"),
        (lambda x: softmax(x)[None], "p has the shape [1, 3, 7], not [3, 7]"),
        (lambda x: 1.0, "p has the shape [], not [3, 7]"),
    ],
)
def test_another_shape_breaks_the_contract_of_shapes_alone(function, says):
    cells = cells_of(function)
    assert {"contract.shape"} == {law for law in bad(cells) if law.startswith("contract.")}
    assert [says] * 2 == [cell.says for cell in cells if cell.law in ("definition", "contract.shape")]


def test_a_result_on_another_device_breaks_the_contract_of_devices():
    cells = cells_of(lambda x: softmax(x).to("meta"))
    assert {"contract.device"} == {law for law in bad(cells) if law.startswith("contract.")}
    assert "the output 'p' is on meta, not on cpu" == one_contract(cells, "device").says


@pytest.mark.parametrize(("declared", "level"), [({}, "should"), ({"deterministic": True}, "must")])
def test_who_claims_to_be_deterministic_must_repeat_itself(declared, level):
    cell = one_contract(cells_of(off_by_a_unit_in_turns, **declared), "repeatable")
    assert ("fail", level, "the same call gave a different 'p'") == (cell.verdict, cell.level, cell.says)


def raises(x):
    raise ValueError("no such kernel\nand a second line")


def test_no_contract_is_kept_or_broken_where_nothing_is_returned():
    cells = cells_of(raises)
    assert {"definition"} <= bad(cells)
    assert {"not_tested"} == {cell.verdict for cell in cells if cell.law.startswith("contract.")}


def unsupported(x):
    raise Unsupported("only on Sundays")


def test_a_subject_that_supports_nothing_is_not_accused():
    cells = cells_of(unsupported)
    assert set() == bad(cells)
    assert ("not_declared", "only on Sundays") == (cells[0].verdict, cells[0].says)


def test_a_subject_is_tested_on_what_it_supports():
    def of_two_axes(x):
        if x.ndim != 2:
            raise Unsupported
        return softmax(x)

    cells = cells_of(of_two_axes)
    assert set() == bad(cells)
    assert "pass" == next(cell.verdict for cell in cells if cell.law == "definition")


# Single calls


@pytest.mark.parametrize(
    ("function", "kind", "says"),
    [
        (raises, "raised", "ValueError: no such kernel"),
        (unsupported, "unsupported", "only on Sundays"),
        (lambda x: None, "returned", "returned None, and no 'p'"),
        (lambda x: (), "returned", "returned a tuple, and no 'p'"),
        (lambda x: {}, "returned", "returned a dict, and no 'p'"),
        (lambda x: {"q": x}, "returned", "returned an output 'q'"),
        (lambda x: (x, x), "returned", "returned 2 outputs; softmax has 1: p"),
        (lambda x: "p", "returned", "returned a str as 'p', not an array of torch"),
        (lambda x: x.numpy() * 1, "returned", "returned a ndarray as 'p', not an array of torch"),
        (lambda x: [[1.0]], "returned", "returned a list as 'p', not an array of torch"),
        (lambda x: softmax(x).to_sparse(), "returned", "returned an output that cannot be read: NotImplementedError"),
    ],
)
def test_what_is_no_result_is_named(function, kind, says):
    reply = subject_of(function).call(Call({"x": X}, {}, "float32"))
    assert (kind, says) == (reply.fault.kind, reply.fault.says[: len(says)])
    assert (dict(reply.outputs), reply.breaches) == ({}, ())


def test_an_array_of_text_cannot_be_read():
    fault = subject_of(lambda x: np.array(["p"]), framework="numpy").call(Call({"x": X}, {}, "float32")).fault
    assert "returned an output that cannot be read: ValueError: could not convert string to float" in fault.says


def test_a_misspelt_output_has_a_proposal():
    q = np.zeros((1, 1, 1, 1))
    reply = subject_of(lambda q, k, v: {"outs": q}, "attention").call(Call({"q": q, "k": q, "v": q}, {}, "float32"))
    assert "returned an output 'outs'; did you mean 'out'?" == reply.fault.says


def test_the_trace_ends_where_it_was_raised():
    trace = subject_of(raises).call(Call({"x": X}, {}, "float32")).fault.trace
    assert trace.endswith(
        'raise ValueError("no such kernel\\nand a second line")\nValueError: no such kernel\nand a second line'
    )


@pytest.mark.parametrize("answer", [None, ZeroDivisionError, Unsupported, "sparse"])
def test_who_changes_an_input_spoils_it_for_nobody_else(answer):
    def changes(x):
        x.zero_()
        if isinstance(answer, type):
            raise answer
        return answer and x.to_sparse()

    call = Call({"x": X}, {}, "float32")
    reply = subject_of(changes).call(call)
    assert ["the call changed its input 'x'"] == [breach.says for breach in reply.breaches]
    honest = subject_of(softmax).call(call)
    np.testing.assert_allclose(honest.outputs["p"], np.exp(X) / np.exp(X).sum(-1, keepdims=True), rtol=1e-6)
    assert () == honest.breaches


def test_optional_inputs_and_options_are_passed_by_name():
    def attention(q, k, v, *, mask=None, scale=1.0):
        return torch.full_like(q, mask.sum() + scale)

    q, mask = np.zeros((1, 1, 1, 1)), np.ones((1, 1), bool)
    reply = subject_of(attention, "attention").call(
        Call({"q": q, "k": q, "v": q, "mask": mask}, {"scale": 2.0}, "float32")
    )
    assert 3.0 == reply.outputs["out"].item()
