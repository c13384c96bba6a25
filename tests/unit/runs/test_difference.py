"""Two implementations against each other, on the same cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnspec.errors import Exit, UsageError
from attnspec.reporting.difference import Pair
from attnspec.runs.difference import differences, exit_of
from attnspec.runs.options import Options

KERNELS = """
import torch


def kernel(q, k, v, causal, softcap, diagonal):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(diagonal)
        scores = scores.masked_fill(~keep, float("-inf"))
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v


def last(q, k):
    return k.shape[2] - q.shape[2]


def attention_bottom(q, k, v, *, causal=False, softcap=None):
    return kernel(q, k, v, causal, softcap, last(q, k))


def attention_top(q, k, v, *, causal=False, softcap=None):
    return kernel(q, k, v, causal, softcap, 0)


def attention_uncapped(q, k, v, *, causal=False):
    return kernel(q, k, v, causal, None, last(q, k))


def attention_next(q, k, v, *, causal=False, softcap=None):
    return kernel(q, k, v, causal, softcap, last(q, k) + 1)


def attention_coarse(q, k, v, *, causal=False, softcap=None):
    return kernel(q, k, v.bfloat16().to(v.dtype), causal, softcap, last(q, k))


def attention_shared(q, k, v, *, causal=False, softcap=None):
    out = kernel(q, k, v, causal, softcap, last(q, k))
    return q.copy_(out) if q.shape == out.shape else out


def attention_swapped(q, k, v, *, causal=False, softcap=None):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return kernel(q, k, v, causal, softcap, last(q, k)).transpose(1, 2)


def attention_unsure(q, k, v, *, causal=False, softcap=None):
    if causal and q.shape[2] > 1:
        raise __import__("attnspec").Unsupported("no causal mask for several queries")
    return kernel(q, k, v, causal, softcap, last(q, k))
