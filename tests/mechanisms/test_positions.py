"""Rotary, sinusoidal and learned positions: both witnesses against mpmath, right kernels, and wrong ones."""

import math

import mpmath
import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16_NAIVE
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda operator, **values: next(iter(Frame(library()[operator], values).outputs().values())),
    "reference": lambda operator, **values: getattr(reference, operator)(**values),
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)


def failures(function, operator, dtype="float32", framework="torch", laws=None, **declared):
    one = subject(Adapter("function", operator, function, framework, dtypes=(dtype,), **declared))
    cells = run(Request(one, library()[operator], dtype, PROFILES["quick"], laws=laws)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


def angle(position, base, pair, width):
    with mpmath.workdps(40):
        return position * mpmath.mpf(base) ** (mpmath.mpf(-2 * pair) / width)


@witnesses
@pytest.mark.parametrize("position", [1, -3, 2048, 999_999])
@pytest.mark.parametrize(
    ("interleaved", "pairs"), [(False, [(0, 3), (1, 4), (2, 5)]), (True, [(0, 1), (2, 3), (4, 5)])]
)
def test_pairs_turn_by_their_angles(witness, position, interleaved, pairs):
    x = np.array([1.0, -2.0, 0.5, 3.0, 0.25, 1.5, 7.0])
    given = {"base": 100.0, "interleaved": interleaved, "rotary_dim": 6}
    y = witness("rotary", x=x[None, None, None], positions=np.array([position]), **given)[0, 0, 0]
    for i, (m, n) in enumerate(pairs):
        c, s = mpmath.cos(angle(position, 100, i, 6)), mpmath.sin(angle(position, 100, i, 6))
        assert pytest.approx(float(x[m] * c - x[n] * s), abs=1e-9) == y[m]
        assert pytest.approx(float(x[m] * s + x[n] * c), abs=1e-9) == y[n]
    assert 7.0 == y[6]


@witnesses
@pytest.mark.parametrize(
    "words", [{"interleaved": False}, {"interleaved": True}, {"interleaved": True, "pair_place": "parted"}]
)
def test_the_gradient_of_turning_is_its_transpose(witness, words):
    x, d_out = np.random.default_rng(0).normal(size=(2, 1, 2, 3, 8))
    given = {"positions": np.array([3, -1, 40]), "base": 100.0, "rotary_dim": 6, **words}
    columns = [witness("rotary", x=e.reshape(x.shape), **given).ravel() for e in np.eye(x.size)]
    d_x = reference.rotary_gradient(x, d_out=d_out, **given)["d_x"]
    by_definition = Frame(library()["rotary_gradient"], {"x": x, "d_out": d_out, **given}).outputs()["d_x"]
    assert pytest.approx(np.stack(columns) @ d_out.ravel(), abs=1e-12) == d_x.ravel()
    assert pytest.approx(d_x, abs=1e-12) == by_definition


class Rotation(torch.autograd.Function):
    """Pairs of halves turned by tables [length, dim], with a backward pass of its own."""

    sign = -1

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return x * cos + torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1) * sin

    @staticmethod
    def backward(ctx, d):
        cos, sin = ctx.saved_tensors
        swapped = torch.cat((-d[..., d.shape[-1] // 2 :], d[..., : d.shape[-1] // 2]), -1)
        return d * cos + Rotation.sign * swapped * sin, None, None


@pytest.mark.parametrize(("sign", "found"), [(-1, set()), (1, {"rotary_gradient.definition"})])
def test_the_backward_pass_of_a_plain_function_is_checked_with_it(monkeypatch, sign, found):
    def turned(x, positions, *, base=10000.0):
        frequency = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
        angle = (positions[:, None] * frequency).repeat(1, 2)
        return Rotation.apply(x, angle.cos(), angle.sin())

    monkeypatch.setattr(Rotation, "sign", sign)
    report = attnspec.check(turned, operator="rotary", dtypes=["float32"], explain_time=0)
    bad = {f"{cell['mechanism']}.{cell['law']}" for cell in report.cells if cell["verdict"] == "fail"}
    assert found <= bad
    assert bool(found) == bool(bad)


@witnesses
@pytest.mark.parametrize(
    ("words", "columns", "exponents"),
    [
        ({}, "scscsc", [0, 1 / 3, 2 / 3]),
        ({"columns": "sines_first"}, "ssscc" + "c", [0, 1 / 3, 2 / 3]),
        ({"columns": "cosines_first", "spacing": "to_base"}, "cccsss", [0, 1 / 2, 1]),
    ],
)
def test_a_table_has_the_sines_and_cosines_of_its_words(witness, words, columns, exponents):
    table = witness("sinusoidal", length=2, dim=6, base=100.0, offset=5, **words)
    for row, position in zip(table, (5, 6), strict=True):
        met = {"s": 0, "c": 0}
        for kind, y in zip(columns, row, strict=True):
            turn = position / mpmath.mpf(100) ** exponents[met[kind]]
            assert pytest.approx(float(mpmath.sin(turn) if kind == "s" else mpmath.cos(turn)), abs=1e-12) == y
            met[kind] += 1


@witnesses
def test_rows_of_the_table_are_added_from_the_offset_on(witness):
    x, table = np.arange(12.0).reshape(2, 3, 2), 100 * np.arange(10.0).reshape(5, 2)
    assert np.array_equal(x + table[2:], witness("learned_position", x=x, table=table, offset=2))


@pytest.mark.parametrize(
    ("operator", "given"),
    [
        ("rotary", {"x": np.ones((1, 1, 2, 3)), "positions": np.arange(2)}),
        ("rotary", {"x": np.ones((1, 1, 2, 4)), "positions": np.arange(3)}),
        ("rotary", {"x": np.ones((1, 1, 2, 4)), "positions": np.arange(2), "rotary_dim": 6}),
        ("sinusoidal", {"length": 3, "dim": 0}),
        ("learned_position", {"x": np.ones((1, 4, 2)), "table": np.ones((5, 2)), "offset": 2}),
        ("learned_position", {"x": np.ones((1, 4, 2)), "table": np.ones((5, 3))}),
    ],
)
def test_the_reference_refuses_what_is_outside_the_domain(operator, given):
    with pytest.raises(ValueError, match=r"\w"):
        getattr(reference, operator)(**given)


def test_angles_are_never_stored_narrow():
    values = {"x": np.ones((1, 1, 1, 8)), "positions": np.array([4097]), "base": 10000.0}
    frame = Frame(library()["rotary"], values, grade=BF16_NAIVE, dtype="bfloat16")
    assert [True, True, False] == [bool(np.all(frame[line].radius < 0.01)) for line in ("frequency", "angle", "left")]
    assert frame["frequency"].worst[0] < 1e-30  # the first one is 1 in every arithmetic


# Rotary, with parts of which some are exchanged


def frequencies(base, width):
    return 1.0 / base ** (torch.arange(0, width, 2).float() / width)


def angles(positions, frequency, x):
    return torch.outer(positions.float(), frequency)


def split(x, interleaved):
    return (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)


def rotated(a, b, c, s):
    return a * c - b * s, b * c + a * s


def whole(a, b, interleaved):
    return torch.stack((a, b), -1).flatten(-2) if interleaved else torch.cat((a, b), -1)


def width_of(x, rotary_dim):
    return rotary_dim or x.shape[-1]


PARTS = {part.__name__: part for part in (frequencies, angles, split, rotated, whole, width_of)}


def rotary_with(**changed):
    part = {**PARTS, **changed}

    def rotary(x, positions, *, base=10000.0, interleaved=False, rotary_dim=None):
        width = part["width_of"](x, rotary_dim)
        turn = part["angles"](positions, part["frequencies"](base, width), x)
        a, b = part["split"](x[..., :width].float(), interleaved)
        turned = part["whole"](*part["rotated"](a, b, turn.cos(), turn.sin()), interleaved)
        return torch.cat((turned, x[..., width:].float()), -1).to(x.dtype)

    return rotary


RIGHT = {
    "as written": {},
    "in double precision": {"frequencies": lambda b, w: b ** (-torch.arange(0, w, 2).double() / w)},
    "by exponentials": {"frequencies": lambda b, w: torch.exp(-math.log(b) * torch.arange(0, w, 2) / w)},
    "by a running product": {
        "frequencies": lambda b, w: torch.tensor([1.0] + [b ** (-2 / w)] * (w // 2 - 1)).cumprod(0)
    },
    "from a table": {"angles": lambda p, f, x: torch.outer(torch.arange(p.min(), p.max() + 1), f)[p - p.min()]},
}
WRONG = {
    "halves only": {"split": lambda x, i: x.chunk(2, -1), "whole": lambda a, b, i: torch.cat((a, b), -1)},
    "in one pairing and out of the other": {"whole": lambda a, b, i: whole(a, b, not i)},
    "backwards": {"rotated": lambda a, b, c, s: (a * c + b * s, b * c - a * s)},
    "base ignored": {"frequencies": lambda b, w: frequencies(10000.0, w)},
    "width over two": {"frequencies": lambda b, w: 1.0 / b ** (torch.arange(w // 2).float() / w)},
    "narrow frequencies": {"frequencies": lambda b, w: frequencies(b, w).bfloat16().float()},
    "narrow positions": {"angles": lambda p, f, x: torch.outer(p.bfloat16().float(), f)},
    "half-precision angles": {"angles": lambda p, f, x: torch.outer(p.float(), f).half().float()},
    "positions ignored": {"angles": lambda p, f, x: torch.outer(torch.arange(len(p)).float(), f)},
    "only an offset": {"angles": lambda p, f, x: torch.outer(p[:1] + torch.arange(len(p)), f)},
    "a table of 4096": {"angles": lambda p, f, x: torch.outer(p.clamp(max=4095).float(), f)},
    "a table that wraps": {"angles": lambda p, f, x: torch.outer((p % 8192).float(), f)},
    "sixteen bits": {"angles": lambda p, f, x: torch.outer(p.short().float(), f)},
    "heads for tokens": {
        "angles": lambda p, f, x: angles(p, f, x) if x.shape[1] != len(p) else angles(p, f, x)[:, None]
    },
    "rotary width ignored": {"width_of": lambda x, w: x.shape[-1]},
    "nothing": {"rotated": lambda a, b, c, s: (a, b)},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("changed", RIGHT.values(), ids=RIGHT)
def test_rotary_kernels_that_are_right_pass(changed, dtype):
    assert [] == failures(rotary_with(**changed), "rotary", dtype)


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_rotary_kernels_that_are_wrong_are_found_at_the_loosest_grade(changed):
    laws = {"definition", "contract.precision"}
    assert ["definition"] == failures(rotary_with(**changed), "rotary", "bfloat16", laws=laws, grade="bf16_naive")


def test_a_kernel_that_turns_in_place_is_found():
    def rotary(x, positions, *, base=10000.0):
        x[...] = rotary_with()(x, positions, base=base)
        return x

    assert {"contract.inputs_unchanged", "contract.fresh_output"} <= set(failures(rotary, "rotary"))


# The others


def sinusoidal(*, length, dim, base=10000.0, offset=0, start=0, ends=None, step=2, swap=False):
    position = np.arange(offset + start, offset + start + length)
    position = position if ends is None else np.minimum(position, ends)
    turn = position[:, None] / base ** (step * np.arange(dim // 2) / dim)
    pair = (np.cos(turn), np.sin(turn)) if swap else (np.sin(turn), np.cos(turn))
    return np.stack(pair, -1).reshape(length, dim).astype(np.float32)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [({}, False), ({"start": 1}, True), ({"ends": 4999}, True), ({"step": 1}, True), ({"swap": True}, True)],
)
def test_sinusoidal_tables_are_told_apart(changed, wrong):
    def table(*, length, dim, base=10000.0, offset=0):
        return sinusoidal(length=length, dim=dim, base=base, offset=offset, **changed)

    assert wrong == (
        "definition" in failures(table, "sinusoidal", framework="numpy", conventions={"columns": "alternating"})
    )


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (lambda x, e, o: e[o : o + x.shape[1]], False),
        (lambda x, e, o: torch.nn.functional.embedding(torch.arange(x.shape[1]) + o, e), False),
        (lambda x, e, o: e[: x.shape[1]], True),
        (lambda x, e, o: e[-x.shape[1] :], True),
        (lambda x, e, o: e[(torch.arange(x.shape[1]) + o).to(x.dtype).bfloat16().long()], True),
        (lambda x, e, o: e[o : o + x.shape[1]] * x.shape[2] ** -0.5, True),
        (lambda x, e, o: e[(torch.arange(x.shape[1]) + o).clamp(max=511)], True),
    ],
)
def test_learned_positions_are_told_apart(rows, wrong):
    def learned_position(x, table, *, offset=0):
        return x + rows(x, table, offset)

    assert wrong == ("definition" in failures(learned_position, "learned_position"))


def test_a_smaller_witness_ends_in_the_same_exception():
    def table(*, length, dim, offset=0):
        if length == 0:
            raise TypeError("another fault, which a smaller case would meet")
        return sinusoidal(length=length, dim=dim, offset=[offset][offset > 999])

    one = subject(Adapter("function", "sinusoidal", table, "numpy"))
    result = run(Request(one, library()["sinusoidal"], "float32", PROFILES["quick"]))
    failure = next(cell.failure for cell in result.cells if cell.law == "definition")
    small = made_small(failure, result)
    assert "IndexError" == small.outcome.fault.says.partition(":")[0]
    assert 1 == small.sample.values["length"]


def pair_of(turn):
    """Queries and keys by a function that turns an array [heads, length, dim] by its positions."""

    def rotary_pair(q, k, positions, *, base=10000.0, inverse=False):
        sign = -1 if inverse else 1
        found = [[turn(x[b], sign * positions, b, base) for b in range(len(x))] for x in (q, k)]
        return dict(zip(("q_out", "k_out"), map(torch.stack, found), strict=True))

    return rotary_pair


def halves_turned(x, positions, base):
    at = positions.float()[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x.chunk(2, -1)
    return torch.cat((a * at.cos() - b * at.sin(), b * at.cos() + a * at.sin()), -1)


def test_each_item_is_turned_by_its_own_positions():
    assert [] == failures(pair_of(lambda x, p, b, base: halves_turned(x, p[b], base)), "rotary_pair")
    found = failures(pair_of(lambda x, p, b, base: halves_turned(x, p[0], base)), "rotary_pair")
    assert {"definition", "one_item"} <= {*found}
