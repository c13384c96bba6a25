"""What the file of a plain function tells of its operator."""

import pytest

from attnspec.adapters import Adapter
from attnspec.mechanisms.loader import library
from attnspec.subjects.function_names import said_by
from attnspec.subjects.hints import hints, source_of, without_doubt


def says(text):
    return said_by(text, library())


def source(tmp_path, text, name="mine", file="kernels.py"):
    path = tmp_path / file
    path.write_text(text)
    return source_of(Adapter(name, "", print, "torch", place=f"{path}:1"))


def test_documentation_calls_and_the_file_say_operators_in_this_order(tmp_path):
    text = "def mine(x):\n    '''RMS Normalization.'''\n    return F.softmax(x.view(1, -1))\n"
    found = [(one.operator, one.where) for one in hints(source(tmp_path, text, file="7_LayerNorm.py"), says)]
    assert [
        ("rms_norm", "its documentation"),
        ("softmax", "its call of `softmax`"),
        ("layer_norm", "the name of 7_LayerNorm.py"),
    ] == found


def test_texts_and_shapes_are_found_in_a_function(tmp_path):
    says, body = "'''The sum, or the mean. x: (1, N, D); y: (N, D)'''", "return x if y == 'each' else x.sum()"
    found = source(tmp_path, f"def mine(x, y):\n    {says}\n    {body}\n")
    assert {"sum", "mean", "each"} <= found.said
    assert "none" not in found.said
    assert {"x": ["1", "N", "D"], "y": ["N", "D"]} == found.shapes


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return softmax(x)", ("softmax", 1)),
        ("return MySoftmax.apply(x)", ("softmax", 1)),
        ("return self.op.softmax_cuda(x, dim=-1)", ("softmax", 1)),
        ("return softmax(x, dim=0)", ("", 0)),
        ("return softmax(y)", ("", 0)),
        ("return softmax(2 * x)", ("", 0)),
        ("return softmax(x) * 2", ("", 0)),
        ("x = x + 1\n    return softmax(x)", ("", 0)),
        ("return scale(x)", ("", 0)),
        ("'''Layer normalization.'''\n    return softmax(x)", ("", 0)),
    ],
)
def test_who_only_calls_another_one_is_that(tmp_path, body, found):
    assert found == without_doubt(source(tmp_path, f"def mine(x):\n    {body}\n"), says)


@pytest.mark.parametrize(
    ("made", "given", "found"),
    [
        ("def __init__(self, dim):\n        self.dim = dim", "[1]", "softmax"),
        ("def __init__(self, dim):\n        self.dim = dim", "[LAST]", "softmax"),
        ("def __init__(self, dim):\n        self.dim = dim", "[0]", ""),
        ("def __init__(self, dim):\n        self.dim = dim", "[]", ""),
        ("def __init__(self, eps, dim=-1):\n        self.dim = dim", "[0.1]", "softmax"),
        ("def __init__(self, eps, dim=-1):\n        self.dim = dim", "[0.1, 0]", ""),
    ],
)
def test_what_a_module_holds_is_known_by_what_it_is_made_with(tmp_path, made, given, found):
    text = f"""
LAST = 1
class mine(Module):
    {made}
    def forward(self, x):
        return softmax(x, dim=self.dim)
def get_inputs():
    return [torch.rand(2, 3)]
def get_init_inputs():
    return {given}
"""
    assert found == without_doubt(source(tmp_path, text), says)[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("q, k, v: [B, H, T, D]", True),
        ("q, k and v are (batch, heads, length, dim).", True),
        ("q [B, H, T, D], k [B, H, T, D]", True),
        ("q of shape (B, H, T, D) and k of shape (B, H, T, D)", True),
        ("q [B, H, T, D], k, v [B, H, S, D]", False),
        ("q (B, T, H, D)", False),
        ("Attention (see q, k).", False),
        ("Calls f(q, k, v) of q and k.", False),
    ],
)
def test_arrays_of_one_shape_are_known_by_documentation(tmp_path, text, found):
    told = source(tmp_path, f"def mine(q, k, v):\n    '''Attention.\n\n    {text}\n    '''\n")
    assert found is told.alike("q", "k")


def test_the_last_axis_is_known_by_the_inputs_that_a_file_makes(tmp_path):
    text = "def mine(x):\n    return softmax(x, dim=1)\ndef get_inputs():\n    return [torch.rand({})]\n"
    found = [without_doubt(source(tmp_path, text.format(shape)), says)[0] for shape in ("2, 3", "(2, 3)", "2, 3, 4")]
    assert ["softmax", "softmax", ""] == found


@pytest.mark.parametrize(
    ("lines", "axes"),
    [
        ("x = torch.randn(2, n)\n    return [x, torch.rand((1, 2, 3)).cuda()]", [2, 3]),
        ("return [torch.rand(*shape), torch.rand(2)]", []),
        ("return make()", []),
    ],
)
def test_axes_of_inputs_are_counted(tmp_path, lines, axes):
    assert axes == source(tmp_path, f"def mine(x):\n    pass\ndef get_inputs():\n    {lines}\n").axes


@pytest.mark.parametrize("text", ["def mine(:", "class mine:\n    pass\n", "mine = print\n", "\0"])
def test_what_cannot_be_read_says_nothing(tmp_path, text):
    assert source(tmp_path, text) is None
    assert source_of(Adapter("mine", "", print, "torch", place="")) is None


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("return (out, row_max.mT.reshape(2, 3))", ["out", "row_max"]),
        ("return (out[0], lse) if with_lse else out", ["out", "lse"]),
        ("return out, 1", ["out", ""]),
        ("return out", []),
    ],
)
def test_what_is_returned_is_known_by_its_variables(tmp_path, line, names):
    assert names == source(tmp_path, f"def attention(q, with_lse):\n    {line}\n", "attention").variables


@pytest.mark.parametrize(
    ("body", "results"),
    [
        ("return x, x", 2),
        ("if x:\n        return x, 1\n    return 2, x", 2),
        ("if x:\n        return x\n    return 2, x", 0),
        ("def inner():\n        return 1, 2, 3\n    return x, inner()", 2),
        ("return other(x)", 3),
        ("return unknown(x)", 0),
        ("return x", 0),
        ("pass", 0),
    ],
)
def test_results_are_counted_by_what_is_returned(tmp_path, body, results):
    text = f"def other(x):\n    return x, x, x\n\n\ndef mine(x):\n    {body}\n"
    assert results == source(tmp_path, text).results


@pytest.mark.parametrize(
    ("body", "one"),
    [
        ("return x", True),
        ("return x, y", False),
        ("return None", False),
        ("x.add_(y)", False),
        ("return other()", False),
    ],
)
def test_what_returns_one_thing_and_no_tuple_gives_one(tmp_path, body, one):
    text = f"def mine(x, y):\n    {body}\n\ndef other():\n    return 1, 2\n"
    assert one is source(tmp_path, text).gives_one
