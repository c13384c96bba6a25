"""Cross-entropy: both witnesses against fifty digits, faults as people make them, and what is right."""

import math

import mpmath
import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["cross_entropy"], values).outputs()["loss"],
    "reference": lambda **values: reference.cross_entropy(**values)["loss"],
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
LOGITS = 3 * np.sin(1.7 * np.arange(1, 21)).reshape(4, 5)
TARGETS = np.array([2, -1, 0, 4])


def exact(*, smoothing=0.0, cap=None, z=0.0):
    """The losses of the tokens, zero for the ignored one, with fifty digits."""
    with mpmath.workdps(50):
        losses = []
        for row, y in zip(LOGITS, TARGETS, strict=True):
            x = [mpmath.mpf(t) if cap is None else cap * mpmath.tanh(mpmath.mpf(t) / cap) for t in row]
            total = mpmath.log(sum(map(mpmath.exp, x)))
            own = (1 - smoothing) * (total - x[y]) + smoothing * sum(total - t for t in x) / len(x)
            losses.append(float(own + z * total**2) if y >= 0 else 0.0)
    return np.array(losses)


@witnesses
@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, {}),
        ({"label_smoothing": 0.2}, {"smoothing": 0.2}),
        ({"softcap": 2.0}, {"cap": 2}),
        ({"z_loss": 0.5}, {"z": 0.5}),
        ({"label_smoothing": 0.2, "softcap": 2.0, "z_loss": 0.5}, {"smoothing": 0.2, "cap": 2, "z": 0.5}),
    ],
)
def test_the_losses_of_tokens_add_up_and_are_averaged_over_those_that_count(witness, options, changed):
    losses = exact(**changed)
    for word, expected in (("each", losses), ("summed", losses.sum()), ("averaged", losses.sum() / 3)):
        found = witness(logits=LOGITS, targets=TARGETS, ignore_index=-1, reduction=word, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@witnesses
@pytest.mark.parametrize(("word", "expected"), [("nans", math.nan), ("zeros", 0.0)])
def test_the_mean_over_no_tokens_is_what_the_convention_says(witness, word, expected):
    given = {"logits": LOGITS, "targets": np.full(4, -100), "no_tokens_left": word}
    np.testing.assert_equal(float(witness(**given)), expected)


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize(
    "witness", [lambda **values: Frame(library()["cross_entropy"], values).outputs(), reference.cross_entropy]
)
def test_the_logsumexp_is_that_of_the_capped_logits_whatever_the_loss_adds(witness, cap):
    with mpmath.workdps(50):
        rows = [
            [mpmath.mpf(t) if cap is None else cap * mpmath.tanh(mpmath.mpf(t) / cap) for t in row] for row in LOGITS
        ]
        expected = np.array([float(mpmath.log(sum(map(mpmath.exp, row)))) for row in rows])
    more = {"ignore_index": -1, "label_smoothing": 0.2, "z_loss": 0.5, "reduction": "summed", "softcap": cap}
    found = np.asarray(witness(logits=LOGITS, targets=TARGETS, **more)["lse"])
    np.testing.assert_allclose(found[TARGETS >= 0], expected[TARGETS >= 0], rtol=1e-12)


def test_the_reference_refuses_what_is_outside_the_domain():
    with pytest.raises(ValueError, match="every token has a target"):
        reference.cross_entropy(LOGITS, TARGETS[:-1])


def failures(**changed):
    def cross_entropy(logits, targets, *, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
        given = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": reduction}
        given = {name: changed[name](x) if name in changed else x for name, x in given.items()}
        return torch.nn.functional.cross_entropy(logits, targets, **given)

    words, laws = {"no_tokens_left": "nans"}, frozenset({"definition"}) if changed else None
    one = subject(Adapter("function", "cross_entropy", cross_entropy, "torch", conventions=words))
    cells = run(
        Request(one, library()["cross_entropy"], "float32", PROFILES["quick"], laws=laws, first=bool(changed))
    ).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("ignore_index", lambda i: -100),
        ("label_smoothing", lambda s: 0.0),
        ("label_smoothing", lambda s: s / 2),
        ("reduction", lambda r: "mean" if r == "sum" else r),
    ],
)
def test_options_that_are_taken_wrongly_are_found(name, to):
    assert "definition" in failures(**{name: to})


def test_what_is_right_passes():
    assert set() == failures()


def with_logsumexp(returned):
    """torch's loss of each token, and a logsumexp or what is returned for it."""

    def cross_entropy(logits, targets, *, ignore_index=-100, reduction="mean"):
        x = logits.float()
        each = torch.nn.functional.cross_entropy(x, targets, ignore_index=ignore_index, reduction="none")
        loss = torch.nn.functional.cross_entropy(x, targets, ignore_index=ignore_index, reduction=reduction)
        return loss, returned(x, each)

    return cross_entropy


@pytest.mark.parametrize(
    ("returned", "name"),
    [
        (lambda x, each: x.logsumexp(1), ""),
        (lambda x, each: each, "loss_for_logsumexp"),
        (lambda x, each: (x - x.amax(1, keepdim=True)).exp().sum(1).log(), "logsumexp_without_maximum"),
        (lambda x, each: 0 * each, "penalty_for_logsumexp"),
    ],
)
def test_what_is_returned_for_the_logsumexp_is_named(returned, name):
    report = attnspec.check(
        with_logsumexp(returned),
        operator="cross_entropy",
        framework="torch",
        laws=("cross_entropy.definition",),
        isolate=False,
        dtypes=("float32",),
    )
    assert (not name) == bool(report)
    assert not name or f"cross_entropy.{name}" in str(report)