"""


@pytest.fixture(scope="module")
def diff(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "kernels.py"
    path.write_text(KERNELS)

    def diff(one: str, other: str, profile: str = "smoke") -> tuple[Pair, Exit]:
        targets = tuple(f"{path}:attention_{name}" for name in (one, other))
        found = differences(Options(targets=targets, mechanisms=("attention",), profile=profile, isolate=False))
        (pair,) = found["pairs"]
        return pair, exit_of(found)

    return diff


def kinds(pair: Pair) -> set[str]:
    """The kinds of differences that were found."""
    names = ("conventions", "lacks", "refusals", "open", "wrong", "contracts")
    return {name for name in names if pair[name]}


def test_a_function_does_what_it_does_itself(diff):
    pair, code = diff("bottom", "bottom")
    assert (set(), "same", Exit.CONFORMANT) == (kinds(pair), pair["verdict"], code)
    assert pair["bits"]["cases"] == pair["bits"]["same"] > 5
    assert pair["sentence"].startswith("attention_bottom (b) does what attention_bottom (a) does: both are right")


def test_another_alignment_is_a_convention_and_no_fault(diff):
    pair, code = diff("bottom", "top", "quick")
    assert ({"conventions"}, Exit.VIOLATED) == (kinds(pair), code)
    (found,) = pair["conventions"]
    assert ("causal_alignment", "bottom_right", "top_left") == (found["convention"], found["a"], found["b"])
    assert ["causal", "q_len != k_len"] == found["where"]["conditions"]
    assert found["witness"]["sizes"]["causal"] is True
    assert sum(found["witness"]["sizes"][name] for name in ("batch", "heads", "q_len", "k_len")) <= 5
    assert found["witness"]["a"] != found["witness"]["b"]


def test_kernels_of_other_layouts_are_compared_in_one(diff):
    pair, code = diff("bottom", "swapped")
    assert (set(), Exit.VIOLATED) == (kinds(pair), code)
    assert pair["a"]["layout"] != pair["b"]["layout"]
    assert pair["bits"]["cases"] == pair["bits"]["same"] > 5


def test_an_option_that_one_lacks_is_no_difference_elsewhere(diff):
    pair, code = diff("bottom", "uncapped")
    assert ({"lacks"}, Exit.VIOLATED) == (kinds(pair), code)
    assert [{"lacks": "b", "what": "softcap"}] == pair["lacks"]
    assert pair["bits"]["cases"] == pair["bits"]["same"]


def test_a_convention_that_no_case_has_shown_is_shown_on_a_scenario(diff):
    pair, _ = diff("top", "bottom")
    (found,) = pair["conventions"]
    assert ("top_left", "bottom_right") == (found["a"], found["b"])
    assert found["witness"]["sizes"]["causal"] is True


def test_where_one_is_wrong_there_are_the_law_and_the_smallest_witness(diff):
    pair, code = diff("bottom", "next", "quick")
    assert ({"wrong"}, Exit.VIOLATED) == (kinds(pair), code)
    (found,) = pair["wrong"]
    assert ("b", "attention.definition") == (found["wrong"], found["law"])
    assert "causal" in found["where"]["conditions"]
    assert (2, 1, True) == tuple(found["sizes"][name] for name in ("q_len", "k_len", "causal"))
    assert found["units"] > 1e3


def test_two_that_are_wrong_alike_do_not_differ(diff):
    pair, code = diff("next", "next", "quick")
    assert (set(), Exit.CONFORMANT, 0) == (kinds(pair), code, pair["both_wrong"])
    assert ["attention.definition"] == pair["broken"]


def test_less_precise_is_told_by_grades_and_errors(diff):
    pair, code = diff("bottom", "coarse")
    assert (set(), Exit.VIOLATED) == (kinds(pair), code)
    (found,) = pair["precision"]
    assert ("fp32", "bf16") == (found["a"], found["b"])
    first, second = found["laws"]["attention.definition"]
    assert first < 1 < second
    assert pair["bits"]["same"] < pair["bits"]["cases"]
    assert pair["bits"]["apart"] < 1


def test_a_contract_that_one_keeps_is_told(diff):
    pair, code = diff("bottom", "shared")
    assert ({"contracts"}, Exit.VIOLATED) == (kinds(pair), code)
    assert {("fresh_output", "a"), ("inputs_unchanged", "a")} == {
        (c["contract"], c["keeps"]) for c in pair["contracts"]
    }


def test_what_one_refuses_in_the_call_is_told(diff):
    pair, code = diff("bottom", "unsure", "quick")
    assert ({"refusals"}, Exit.VIOLATED) == (kinds(pair), code)
    (found,) = pair["refusals"]
    assert ("b", "no causal mask for several queries") == (found["refuses"], found["says"])
    assert "causal" in found["where"]["conditions"]


def test_a_mistake_is_wrong_where_the_reference_is_right():
    asked = Options(targets=("reference", "mistake:softmax.one_less"), dtypes=("float32",), profile="smoke")
    with pytest.raises(UsageError, match="has no mistake"):
        differences(asked)
    asked = Options(targets=("reference", "mistake:softmax.base_two"), dtypes=("float32",), profile="smoke")
    (pair,) = differences(asked)["pairs"]
    assert {"b"} == {found["wrong"] for found in pair["wrong"]}


def test_targets_without_a_common_operator_are_refused():
    with pytest.raises(UsageError, match=r"nothing to compare: torch_sdpa is attention, and mistake.* is softmax"):
        differences(Options(targets=("torch_sdpa", "mistake:softmax.base_two")))


def test_an_operator_that_is_asked_for_has_to_be_common():
    with pytest.raises(UsageError, match="nothing of softmax to compare"):
        differences(Options(targets=("reference", "torch_sdpa"), operator="softmax"))


def test_time_that_is_up_leaves_the_answer_open(tmp_path: Path):
    asked = Options(targets=("reference", "reference"), operator="softmax", dtypes=("float32",), max_time=0.0)
    found = differences(asked)
    assert (["partial"], Exit.NOTHING_TESTED) == ([pair["verdict"] for pair in found["pairs"]], exit_of(found))
