"""Shapes that fit, and sums over letters.

Broadcasting: Harris et al. 2020, Array programming with NumPy, Nature 585.
Summation: Einstein 1916, Die Grundlage der allgemeinen Relativitaetstheorie, section 5, with the notation of
numpy.einsum: a letter for every axis, an arrow before the letters of the result, dots for leading axes.
"""

import itertools
import string

import numpy as np


def broadcast_shapes(first, second):
    """The shape that arrays of two shapes have together: integers, from the last axis on."""
    if min([*first, *second], default=0) < 0:
        raise ValueError("a length is not below zero")
    shape = []
    for a, b in itertools.zip_longest(reversed(first), reversed(second), fillvalue=1):
        if a != b and 1 not in (a, b):
            raise ValueError(f"axes of the lengths {a} and {b} do not fit")
        shape.insert(0, b if a == 1 else a)
    return np.array(shape, np.int64)


def einsum(a, b, *, equation):
    """The sum of products that an equation of two operands says."""
    a, b, equation = leading_as_letters(a, b, equation)
    inputs, arrow, output = equation.partition("->")
    first, second = inputs.split(",")
    if not arrow:
        output = "".join(sorted(letter for letter in first + second if (first + second).count(letter) == 1))
    if len(first) != a.ndim or len(second) != b.ndim:
        raise ValueError(f"{equation} is not for arrays of {a.ndim} and {b.ndim} axes")
    length = {}
    for letter, n in [*zip(first, a.shape, strict=True), *zip(second, b.shape, strict=True)]:
        if length.setdefault(letter, n) != n:
            raise ValueError(f"{letter} runs along axes of the lengths {length[letter]} and {n}")
    inner = [letter for letter in length if letter not in output]
    c = np.zeros([length[letter] for letter in output])
    for outside in np.ndindex(c.shape):
        at = dict(zip(output, outside, strict=True))
        c[outside] = entry(a, b, first, second, at, inner, length)
    return c


def entry(a, b, first, second, at, inner, length):
    """One entry of the result: the sum over all values of the inner letters."""
    x = a[tuple(at.get(letter, slice(None)) for letter in first)]
    y = b[tuple(at.get(letter, slice(None)) for letter in second)]
    first = [letter for letter in first if letter not in at]
    second = [letter for letter in second if letter not in at]
    total = 0.0
    for inside in np.ndindex(*(length[letter] for letter in inner)):
        here = dict(zip(inner, inside, strict=True))
        total += x[tuple(here[letter] for letter in first)] * y[tuple(here[letter] for letter in second)]
    return total


def leading_as_letters(a, b, equation):
    """The leading axes that three dots stand for, broadcast and given letters."""
    if "..." not in equation:
        return a, b, equation
    first, second = equation.partition("->")[0].split(",")
    named = [len(letters.replace("...", "")) for letters in (first, second)]
    leading = [x.shape[: x.ndim - n] for x, n in zip((a, b), named, strict=True)]
    shape = tuple(broadcast_shapes(*leading))
    letters = "".join(letter for letter in string.ascii_uppercase if letter not in equation)[: len(shape)]
    a, b = (np.broadcast_to(x, shape + x.shape[x.ndim - n :]) for x, n in zip((a, b), named, strict=True))
    return a, b, equation.replace("...", letters)
