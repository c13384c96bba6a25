"""Attention to keys of given numbers: both witnesses against attention under a mask, and what goes wrong with it."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.gathered import control_keys_gathered, control_lists_as_mask
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["gathered_attention"], values).outputs(),
    "reference": reference.gathered_attention,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
Q, K, V = (np.sin(by * np.arange(1, 1 + 2 * n * 4)).reshape(1, 2, n, 4) for by, n in ((1.1, 3), (1.7, 7), (0.9, 7)))
SELECTED = np.array([[[[6, -1, 0, 2], [-1, -1, 3, -1], [5, 4, 1, 9]]]])


def mask_of(selected, size, length, last=None):
    mask = np.zeros((1, 1, len(selected[0, 0]), length), bool)
    for row, numbers in enumerate(selected[0, 0].tolist()):
        for number in numbers:
            if number >= 0:
                mask[0, 0, row, number * size : (number + 1) * size] = True
    return mask if last is None else mask & (np.arange(length) <= np.arange(len(mask[0, 0]))[:, None] + last)


@witnesses
@pytest.mark.parametrize(("size", "causal"), [(1, False), (1, True), (3, False), (3, True)])
def test_lists_are_attention_under_their_mask(witness, size, causal):
    found = witness(q=Q, k=K, v=V, selected=SELECTED, block_size=size, causal=causal)
    expected = reference.attention(Q, K, V, mask=mask_of(SELECTED, size, 7, 4 if causal else None))
    np.testing.assert_allclose(np.asarray(found["out"]), expected["out"], rtol=1e-13)
    np.testing.assert_allclose(np.asarray(found["lse"]), expected["lse"], rtol=1e-13)


@witnesses
def test_a_key_that_is_named_twice_has_twice_the_weight_or_once(witness):
    q, k, v = np.zeros((1, 1, 1, 4)), np.ones((1, 1, 2, 4)), np.array([3.0, 6.0]).reshape(1, 1, 2, 1)
    asked = {"q": q, "k": k, "v": v, "selected": np.array([[[[1, 0, 1]]]])}
    assert [5.0, 4.5] == [
        pytest.approx(np.asarray(witness(**asked, repeats=word)["out"]).item()) for word in ("counted", "once")
    ]


GRADIENTS = {
    "definition": lambda **values: Frame(library()["gathered_attention_gradient"], values).outputs(),
    "reference": reference.gathered_attention_gradient,
}


@pytest.mark.parametrize("witness", GRADIENTS.values(), ids=GRADIENTS)
@pytest.mark.parametrize(("size", "causal", "sink"), [(1, False, None), (1, True, [0.5, -2.0]), (3, False, [3.0, 0.0])])
def test_gradients_are_those_of_a_softmax_over_the_keys_of_each_list(witness, size, causal, sink):
    leaves = [torch.from_numpy(x).requires_grad_() for x in (Q, K, V)]
    sinks = None if sink is None else torch.tensor(sink, dtype=torch.float64, requires_grad=True)
    d_out = np.cos(0.7 * np.arange(24)).reshape(1, 2, 3, 4)
    scores = leaves[0] @ leaves[1].mT / 2
    hidden = ~torch.from_numpy(mask_of(SELECTED, size, 7, 4 if causal else None))
    column = torch.full((1, 2, 3, 1), -1e30) if sinks is None else sinks[:, None, None].expand(1, 2, 3, 1)
    p = torch.cat([scores.masked_fill(hidden, -1e30), column.double()], -1).softmax(-1)[..., :7].masked_fill(hidden, 0)
    (p @ leaves[2]).backward(torch.from_numpy(d_out))
    more = {} if sinks is None else {"sink": sinks.detach().numpy()}
    found = witness(q=Q, k=K, v=V, selected=SELECTED, d_out=d_out, block_size=size, causal=causal, **more)
    expected = [x.grad for x in (*leaves, *([] if sinks is None else [sinks]))]
    for name, x in zip(("d_q", "d_k", "d_v", "d_sink"), expected, strict=False):
        np.testing.assert_allclose(np.asarray(found[name]), x, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("shape", [(1, 3, 3, 4), (1, 1, 2, 4), (2, 1, 3, 4)])
def test_the_reference_refuses_lists_that_are_not_those_of_the_queries(shape):
    with pytest.raises(ValueError, match="every query has a list"):
        reference.gathered_attention(Q, K, V, np.zeros(shape, int))


def failures(function, **words):
    one = subject(Adapter("function", "gathered_attention", function, "torch", conventions=words))
    cells = run(Request(one, library()["gathered_attention"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def padding_gathered(q, k, v, selected, **asked):
    return control_keys_gathered(q, k, v, torch.where(selected < 0, k.shape[2] - 1, selected), **asked)["out"]


def first_chunk_of_padding(q, k, v, selected, **asked):
    out, heads = control_keys_gathered(q, k, v, selected, **asked)["out"], q.shape[1] // selected.shape[1]
    empty = (selected[..., :16] < 0).all(-1) & (selected >= 0).any(-1)
    return out.masked_fill(empty.repeat_interleave(heads, 1)[..., None], torch.nan)


@pytest.mark.parametrize("wrong", [padding_gathered, first_chunk_of_padding])
def test_padding_that_is_read_or_makes_nan_is_found(wrong):
    assert "definition" in failures(wrong)


@pytest.mark.parametrize("right", [control_keys_gathered, control_lists_as_mask])
def test_lists_that_are_gathered_and_lists_as_masks_are_right(right):
    assert set() == failures(right)
