"""What a program says in each framework is taken by it, and means the same."""

import numpy as np
import pytest

from attnspec.reporting.dialects import DIALECTS, pulled_back

PART = "def part(result, name, place):\n    return result\n"
MADE = {"torch": "torch.from_numpy({x})"}


def names(framework):
    """The names that a program has, once its imports are done."""
    pytest.importorskip({"jax": "jax", "mlx": "mlx.core"}.get(framework, framework))
    found = {"np": np}
    exec("\n".join([PART, *DIALECTS[framework].imports.values()]), found)
    return found


def worth(text, **given):
    return eval(text.format(**{name: name for name in given}), given.pop("names") | given)


@pytest.mark.parametrize("framework", DIALECTS)
def test_arrays_are_made_compared_and_read(framework):
    dialect, known = DIALECTS[framework], names(framework)
    made = dialect.made or MADE[framework]
    x, y = (worth(made, x=np.array(entries, np.float32), names=known) for entries in ([1.5, 2.0], [1.5, 3.0]))
    copy = worth(dialect.copied, x=x, names=known)
    assert [True, False] == [bool(worth(dialect.same, x=x, y=other, names=known)) for other in (copy, y)]
    assert [1.5, 2.0] == worth(dialect.flat, x=x, names=known).tolist()
    assert [0.0, 0.0] == worth(dialect.flat, x=worth(dialect.zeros, x=x, names=known), names=known).tolist()


@pytest.mark.parametrize("framework", ["torch", "jax", "mlx"])
@pytest.mark.parametrize("count", [1, 2])
def test_gradients_are_those_of_the_cotangent(framework, count):
    dialect, known = DIALECTS[framework], names(framework)
    made = dialect.made or MADE[framework]
    known |= {
        n: worth(made, x=np.array(e, np.float32), names=names(framework))
        for n, e in zip("abd", ([2.0], [3.0], [10.0]), strict=True)
    }
    exec("\n".join(pulled_back(framework, "a * b", "ab"[:count], {"d": ("out", 0)})), known)
    assert [[30.0], [20.0]][:count] == [worth(dialect.flat, x=x, names=known).tolist() for x in known["gradients"]]


@pytest.mark.parametrize("framework", ["torch", "jax", "mlx"])
def test_gradients_are_those_of_the_cotangents_of_several_outputs(framework):
    dialect, known = DIALECTS[framework], names(framework)
    made = dialect.made or MADE[framework]
    known |= {
        n: worth(made, x=np.array(e, np.float32), names=names(framework))
        for n, e in zip("abcd", ([2.0], [3.0], [10.0], [100.0]), strict=True)
    }
    known["part"] = lambda result, name, at: result[at]
    cotangents = {"c": ("out", 0), "d": ("lse", 1)}
    exec("\n".join(pulled_back(framework, "(a * b, a + b)", "ab", cotangents)), known)
    assert [[130.0], [120.0]] == [worth(dialect.flat, x=x, names=known).tolist() for x in known["gradients"]]
