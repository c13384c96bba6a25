"""Gradients of attention to blocks: witnesses against automatic differentiation, and wrong backward passes found."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import adapter, reference
from attnspec.adapters.controls.block_sparse import control_blocks_by_rows
from attnspec.adapters.controls.block_sparse_gradient import control_blocks_by_columns
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

GRADIENT = library()["block_sparse_attention_gradient"]
WITNESSES = {
    "definition": lambda **values: Frame(GRADIENT, values).outputs(),
    "reference": reference.block_sparse_attention_gradient,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
BLOCKS = np.array([[[[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], [[0, 1, 0, 0], [1, 1, 0, 1], [0, 0, 0, 1]]]]) == 1
SIZES = {"q_block_size": 3, "k_block_size": 3}


def drawn():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(1, 2, n, 4)) for name, n in (("q", 7), ("k", 10), ("v", 10), ("d_out", 7))}


def attended(q, k, v, causal, left):
    """Attention under the mask of the layout, in float64."""
    mask = torch.from_numpy(BLOCKS).repeat_interleave(3, 2).repeat_interleave(3, 3)[:, :, :7, :10]
    back = torch.arange(7)[:, None] + 3 - torch.arange(10)
    mask = mask & ((back >= 0) | (not causal)) & (torch.tensor(True) if left is None else back <= left)
    p = torch.where(mask, torch.exp(q @ k.mT / 2), 0.0)
    return p / p.sum(-1, keepdim=True).clamp(min=1e-300) @ v


@witnesses
@pytest.mark.parametrize(("causal", "left"), [(False, None), (True, None), (True, 4), (False, 1)])
def test_gradients_are_those_of_attention_under_the_mask_of_blocks(witness, causal, left):
    arrays = drawn()
    leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in arrays.items()}
    d_out = leaves.pop("d_out").detach()
    attended(**leaves, causal=causal, left=left).backward(d_out)
    found = witness(**arrays, blocks=BLOCKS, **SIZES, causal=causal, window_left=left)
    for name, x in leaves.items():
        np.testing.assert_allclose(np.asarray(found[f"d_{name}"]), x.grad, rtol=1e-10, atol=1e-13, err_msg=name)


@witnesses
def test_blocks_that_no_query_sees_have_gradients_of_exactly_zero(witness):
    found = witness(**drawn(), blocks=BLOCKS, **SIZES)
    unseen = (found["d_k"][0, 1, 6:9], found["d_v"][0, 1, 6:9], found["d_q"][0, 0, 6:])
    assert [0.0] * 3 == [np.abs(np.asarray(x)).max() for x in unseen]


def test_the_reference_refuses_layouts_that_do_not_cover_the_lengths():
    arrays = {**drawn(), "blocks": BLOCKS[..., :-1]}
    with pytest.raises(ValueError, match="a row for every block"):
        reference.block_sparse_attention_gradient(**arrays, **SIZES)


def wrong_backward(*, layout=True, options=True):
    """Right attention to blocks, whose backward pass is not told of the layout, or of what positions hide."""

    def block_sparse_attention(
        q,
        k,
        v,
        blocks,
        *,
        q_block_size,
        k_block_size,
        scale=None,
        causal=False,
        window_left=None,
        window_right=None,
    ):
        sizes = {"q_block_size": q_block_size, "k_block_size": k_block_size, "scale": scale}
        told = {"causal": causal, "window_left": window_left, "window_right": window_right}

        class Attention(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v):
                ctx.save_for_backward(q, k, v)
                return control_blocks_by_rows(q, k, v, blocks, **sizes, **told)["out"]

            @staticmethod
            def backward(ctx, d_out):
                kept = blocks if layout else torch.ones_like(blocks)
                more = told if options else {}
                found = control_blocks_by_columns(*ctx.saved_tensors, kept, d_out, **sizes, **more)
                return found["d_q"], found["d_k"], found["d_v"]

        return Attention.apply(q, k, v)

    return block_sparse_attention


@pytest.mark.parametrize(
    ("forgotten", "named"),
    [
        ({}, None),
        ({"layout": False}, "block_sparse_attention_gradient.layout_lost"),
        ({"options": False}, "block_sparse_attention_gradient.causal_lost"),
    ],
    ids=["nothing", "layout", "positions"],
)
def test_a_backward_pass_that_is_not_told_what_the_forward_pass_hides_is_found_and_named(forgotten, named):
    laws = ("block_sparse_attention.definition", "block_sparse_attention_gradient.definition")
    declared = {"empty_row": "zeros", "grouping": "block", "causal_alignment": "bottom_right"}
    report = attnspec.check(
        adapter("block_sparse_attention", conventions=declared)(wrong_backward(**forgotten)),
        profile="smoke",
        isolate=False,
        laws=laws,
        dtypes=("float32",),
    )
    verdicts = {line["mechanism"]: line["verdict"] for line in report.lines if line["kind"] == "cell"}
    gradient = "fail" if named else "pass"
    assert {"block_sparse_attention": "pass", "block_sparse_attention_gradient": gradient} == verdicts
    assert named is None or named in str(report)
