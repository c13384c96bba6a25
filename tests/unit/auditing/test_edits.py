"""Changes of a source: what is changed, and what is left alone."""

import ast

import pytest

from attnspec.auditing.edits import edits


@pytest.mark.parametrize(
    ("line", "kind", "found"),
    [
        ("y = x < 1", "comparison", ["y = (x <= 1)"]),
        ("y = x == z", "comparison", ["y = (x != z)"]),
        ("y = x + z", "arithmetic", ["y = (x - z)"]),
        ("y = x // z", "arithmetic", ["y = (x % z)"]),
        ("y = -x", "sign", ["y = x"]),
        ("y = f(True)", "constant", ["y = f(False)"]),
        ("y = f(3)", "constant", ["y = f(4)", "y = f(2)"]),
        ("y = f(0)", "constant", ["y = f(1)"]),
        ("y = f(0.5)", "constant", ["y = f(1.0)"]),
        ("y = f(a, b, c)", "arguments", ["y = f(b, a, c)"]),
        ("y = x.float()", "dtype", ["y = x"]),
        ("y = x.astype(np.float64)", "dtype", ["y = x.astype(np.float32)"]),
        ("y = a & b", "arithmetic", ["y = (a | b)"]),
        ("y = a and b", "condition", ["y = (a or b)"]),
        ("y = tl.load(p, mask=a < b, other=0.0)", "mask", ["y = tl.load(p)"]),
        ("acc = tl.zeros([M, N], dtype=tl.float32)", "dtype", ["acc = tl.zeros([M, N], dtype=tl.float16)"]),
        ("y = np.triu(x)", "name", ["y = np.tril(x)"]),
        ("y = a if b else c", "condition", ["y = a if not b else c"]),
        ("y += x", "line", ["pass"]),
        ("f(x)", "line", ["pass"]),
        ("y = y.f(x)", "line", ["pass"]),
        ("y = f(é + 1, é)", "arguments", ["y = f(é, é + 1)"]),
    ],
)
def test_a_line_becomes_what_people_write_by_mistake(line, kind, found):
    source = f"def kernel(x):\n    {line}\n    return y\n"
    lines = [edit.text.splitlines()[1].strip() for edit in edits(source) if edit.kind == kind]
    normal = [ast.unparse(ast.parse(text)) for text in lines]
    assert [ast.unparse(ast.parse(text)) for text in found] == normal


@pytest.mark.parametrize(
    "source",
    [
        "x = 1 + 2",
        "@adapter('softmax', limits={'n': 3 + 4})\ndef f(x):\n    return x",
        'def f(x):\n    """One + 2."""\n    return x',
        "def f(x: Literal[1]) -> Literal[2]:\n    raise ValueError(1 + 2)",
        "def f(x):\n    assert x.shape[0] == 3, 4\n    return x",
    ],
)
def test_what_is_no_computation_is_left_alone(source):
    assert [] == edits(source)


def test_a_change_is_told_as_a_difference():
    source = "def f(x, n=2):\n    y = 1\n    return (x +\n            n)\n"
    told = {edit.kind: edit.difference(source, "f.py") for edit in edits(source) if edit.line == 3}
    assert {"arithmetic": ["@@ -3,2 +3 @@", "-    return (x +", "-            n)", "+    return ((x - n))"]} == told
    assert 1 in {edit.line for edit in edits(source)}


def test_of_a_function_that_is_named_it_and_what_it_uses_is_changed():
    source = "def a(x):\n    return b(x)\n\ndef b(x):\n    return x + 1\n\ndef c(x):\n    return x - 1\n"
    lines = [{edit.line for edit in edits(source, name)} for name in ("a", "b", "c", "", "d")]
    assert [{5}, {5}, {8}, {5, 8}, {5, 8}] == lines
