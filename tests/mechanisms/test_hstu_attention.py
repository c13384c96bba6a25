"""Pointwise attention of HSTU: both witnesses by hand, who sees whom, and functions of its interface."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import hstu as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(**values):
    return np.asarray(Frame(library()["hstu_attention"], values).outputs()["out"])


WITNESS = pytest.mark.parametrize("witness", [defined, reference.hstu_attention])


def silu(x):
    return x / (1 + np.exp(-x))


@WITNESS
@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, ["o....", "oo...", "ooo..", "oooo.", "ooooo"]),
        ({"causal": False}, ["ooooo"] * 5),
        ({"window_left": 1}, ["o....", "oo...", ".oo..", "..oo.", "...oo"]),
        ({"targets": np.array([2])}, ["o....", "oo...", "ooo..", "oooo.", "ooo.o"]),
        ({"targets": np.array([2]), "window_left": 1}, ["o....", "oo...", ".oo..", "..oo.", "..o.o"]),
        ({"context": 2}, ["ooooo", "ooooo", "ooo..", "oooo.", "ooooo"]),
        ({"context": 2, "targets": np.array([1])}, ["oooo.", "oooo.", "ooo..", "oooo.", "ooooo"]),
        ({"context": 2, "window_left": 1}, ["ooooo", "ooooo", "ooo..", "..oo.", "...oo"]),
        ({"context": 1, "targets": np.array([1])}, ["oooo.", "oo...", "ooo..", "oooo.", "ooooo"]),
    ],
)
def test_tokens_see_those_that_they_should(witness, options, seen):
    q, k = np.ones((5, 1, 1)), np.ones((5, 1, 1))
    found = witness(q=q, k=k, v=np.eye(5)[:, None], lens=np.array([5]), alpha=1.0, max_len=5, **options)
    assert seen == ["".join("o" if x else "." for x in row) for row in found[:, 0]]


@WITNESS
def test_weights_are_not_normalised_and_divided_by_the_greatest_length(witness):
    q, k = np.array([[[1.0]], [[2.0]], [[3.0]]]), np.array([[[1.0]], [[-1.0]], [[2.0]]])
    found = witness(q=q, k=k, v=np.ones((3, 1, 1)), lens=np.array([2, 1]), alpha=0.5, max_len=8)
    expected = [silu(0.5) / 8, (silu(1.0) + silu(-1.0)) / 8, silu(3.0) / 8]
    np.testing.assert_allclose(found[:, 0, 0], expected, rtol=1e-12)


def test_the_reference_refuses_keys_without_values():
    with pytest.raises(ValueError, match="a value for every key"):
        reference.hstu_attention(np.ones((2, 1, 1)), np.ones((2, 1, 1)), np.ones((1, 1, 1)), [2], alpha=1.0, max_len=2)


def hstu(divided):
    def hstu_mha(
        max_seq_len,
        alpha,
        q,
        k,
        v,
        seq_offsets,
        causal=True,
        dropout_pr=0.0,
        training=True,
        num_targets=None,
        max_attn_len=0,
        contextual_seq_len=0,
    ):
        lens = torch.diff(seq_offsets)
        options = {"causal": causal, "window_left": max_attn_len or None, "context": contextual_seq_len}
        length = max_seq_len if divided else int(lens.max())
        return controls.control_hstu_by_items(q, k, v, lens, num_targets, alpha=alpha, max_len=length, **options)

    return hstu_mha


def test_functions_are_checked_by_the_parameters_of_generative_recommenders():
    def checked(function):
        return attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)

    report = checked(hstu(divided=True))
    assert report.conformant, report
    assert {"hstu_attention", "hstu_attention_gradient"} == {
        cell["operator"] for cell in report.lines if cell["kind"] == "cell"
    }
    assert not checked(hstu(divided=False)).conformant


def test_gradients_are_those_of_the_result():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(6, 2, 3)) for _ in range(3))
    d_out, lens, targets, step = rng.normal(size=(6, 2, 3)), np.array([4, 2]), np.array([2, 0]), 1e-6
    options = {"alpha": 0.7, "max_len": 5, "window_left": 2, "context": 1}
    found = reference.hstu_attention_gradient(q, k, v, lens, d_out, targets, **options)
    for at, x in enumerate((q, k, v)):
        for place in ((0, 0, 1), (3, 1, 2)):
            moved = np.zeros_like(x)
            moved[place] = step
            given = [[*(y + s * moved if n == at else y for n, y in enumerate((q, k, v)))] for s in (1, -1)]
            above, below = (reference.hstu_attention(*arrays, lens, targets, **options) for arrays in given)
            expected = np.sum((above - below) * d_out) / (2 * step)
            np.testing.assert_allclose(found[("d_q", "d_k", "d_v")[at]][place], expected, rtol=1e-6, atol=1e-8)
