"""Slips in a declaration are told with the line of the function, what was given, what is expected and what to write."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import attnspec
from attnspec.adapters import Adapter
from attnspec.api import check
from attnspec.cli import main
from attnspec.errors import Exit, UsageError
from attnspec.execution.declarations import checked
from attnspec.subjects.targets import resolve, subject

NO_NAMES = ["None", "True", "5", "2.5", "b'float32'", "torch", "[5]", "{'n': 1}", "lambda n: n", "object()"]
NO_TEXT = ["True", "5", "2.5", "b'torch'", "('torch',)", "{'n': 1}", "lambda n: n", "object()", "torch.float32"]
NO_FLAG = ["None", "1", "0", "'yes'", "'true'", "()", "[True]", "{}", "lambda: True", "torch"]
NO_DICT = ["True", "5", "'float32'", "['n']", "('n', 5)", "{5: 5}", "{None: 1}", "lambda n: n", "torch", "range(3)"]
WRONG = {
    "name": [*NO_TEXT, "''", "' '", "torch"],
    "framework": [*NO_TEXT, "''", "None", "torch", "'tensorflaw'"],
    "dtypes": [*NO_NAMES, "torch.float32", "(torch.float32,)", "np.float32", "[]", "'float3'", "('float32', None)"],
    "conventions": [*NO_DICT, "{'empty_row': 5}", "{'empty_row': None}", "{'empty_row': ['zeros']}", "{'n': 'zeros'}"],
    "limits": [
        *NO_DICT,
        "{'m': (1,)}",
        "{'n': ()}",
        "{'n': []}",
        "{'n': range(0)}",
        "{'n': lambda n: n < 5}",
        "{'n': (i for i in [1])}",
        "{'n': {1: 2}}",
        "{'n': (1, [2])}",
        "{'n': 'many'}",
        "{'n': (8, '16')}",
        "{'n': 2.5}",
        "{'n': None}",
        "{'n': torch}",
        "{'n': list(range(20_000))}",
    ],
    "fixed": [*NO_DICT, "{'m': 1}", "{'n': (1, 2)}", "{'n': torch}", "{'n': lambda: 1}", "{'n': 'one'}"],
    "requires": [*NO_NAMES, "'nn < 5'", "('n', 5)"],
    "grade": [*NO_TEXT, "['bf16']", "{'float32': 5}", "{'float32': 'fp33'}", "{5: 'bf16'}", "'fp33'", "{'f': 'bf16'}"],
    "deterministic": NO_FLAG,
    "compiled": NO_FLAG,
    "slow": NO_FLAG,
    "interpreted": [*NO_TEXT, "True"],
    "devices": [*NO_NAMES, "'GPU 1'", "('cuda:0',)"],
    "package": [*NO_TEXT, "torch", "'not a module'", "'..'", "'a..b'"],
    "extra": NO_TEXT,
    "seen": NO_TEXT,
    "operator": [*NO_TEXT, "None", "''", "'sofmax'", "torch"],
    "further": ["5"],
}
SLIPS = [(key, text) for key, texts in WRONG.items() for text in texts if (key, text) != ("compiled", "None")]
FILE = """import numpy as np
import torch
from attnspec import adapter

@adapter({operator}, {declaration})
def soft(x):
    return torch.softmax(x, -1)
