"""Dropout: its definition in closed form, faulty implementations found, right ones left alone."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

X = np.linspace(-3, 3, 6000).reshape(2, 30, 100)


def bad(function, laws=None, dtype="float32", **declared):
    one = subject(Adapter("function", "dropout", function, "torch", dtypes=(dtype,), **declared))
    cells = run(Request(one, library()["dropout"], dtype, PROFILES["quick"], laws=laws)).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


# What the definition says


def defined(x, **options):
    return Frame(library()["dropout"], {"x": x, **options}).outputs()["out"]


@pytest.mark.parametrize("witness", [defined, reference.dropout])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5])
def test_what_is_kept_is_divided_by_the_share_that_is(p, witness):
    y = witness(X, p=p, seed=3, training=True)
    kept = y != 0
    np.testing.assert_array_equal((X / (1 - p))[kept], y[kept])
    assert abs(np.mean(~kept) - p) < 6 * np.sqrt(p * (1 - p) / X.size) + 1e-12


@pytest.mark.parametrize("witness", [defined, reference.dropout])
def test_outside_training_nothing_changes(witness):
    np.testing.assert_array_equal(X, witness(X, p=0.5, seed=3, training=False))


# Implementations


def uniform(shape, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def right(x, *, p, seed, training=True):
    if not training:
        return x.clone()
    return torch.where(uniform(x.shape, seed) < p, 0.0, x.float() / (1 - p)).to(x.dtype)


def factor_in_the_dtype(x, *, p, seed, training=True):
    """As torch has it: the mask carries the factor, in the dtype of the input."""
    if not training or p == 0:
        return x.clone()
    if p == 1:
        return torch.zeros_like(x)
    return x * (uniform(x.shape, seed) >= p).to(x.dtype).div_(1 - p)


def module(x, *, p, seed, training=True):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Dropout(p).train(training)(x).clone()


@pytest.mark.parametrize(
    ("function", "dtype", "grade"),
    [
        (right, "float32", "fp32"),
        (right, "bfloat16", "bf16"),
        (factor_in_the_dtype, "bfloat16", "bf16_naive"),
        (module, "float32", "fp32"),
    ],
)
def test_right_implementations_break_nothing(function, dtype, grade):
    assert set() == bad(function, dtype=dtype, grade=grade)


def unscaled(x, *, p, seed, training=True):
    return torch.where(uniform(x.shape, seed) < p, 0.0, x) if training else x.clone()


def share_that_is_kept(x, *, p, seed, training=True):
    return torch.where(uniform(x.shape, seed) < p, x / p, 0.0) if training and p else x.clone()


def always_in_training(x, *, p, seed, training=True):
    return right(x, p=p, seed=seed)


def scaled_in_evaluation(x, *, p, seed, training=True):
    return unscaled(x, p=p, seed=seed) if training else x * (1 - p)


def mask_without_batch(x, *, p, seed, training=True):
    kept = uniform(x.shape[1:], seed) >= p
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def mask_of_rows(x, *, p, seed, training=True):
    kept = uniform((*x.shape[:-1], 1), seed) >= p
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def mask_of_columns(x, *, p, seed, training=True):
    kept = uniform((*x.shape[:-2], 1, x.shape[-1]), seed) >= p
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def mask_in_blocks(x, *, p, seed, training=True):
    kept = uniform((1024,), seed).repeat(-(-x.numel() // 1024))[: x.numel()].reshape(x.shape) >= p
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def mask_by_small_seeds(x, *, p, seed, training=True):
    return right(x, p=p, seed=seed & 0xFF, training=training)


def tail_kept(x, *, p, seed, training=True):
    kept = (uniform(x.shape, seed) >= p) | (torch.arange(x.shape[-1]) >= x.shape[-1] // 32 * 32)
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def whole_numbers_of_a_byte(x, *, p, seed, training=True):
    kept = uniform(x.shape, seed) >= round(p * 8) / 8
    return torch.where(kept, x / (1 - p), 0.0) if training else x.clone()


def unseeded(x, *, p, seed, training=True):
    return torch.nn.functional.dropout(x, p, training).clone()


def in_place(x, *, p, seed, training=True):
    return x.mul_((uniform(x.shape, seed) >= p) / (1 - p)) if training else x.clone()


FAULTY = [
    (unscaled, "two_values"),
    (share_that_is_kept, "two_values"),
    (always_in_training, "evaluation"),
    (scaled_in_evaluation, "evaluation"),
    (mask_without_batch, "items_apart"),
    (mask_of_rows, "columns_apart"),
    (mask_of_columns, "rows_apart"),
    (mask_in_blocks, "any_distance_apart"),
    (mask_by_small_seeds, "other_seed"),
    (tail_kept, "rate_of_columns"),
    (whole_numbers_of_a_byte, "rate"),
    (unseeded, "contract.repeatable"),
    (in_place, "contract.inputs_unchanged"),
]


@pytest.mark.parametrize(("function", "law"), FAULTY)
def test_a_faulty_implementation_breaks_the_law_that_is_about_its_fault(function, law):
    assert law in bad(function, {law, "two_values"})
