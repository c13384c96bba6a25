"""Lines of a definition that another call has in common."""

import itertools

import numpy as np
import pytest

from attnspec.cases.plans import Plan
from attnspec.cases.profiles import Profile
from attnspec.errors import SpecError
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32, FP64
from attnspec.numerics.numbers import Number
from attnspec.subjects.claims import Claims

ATTENTION = library()["attention"]


def attention(k_len):
    """Inputs of attention, all different."""
    shapes = {"q": (1, 2, 3, 2), "k": (1, 2, k_len, 2), "v": (1, 2, k_len, 2)}
    return {n: np.sin(np.arange(np.prod(x)) * (1.0 + i)).reshape(x) for i, (n, x) in enumerate(shapes.items())}


def samples(m):
    claims = Claims(frozenset({*m.optional, *m.options}), ("float32",))
    return Plan(m, claims, Profile("few", covering=6, draws=0, admitted=2), 0, "float32").pairs


def bits(x):
    """All parts of an output, to the bit."""
    parts = (x.value, x.worst, x.variance, x.shared) if isinstance(x, Number) else (x,)
    return [(np.shape(part), np.asarray(part).tobytes()) for part in parts]


def others(m, sample):
    """The values of a sample with each array of fractions in turn, and then with each option, replaced by another."""
    for name, x in sample.values.items():
        if name in m.inputs and isinstance(x, np.ndarray) and x.dtype.kind == "f":
            yield {**sample.values, name: np.flip(x) * 0.5}
        elif name in m.options and isinstance(x, bool):
            yield {**sample.values, name: not x}
        elif name in m.vocabulary:
            yield from ({**sample.values, name: word} for word in m.vocabulary[name] if word != x)


def told(evaluate):
    """All outputs to the bit, or why there are none."""
    try:
        return [*map(bits, evaluate().values())]
    except (SpecError, ValueError) as error:
        return str(error).splitlines()[0]


SEVERAL = (
    "einsum",
    "kimi_delta_attention",
    "lse_gradient",
    "moe_routing",
    "quantize",
    "softmax",
    "sunk_pages",
    "windowed_decoder",
)


@pytest.mark.parametrize("name", SEVERAL)
def test_lines_of_another_call_are_those_that_the_call_itself_has(name):
    m, taken = library()[name], 0
    for sample, grade in itertools.product(samples(m), (None, FP32)):
        settings = {"grade": grade, "dtype": "float32"}
        base = Frame(m, sample.values, **settings)
        for number, values in enumerate(others(m, sample)):
            if number % 2:  # whether the lines are there already, or are computed when they are asked for
                told(base.outputs)
            alone, other = Frame(m, values, **settings), base.on(values)
            assert told(alone.outputs) == told(other.outputs)
            assert alone.turned_on <= other.words_asked
            taken += sum(line in other.memo and line not in other.reached for line in m.definition)
    assert taken or len(m.definition) < 5


def test_a_line_is_taken_from_another_call_only_if_nothing_that_it_reads_differs():
    values = attention(5) | {"causal": True}
    base, moved = Frame(ATTENTION, values, grade=FP64), {**values, "v": values["v"] + 1}
    other = base.on(moved)
    other.outputs()
    assert other["weights"] is base["weights"]
    assert other["out"] is not base["out"]
    copied = base.on({**values, "q": values["q"].copy()})
    assert copied["weights"] is not base["weights"]
    with_errors = base.on({**values, "v": Number.within(values["v"], 0.5, grade=FP64)})
    assert np.all(with_errors["out"].radius > 0.1)
    assert with_errors["weights"] is base["weights"]


def test_nothing_is_taken_from_a_call_under_other_words():
    values = attention(5) | {"causal": True}
    base = Frame(ATTENTION, values)
    base.outputs()
    other = base.on({**values, "causal_alignment": "top_left"})
    assert other.unchanged is None
    assert not np.array_equal(other["out"], base["out"])


def test_sizes_that_differ_count():
    base = Frame(ATTENTION, attention(5))
    base.outputs()
    longer = {**attention(7), "q": base["q"]}
    assert bits(Frame(ATTENTION, longer)["out"]) == bits(base.on(longer)["out"])
    assert 7 == base.on(longer)["k_len"]