"""


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def written(key, text, name="k.py"):
    operator = text if key == "operator" else "'softmax'"
    Path(name).write_text(FILE.format(operator=operator, declaration="" if key == "operator" else f"{key}={text}"))
    return name


def said(target, **more):
    with pytest.raises(UsageError) as caught:
        resolve(target, **more)
    return str(caught.value)


@pytest.mark.parametrize(("key", "text"), SLIPS)
def test_every_part_of_every_wrong_type_in_a_file_is_told_with_its_line(key, text):
    message = said(written(key, text))
    assert "k.py:5: " == message[: len("k.py:5: ")]
    assert "unknown " in message or key in message or text.strip("'") in message
    assert any(
        words in message for words in ("expected ", "unknown ", "(after the operator", " is one of ", "take sizes")
    )


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, text in SLIPS if key not in ("operator", "further")])
def test_every_part_of_every_wrong_type_in_a_call_of_check_is_told(key, text):
    if (key, text) in (("framework", "None"), ("framework", "''"), ("dtypes", "[]")):
        pytest.skip("nothing was given")
    with pytest.raises(UsageError) as caught:
        check(softmax, **{key: eval(text, {"torch": torch, "np": np})})
    assert "unknown " in str(caught.value) or key in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "dtypes=(torch.float32,)",
            "dtypes is (torch.float32,) (a tuple) with torch.float32 (a dtype) in it; expected names of dtypes; "
            'write dtypes=("float32",)',
        ),
        (
            "dtypes=[np.float16, torch.float32]",
            "dtypes is (<class 'numpy.float16'>, torch.float32) (a tuple) with <class 'numpy.float16'> (a type) in it; "
            'expected names of dtypes; write dtypes=("float16", "float32")',
        ),
        (
            'conventions={"empty_row": 5}',
            "conventions is {'empty_row': 5} (a dict) with 5 (an int) for 'empty_row', whose words 'attnspec explain' "
            'lists; expected a dict of conventions and their words; write conventions={"causal_alignment": "top_left"}',
        ),
        (
            'limits={"n": ()}',
            "limits is {'n': ()} (a dict) with no value for 'n'; expected a dict of sizes and the values that they may "
            'have; write limits={"n": range(1, 65)}, or leave it out',
        ),
        (
            'grade=["bf16"]',
            "grade is ['bf16'] (a list); expected the name of a grade, or a dict of dtypes and grades; "
            'write grade="bf16"',
        ),
        ('dtype="float32"', "a declaration has no 'dtype'; did you mean 'dtypes'? (after the operator: framework, "),
    ],
)
def test_a_slip_says_what_was_given_and_what_to_write(text, says):
    Path("k.py").write_text(FILE.format(operator="'softmax'", declaration=text))
    found = CliRunner().invoke(main, ["check", "k.py"])
    assert (int(Exit.USAGE), f"attnspec: k.py:5: {says}") == (found.exit_code, found.output[: 18 + len(says)])


def test_a_framework_that_is_the_module_is_told_by_its_name():
    message = said(written("framework", "torch"))
    known = "torch, numpy, jax, mlx, cupy, tinygrad, tensorflow"
    assert message.endswith(f'(a module); expected the name of a framework: {known}; write framework="torch"')


@pytest.mark.parametrize("decorator", ["@adapter", "@adapter()", "@adapter(framework='torch')"])
def test_an_adapter_without_an_operator_is_told(decorator):
    Path("k.py").write_text(f"from attnspec import adapter\n\n{decorator}\ndef soft(x):\n    return x\n")
    assert said("k.py").startswith("k.py:3: operator is ")


def test_parts_after_the_operator_go_by_name():
    Path("k.py").write_text(
        "from attnspec import adapter\n\n@adapter('softmax', 'numpy')\ndef soft(x):\n    return x\n"
    )
    assert said("k.py").startswith("k.py:3: a declaration has no 'argument 2' (after the operator: framework, ")


def test_what_a_value_makes_of_its_text_is_not_asked_twice():
    class Loud:
        def __repr__(self):
            raise RuntimeError("no")

        __str__ = __repr__

    with pytest.raises(UsageError, match=r"grade is \(not to be shown\) \(a Loud\)"):
        check(softmax, grade=Loud())


def test_a_declaration_is_exact_plain_values():
    class Text(str):
        __slots__ = ()

        def __str__(self):
            return "other"

    class Whole(int):
        def __index__(self):
            return 7

    given = Adapter(
        Text("mine"), "softmax", softmax, "numpy", dtypes={Text("float32")}, limits={Text("n"): {Whole(4), np.int64(8)}}
    )
    found = checked(given)
    assert ("mine", ("float32",), {"n": (4, 8)}) == (found.name, found.dtypes, found.limits)
    values = (found.name, *found.dtypes, *found.limits, *found.limits["n"])
    assert [str, str, str, int, int] == [type(x) for x in values]


def test_one_dtype_needs_no_tuple_wherever_it_is_declared():
    assert ("float32",) == checked(Adapter("mine", "softmax", softmax, "numpy", dtypes="float32")).dtypes
    report = check(softmax, dtypes="float32", mechanisms="softmax", laws="definition", profile="smoke")
    assert ["float32"] == [cell["dtype"] for cell in report.cells]


def test_a_declaration_of_what_declares_itself_is_refused():
    with pytest.raises(UsageError, match="'torch_softmax' declares itself; grade can be said of a function alone"):
        check("torch_softmax", grade="bf16")


def test_a_file_may_be_given_as_a_path():
    message = "no such file: nowhere.py"
    with pytest.raises(attnspec.TargetError, match=message):
        check(Path("nowhere.py"))


# Ranges


@pytest.mark.parametrize("limit", [range(1, 2**31), range(1, 5_000_000), range(2**70, 0, -3), range(1, 2**31, 2)])
def test_a_long_range_is_not_gone_through(limit):
    one = subject(Adapter("mine", "softmax", softmax, "numpy", limits={"n": limit}))
    assert (("n", limit),) == one.claims.bounds[0]
    assert hash(one.claims.key)
    report = check(softmax, limits={"n": limit}, laws=("definition",), mechanisms=("softmax",))
    assert report.cells[0]["cases"] > 5
