"""Under which condition a kernel is wrong is found from its cases, and tested on both sides."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.candidates import stock
from attnspec.diagnosis.conditions import Condition, Fit, Literal
from attnspec.diagnosis.facts import Facts
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.parting import Point
from attnspec.diagnosis.phrases import counted, where
from attnspec.diagnosis.separation import Separation, separated
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, definition_law
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

FOLLOWS = {"empty_row": "zeros", "causal_alignment": "bottom_right"}


def kernel(change, dtypes):
    """Attention whose options, or whose result, a fault changes."""

    def attention(
        q, k, v, *, mask=None, bias=None, causal=False, scale=None, softcap=None, window_left=None, window_right=None
    ):
        o = {
            "mask": mask,
            "bias": bias,
            "causal": causal,
            "scale": scale,
            "softcap": softcap,
            "left": window_left,
            "right": window_right,
        }
        o |= {"factor": 1.0, **change({**o, "q": q, "k": k, "v": v})}
        k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        s = q.float() @ k.mT * (q.shape[-1] ** -0.5 if o["scale"] is None else o["scale"])
        s = s if o["softcap"] is None else o["softcap"] * torch.tanh(s / o["softcap"])
        s = s if o["bias"] is None else s + o["bias"].float()
        row, column = torch.arange(s.shape[-2])[:, None] + s.shape[-1] - s.shape[-2], torch.arange(s.shape[-1])
        seen = torch.ones(s.shape[-2:], dtype=torch.bool)
        seen = seen & (column <= row) if o["causal"] else seen
        seen = seen if o["left"] is None else seen & (row - column <= o["left"])
        seen = seen if o["right"] is None else seen & (column - row <= o["right"])
        seen = seen if o["mask"] is None else seen & o["mask"]
        out = torch.softmax(s.masked_fill(~seen, -torch.inf), -1).nan_to_num(0.0) @ v
        return (out * o["factor"]).to(q.dtype)

    adapter = Adapter("kernel", "attention", attention, "torch", dtypes=dtypes, conventions=FOLLOWS)
    return subject(adapter)


def doubled(condition):
    return lambda o: {"factor": 2.0} if condition(o) else {}


def found(change, mechanism="attention", dtypes=("float32",), dtype=None, *, named=False, **more):
    one = kernel(change, dtypes)
    result = run(Request(one, library()[mechanism], dtype or dtypes[0], PROFILES["quick"], laws={"definition"}))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    observations = observed(result.bench, failure, 0)
    likeness = diagnose(result.bench, failure, 0) if named else None
    return separated(result.bench, failure, result, 0, observations=observations, likeness=likeness, **more)


FAULTS = {
    "causal is ignored unless there is a mask": (
        lambda o: {"causal": False} if o["mask"] is None else {},
        "causal_mask",
        "causal = True and no mask is given",
    ),
    "causal is ignored with a mask": (
        lambda o: {"causal": False} if o["mask"] is not None else {},
        "causal_mask",
        "a mask is given and causal = True",
    ),
    "the window is short in decode": (
        lambda o: {"left": o["left"] - 1} if o["left"] and o["q"].shape[2] == 1 else {},
        "sliding_window",
        "window_left >= 1 and q_len = 1",
    ),
    "33 keys": (doubled(lambda o: o["k"].shape[2] >= 33), "attention", "k_len >= 33"),
    "1025 keys": (doubled(lambda o: o["k"].shape[2] >= 1025), "attention", "k_len >= 1025"),
    "no whole tiles": (doubled(lambda o: o["k"].shape[2] % 16), "attention", "k_len % 16 is not 0"),
    "a short last tile": (doubled(lambda o: 1 <= o["k"].shape[2] % 16 <= 3), "attention", "k_len % 16 is 1 to 3"),
    "groups in decode": (
        doubled(lambda o: o["k"].shape[1] < o["q"].shape[1] and o["q"].shape[2] == 1),
        "grouped_query",
        "kv_heads < heads and q_len = 1",
    ),
    "strides of q": (doubled(lambda o: not o["q"].is_contiguous()), "attention", "q is not contiguous"),
    "a cap with a bias": (
        doubled(lambda o: o["softcap"] is not None and o["bias"] is not None),
        "attention",
        "a bias is given and softcap is given",
    ),
    "values of another size": (
        doubled(lambda o: o["v"].shape[-1] != o["q"].shape[-1]),
        "attention",
        "head_dim is not value_dim",
    ),
    "a negative scale": (
        lambda o: {"scale": -o["scale"]} if (o["scale"] or 0) < 0 else {},
        "attention",
        "scale < 0",
    ),
    "a mask upside down": (
        lambda o: {"mask": ~o["mask"]} if o["mask"] is not None else {},
        "attention",
        "a mask is given",
    ),
    "causal with more keys than queries": (
        doubled(lambda o: o["causal"] and o["q"].shape[2] < o["k"].shape[2]),
        "causal_mask",
        "causal = True and q_len < k_len",
    ),
    "a cap unless there is a bias": (
        doubled(lambda o: o["softcap"] is not None and o["bias"] is None),
        "attention",
        "softcap is given and no bias is given",
    ),
    "the right bound is read beside the causal flag alone": (
        lambda o: {} if o["causal"] else {"right": None},
        "sliding_window",
        "window_right is given and causal = False",
    ),
    "rows of a mask from the twentieth on are not read": (
        lambda o: {"mask": o["mask"] | (torch.arange(o["q"].shape[2])[:, None] >= 19)} if o["mask"] is not None else {},
        "attention",
        "a mask is given and q_len >= 20",
    ),
    "everywhere": (doubled(lambda o: True), "attention", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_condition_of_a_fault_is_found_and_stands(fault):
    change, mechanism, words = FAULTS[fault]
    when = found(change, mechanism)
    assert words == where(when.condition)
    assert 0.8 * when.inside <= when.wrong
    assert when.outside >= 3 or not words


def test_items_but_the_first_are_told_as_places():
    one = kernel(lambda o: {"factor": torch.tensor([1.0] + 2 * [2.0])[: len(o["q"]), None, None, None]}, ("float32",))
    laws = {"definition"}
    result = run(Request(one, library()["attention"], "float32", PROFILES["quick"], laws=laws))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    when = separated(result.bench, failure, result, 0)
    assert ("batch >= 2", "every item but the first") == (where(when.condition), when.at)


def test_a_fault_of_one_dtype_is_told_with_the_others():
    change = doubled(lambda o: o["q"].dtype is torch.bfloat16)
    when = found(change, "alibi", ("float32", "bfloat16"), "bfloat16")
    assert ("float32",) == when.right_in
    assert counted(when).startswith("wrong on nearly every case, in bfloat16 only (")


def test_a_fault_of_every_dtype_is_told_without_them():
    when = found(doubled(lambda o: True), "alibi", ("float32", "bfloat16"))
    assert () == when.right_in


def test_where_there_is_no_time_for_tests_it_is_so_far():
    change = doubled(lambda o: o["k"].shape[2] >= 33)
    when = found(change, deadline=time.monotonic())
    assert not when.tested
    assert "so far" in counted(when)


def test_where_wrong_and_right_lie_without_order_nothing_is_said():
    assert found(doubled(lambda o: sum(map(ord, str(tuple(o["k"].shape)))) % 2)) is None


def test_an_option_that_makes_no_difference_on_a_right_case_does_not_stand_against_a_condition():
    when = found(lambda o: {"causal": False}, "causal_mask")
    assert ("causal = True", when.inside) == (where(when.condition), when.wrong)


def test_a_right_case_that_hides_the_mistake_of_an_option_does_not_stand_against_its_condition(monkeypatch):
    """A high cap that is ignored does not show in bfloat16 where scores are small, or outputs are averages of many."""
    searches = []
    monkeypatch.setattr(Separation, "told", lambda search, fit, tested: searches.append(search))
    found(lambda o: {"softcap": None}, dtypes=("bfloat16",), named=True)
    hiding = [p for p in searches[0].points if not p.wrong and p.facts.options["softcap"] is not None]
    assert len(hiding) > 3
    assert all(p.plain.options["softcap"] is None for p in hiding)


def test_a_right_case_in_which_a_mistake_is_none_hides_nothing():
    """A mask of the first item is the right one where there is one item, which says more than that a mask is given."""
    one = kernel(
        lambda o: {"mask": o["mask"][:1]} if o["mask"] is not None and o["mask"].ndim == 4 else {}, ("float32",)
    )
    result = run(Request(one, library()["attention"], "float32", PROFILES["quick"], laws={"definition"}))
    law = definition_law(result.bench.mechanism)
    search = Separation(result.bench, law, Kind.REFUTED, result, [], 0, None, 1.0)
    search.like = next(c for c in stock(result.bench) if c.name == "attention.mask_of_first_item")
    right = [sample for sample, kind in result.outcomes if kind is Kind.HELD and sample.values["batch"] == 1]
    masked = [sample for sample in right if np.ndim(sample.values["mask"])]
    assert len(masked) > 3
    assert not any(search.hidden(sample, "mask") for sample in masked)


def point(key, *, wrong, mask, k_len):
    facts = Facts({"k_len": k_len, "batch": 2}, {}, {}, {"mask": mask}, {}, "contiguous", "")
    return Point(SimpleNamespace(key=key), wrong, facts, facts)


def test_what_is_needed_for_the_name_is_needed_for_the_condition_if_it_leaves_right_cases_out():
    points = [
        point("a", wrong=True, mask=False, k_len=5),
        point("b", wrong=False, mask=True, k_len=5),
        point("c", wrong=False, mask=False, k_len=2),
    ]
    one = Separation(None, None, None, SimpleNamespace(grades=()), points, 0, None, 1.0)
    long, small, absent = Literal("from", "k_len", 5), Literal("up to", "batch", 2), Literal("absent", "mask")
    fit = Fit(Condition((long, small)), 1, 4.0)
    assert fit is one.with_needed(fit)
    one.needed = Condition((absent,))
    found = one.with_needed(fit)
    assert ("no mask is given and k_len >= 5", 0) == (where(found.condition), found.exceptions)
    one.needed = Condition((Literal("given", "mask"),))
    assert fit is one.with_needed(fit)
