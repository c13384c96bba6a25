"""Sums over letters and shapes that fit: both witnesses against closed forms, right implementations, and wrong ones."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16
from attnspec.subjects.targets import mistake, subject

WORDS = library()["einsum"].vocabulary["equation"]


def failures(function, operator, framework="torch", dtype="float32"):
    one = subject(Adapter("function", operator, function, framework, dtypes=(dtype,)))
    cells = run(Request(one, library()[operator], dtype, PROFILES["quick"])).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


def cases():
    """Whole-number operands for every equation, as the scenarios draw them."""
    claims = mistake("einsum.absolute").claims
    for sample in plan(library()["einsum"], claims, PROFILES["quick"], 0, "float64").scenarios:
        if sample.entries < 2000:
            word = sample.values["equation"]
            yield pytest.param(
                word, np.rint(4 * sample.values["a"]), np.rint(4 * sample.values["b"]), id=sample.case.label
            )


def exactly(equation, a, b):
    """Every product of entries, put where its letters say, in integers."""
    inputs, _, output = equation.partition("->")
    first, second = inputs.split(",")
    output = output or "".join(sorted(x for x in first + second if (first + second).count(x) == 1))
    lengths = {**dict(zip(first, a.shape, strict=True)), **dict(zip(second, b.shape, strict=True))}
    result = np.zeros([lengths[x] for x in output], object)
    for i, x in np.ndenumerate(a):
        at = dict(zip(first, i, strict=True))
        if i != tuple(at[letter] for letter in first):
            continue
        for j, y in np.ndenumerate(b):
            here = {**at, **dict(zip(second, j, strict=True))}
            if i == tuple(here[k] for k in first) and j == tuple(here[k] for k in second):
                result[tuple(here[k] for k in output)] += Fraction(x) * Fraction(y)
    return np.asarray(result, float)


@pytest.mark.parametrize(("word", "a", "b"), [*cases()])
def test_both_witnesses_add_up_the_products_that_an_equation_says(word, a, b):
    if "." in WORDS[word]:
        expected = np.stack([np.stack([exactly("ij,jk->ik", x[0], y) for y in b]) for x in a])
    elif a.size * b.size < 20_000:
        expected = exactly(WORDS[word], a, b)
    else:
        expected = np.einsum(WORDS[word], a, b)
    definition = Frame(library()["einsum"], {"a": a, "b": b, "equation": word}).outputs()["out"]
    assert np.array_equal(expected, definition)
    assert np.array_equal(expected, reference.einsum(a, b, equation=WORDS[word]))


def test_an_implementation_is_passed_the_text_of_an_equation():
    asked = set()

    def einsum(a, b, *, equation):
        asked.add(equation)
        return torch.einsum(equation, a, b)

    assert [] == failures(einsum, "einsum")
    assert set(WORDS.values()) <= asked


def test_the_bound_is_that_of_the_less_accurate_order_of_sums():
    a, b = np.ones((1, 40)), np.where(np.arange(2) == 0, 100.0, -100.0) + np.zeros((40, 2))
    frame = Frame(library()["einsum"], {"a": a, "b": b, "equation": "summed_out"}, grade=BF16, dtype="bfloat16")
    either, at_once, first = (np.max(frame[line].worst) for line in ("out", "out_at_once", "out_first"))
    assert either >= max(at_once, first) > min(at_once, first)


def by_paths(a, b, *, equation):
    return np.einsum(equation, a, b, optimize="greedy")


def through_products(a, b, *, equation):
    """Every letter an axis, multiplied and summed, the sum running backwards."""
    if "..." in equation or "->" not in equation:
        return torch.einsum(equation, a, b)
    inputs, _, output = equation.partition("->")
    first, second = inputs.split(",")
    letters = output + "".join(sorted({*first, *second} - {*output}))
    at = [letters.index(x) for x in first], [letters.index(x) for x in second]
    lengths = dict(zip(first + second, (*a.shape, *b.shape), strict=True))
    if any(lengths[x] != n for x, n in zip(first + second, (*a.shape, *b.shape), strict=True)):
        raise ValueError("lengths differ")
    index = torch.meshgrid(*(torch.arange(lengths[x]) for x in letters), indexing="ij")
    products = a.float()[tuple(index[k] for k in at[0])] * b.float()[tuple(index[k] for k in at[1])]
    inner = tuple(range(len(output), len(letters)))
    return (products.flip(inner).sum(inner) if inner else products).to(a.dtype)


@pytest.mark.parametrize(("function", "framework"), [(by_paths, "numpy"), (through_products, "torch")])
def test_sums_in_other_orders_pass(function, framework):
    assert [] == failures(function, "einsum", framework)


def spelled(change):
    """einsum of an equation with something of it spelled wrongly, where that makes an array of the same shape."""

    def einsum(a, b, *, equation):
        right = torch.einsum(equation, a, b)
        try:
            wrong = torch.einsum(change(equation), a, b)
        except RuntimeError:
            return right
        return wrong if wrong.shape == right.shape else right

    return einsum


def altered(change):
    def einsum(a, b, *, equation):
        return change(torch.einsum(equation, a, b), a, b, equation)

    return einsum


WRONG = {
    "alphabetical output": spelled(
        lambda e: e if "->" not in e else e.split("->")[0] + "->" + "".join(sorted(e.split("->")[1]))
    ),
    "transposed without an arrow": spelled(lambda e: e if "->" in e else f"{e}->ki"),
    "exchanged operands": spelled(lambda e: e.replace("jk,ij", "ij,jk")),
    "second operand as it is": spelled(lambda e: e.replace("kj->ki", "jk->ki")),
    "queries for keys": spelled(lambda e: e.replace("bhqk,bhkd", "bhkq,bhkd")),
    "columns for rows": spelled(lambda e: e.replace("i,ij->ij", "j,ij->ij")),
    "whole for diagonal": altered(lambda y, a, b, e: a.sum() * b if e == "ii,j->j" else y),
    "one term for a sum": altered(lambda y, a, b, e: (a @ b)[:, 0] if e == "ij,jk->i" else y),
    "first of the batch": altered(
        lambda y, a, b, e: torch.einsum(e, a, b[:1].expand_as(b)) if e.startswith("b") else y
    ),
    "stale last column": altered(lambda y, a, b, e: y * (torch.arange(y.shape[-1]) < 512) if y.ndim > 1 else y),
    "half precision": altered(lambda y, a, b, e: torch.einsum(e, a.half(), b.half()).to(a.dtype)),
    "products in half": altered(lambda y, a, b, e: y.half().to(a.dtype)),
}


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_wrong_sums_are_found(function):
    assert {"definition", "contract.precision"} & set(failures(function, "einsum"))


# Shapes


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        ([3, 1], [4], [3, 4]),
        ([], [], []),
        ([], [2, 0], [2, 0]),
        ([1, 0], [5, 1], [5, 0]),
        ([7, 1, 3], [1, 2, 1], [7, 2, 3]),
    ],
)
def test_both_witnesses_broadcast_shapes(first, second, shape):
    first, second = np.array(first, np.int64), np.array(second, np.int64)
    assert shape == Frame(library()["broadcast_shapes"], {"first": first, "second": second}).outputs()["shape"].tolist()
    assert shape == reference.broadcast_shapes(first, second).tolist()


@pytest.mark.parametrize(("first", "second"), [([2], [3]), ([0], [2]), ([-1], [1]), ([4, 2], [3, 1, 3])])
def test_the_reference_refuses_shapes_that_do_not_fit(first, second):
    with pytest.raises(ValueError, match="length"):
        reference.broadcast_shapes(np.array(first), np.array(second))


def filled(first, second, ones=np.ones):
    rank = max(len(first), len(second))
    return (np.concatenate([ones(rank - len(s), np.int64), s]).astype(np.int64) for s in (first, second))


def fitting(first, second):
    a, b = filled(first, second)
    if np.any((a != b) & (a != 1) & (b != 1)):
        raise ValueError("these do not fit")
    return np.where(a == 1, b, a)


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (fitting, set()),
        (lambda first, second: np.array(np.broadcast_shapes(first, second), np.int32), set()),
        (lambda first, second: fitting(first, second)[::-1].copy(), {"definition"}),
        (lambda first, second: np.maximum(*filled(first, second)), {"definition"}),
        (lambda first, second: np.where((a := [*filled(first, second)])[0] == 1, a[1], a[0]), {"other_lengths"}),
        (lambda first, second: fitting(first, second)[-6:].copy(), {"definition"}),
        (lambda first, second: fitting(first, second).astype(np.float32), {"contract.dtype"}),
        (lambda first, second: np.maximum(fitting(first, second), 1), {"definition"}),
    ],
)
def test_shapes_are_told_apart(function, wrong):
    def broadcast_shapes(first, second):
        return function(first, second)

    found = set(failures(broadcast_shapes, "broadcast_shapes", "numpy"))
    assert wrong <= found
    assert bool(wrong) == bool(found)
