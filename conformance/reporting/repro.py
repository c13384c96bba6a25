"""A failure as a one-file program for people without attnspec: inputs, calls, expected values, and why.

It needs what is under test and its framework. It fails as long as the fault is there, and passes when it is mended.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dialects import DIALECTS, pulled_back
from .literals import ROOM, WRITTEN, Input, array_lines, dtype_named, literal, number_lines, quoted, upwards

MARK = "# made by attnspec repro"
"""What the last line of such a file begins with."""
BESIDE = ("base64", "math", "ml_dtypes", "types")
"""What a program may import beside its framework."""
NAMES_OF_KINDS = {"integer": ("int", "uint"), "boolean": ("bool",)}
"""How the names of the dtypes of a kind begin, in all frameworks."""


@dataclass(frozen=True, slots=True)
class Output:
    """What is expected of an output: its entries, and how far each may be off; NaN for one that may be anything."""

    name: str
    place: int
    """Where it stands among the outputs of the operator."""
    expected: NDArray[Any]
    bound: NDArray[np.float64]
    dtype: str = ""
    """The dtype that it has to have, if that is what is asked."""
    assembled: str = ""
    """The expression that it is, in terms of NumPy, where it is assembled from what is returned."""


@dataclass(frozen=True, slots=True)
class Differentiated:
    """How the gradients of a call are asked for."""

    cotangents: Mapping[str, tuple[str, int]]
    """The arrays that are gradients of the function's outputs, each with the name and the place of its output."""
    passed: Sequence[str]
    """What the function takes by position."""
    leaves: Mapping[str, str]
    """The arrays that have a gradient, each with what that is called."""
    zeros: Mapping[str, str]
    """What the function takes beside the inputs: arrays of zeros, each with the input whose shape it has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call: what is passed, and what is expected of it."""

    inputs: Sequence[Input]
    options: Mapping[str, Any]
    objects: Collection[str] = ()
    """Options that are objects with attributes."""
    typed: Collection[str] = ()
    """Options that are dtypes."""
    into: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the call may write to, and the output that each is if that is not returned."""
    returned: Sequence[str] = ()
    """The outputs in the order in which they are returned."""
    backward: Differentiated | None = None
    """How its gradients are asked for, if it is they that are expected."""
    outputs: Sequence[Output] = ()
    refused: bool = False
    """Whether it is to raise an error."""
    unchanged: bool = False
    """Whether its inputs are to stay as they are."""
    repeated: bool = False
    """Whether the same call is to give the same result."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Sizes and options of which outputs are assembled, beside what is returned."""


@dataclass(frozen=True, slots=True)
class Program:
    """All that a file says."""

    key: str
    subject: str
    function: str
    """The name under which it is called."""
    code: str
    """What defines it."""
    imports: Sequence[str]
    framework: str
    device: str
    law: str
    """As MECHANISM.LAW."""
    sentence: str
    formula: str
    place: str
    """Where the law is written."""
    words: Mapping[str, str]
    precision: str
    happens: str
    versions: Mapping[str, str]
    calls: Sequence[Asked]
    output: str = "out"
    """The first output of the operator."""
    documented: Sequence[str] = ()
    """What is known of it."""


# The file


def program(p: Program) -> str:
    """The file."""
    quotes = '"' * 3
    said = "\n\n".join(_said(p)).replace("\\", "\\\\").replace(quotes, "'''")
    body = "\n\n\n".join([f"# What is under test: {p.subject}", p.code, *_helpers(p), "\n".join(_called(p))])
    end = f"{MARK} {p.versions.get('attnspec', '')}, case {p.key}"
    head = f"{quotes}{said}\n{quotes}\n\nfrom __future__ import annotations"
    return f"{head}\n\n{_imports(p, body)}\n\n{body}\n\n{end}\n"


def _imports(p: Program, body: str) -> str:
    """What the file imports: the framework of its arrays, and what is used."""
    known = DIALECTS[p.framework].imports | {name: f"import {name}" for name in BESIDE} | DIALECTS["numpy"].imports
    used = [line for name, line in known.items() if f"{name}." in body]
    own = [line for line in p.imports if not line.startswith("from __future__")]
    return "\n".join(sorted({*used, *own}))


def _said(p: Program) -> Iterator[str]:
    """What fails, why it ought not to, and with which versions, paragraph by paragraph."""
    yield textwrap.fill(f"{p.subject} breaks {p.law}: {p.sentence}", ROOM)
    if p.formula:
        yield textwrap.fill(p.formula, ROOM, initial_indent="    ", subsequent_indent="        ")
    yield textwrap.fill(p.happens, ROOM)
    yield textwrap.fill(source(p), ROOM)
    yield textwrap.fill(", ".join(f"{name} {number}" for name, number in p.versions.items()), ROOM)


def source(p: Program) -> str:
    """Where the expected values come from."""
    words = ", ".join(f"{name} = {word}" for name, word in p.words.items())
    expected = (
        "The call has to raise an error."
        if any(call.refused for call in p.calls)
        else "Expected values are those of the definition, in float64; a bound is what rounding may do to an entry at "
        f"the precision {p.precision}."
    )
    return f"The law stands in {p.place}. {expected}" + (f" Conventions: {words}." if words else "")


def _helpers(p: Program) -> Iterator[str]:
    decoded = any(x.entries.size > WRITTEN for call in p.calls for x in call.inputs)
    if decoded and p.framework == "torch":
        yield (
            "def decoded(text, dtype, *shape):\n"
            '    """An array from its bytes."""\n'
            "    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=dtype).reshape(shape).clone()"
        )
    elif decoded:
        yield (
            "def decoded(text, dtype, *shape):\n"
            '    """An array from its bytes."""\n'
            "    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).copy()"
        )
    if any(x.expected.size > WRITTEN for call in p.calls for x in call.outputs):
        yield (
            "def doubles(text):\n"
            '    """Numbers from their bytes."""\n'
            "    import array\n\n"
            '    return array.array("d", base64.b64decode(text)).tolist()'
        )
    if any(call.into for call in p.calls):
        yield (
            "def named(result, *names):\n"
            '    """What a call returns, by the names of outputs; nothing where it returns nothing."""\n'
            "    if isinstance(result, dict):\n"
            "        return result\n"
            "    several = result if isinstance(result, (tuple, list)) else [result] * (result is not None)\n"
            "    return dict(zip(names, several))"
        )
    if any(output.assembled for call in p.calls for output in call.outputs):
        yield (
            "def plain(x):\n"
            '    """An array of the framework as one of NumPy."""\n'
            f"    return np.reshape({DIALECTS[p.framework].flat.format(x='x')}.tolist(), tuple(x.shape))"
        )
    if any(call.outputs or call.repeated or call.backward for call in p.calls):
        yield (
            "def part(result, name, place):\n"
            '    """An output of a result, which may be a mapping or several."""\n'
            "    if isinstance(result, dict):\n"
            "        return result[name]\n"
            "    return result[place] if isinstance(result, (tuple, list)) else result"
        )
        yield (
            "def check(name, x, shape, expected, bound):\n"
            '    """Fail with the entry that is furthest off; a bound of NaN leaves an entry free."""\n'
            '    own = tuple(getattr(x, "shape", ()))\n'
            '    assert own == shape, f"{name} has the shape {own}, not {shape}"\n'
            f"    found = {DIALECTS[p.framework].flat.format(x='x')}.tolist()\n"
            "    off = []\n"
            "    for at, (got, wanted, most) in enumerate(zip(found, expected, bound)):\n"
            "        alike = got == wanted or (got != got and wanted != wanted)\n"
            "        error = abs(got - wanted)\n"
            "        if not (alike or most != most or error <= most):\n"
            "            off.append((error / most if most and error == error else math.inf, at))\n"
            "    if off:\n"
            "        units, at = max(off, key=lambda pair: (pair[0], -pair[1]))\n"
            "        place = [at // math.prod(shape[axis + 1 :]) % shape[axis] for axis in range(len(shape))]\n"
            "        raise AssertionError(\n"
            '            f"{name}{place} is {found[at]}, expected {expected[at]} within {bound[at]:.3g}: "\n'
            '            f"{len(off)} of {len(found)} entries are off"\n'
            "        )"
        )


def _called(p: Program) -> Iterator[str]:
    dialect = DIALECTS[p.framework]
    if dialect.first:
        yield dialect.first
    if dialect.doubled and any(x.dtype == "float64" for call in p.calls for x in call.inputs):
        yield dialect.doubled
    earlier: dict[str, str] = {}
    for number, call in enumerate(p.calls, 1):
        if len(p.calls) > 1:
            yield f"\n# Call {number} of {len(p.calls)}"
        for x in call.inputs:
            for line in array_lines(x, p.framework, p.device):
                if earlier.get(x.name) != line:
                    yield line
                    earlier[x.name] = line
        if call.backward is not None:
            yield from (f"{name} = {dialect.zeros.format(x=like)}" for name, like in call.backward.zeros.items())
        yield from _asserted(p, call)
        for name in call.into:  # which are not what they were
            earlier.pop(name, None)
    yield f'print("{p.law} holds here")'


def _made(p: Program, call: Asked) -> str:
    """The call itself."""
    if call.backward is None:
        given = [f"{x.name}={x.name}" if x.by_name else x.name for x in call.inputs]
    else:
        passed = call.backward.passed
        others = [x.name for x in call.inputs if x.name not in (*passed, *call.backward.cotangents)]
        given = [*passed, *(f"{name}={name}" for name in others)]
    for name, x in call.options.items():
        if name in call.typed:
            given.append(f"{name}={dtype_named(x, p.framework)}")
            continue
        fields = ", ".join(f"{key}={literal(value)}" for key, value in x.items()) if name in call.objects else ""
        given.append(f"{name}=types.SimpleNamespace({fields})" if name in call.objects else f"{name}={literal(x)}")
    return f"{p.function}({', '.join(given)})"


def _results(p: Program, call: Asked, name: str) -> Iterator[str]:
    """The lines that make the call and give what comes back a name."""
    made = _made(p, call)
    if call.backward is not None:
        leaves = call.backward.leaves
        yield from pulled_back(p.framework, made, [*leaves], call.backward.cotangents)
        yield f"{name} = dict(zip({tuple(leaves.values())!r}, gradients))"
    else:
        yield f"{DIALECTS[p.framework].quiet}{name} = {made}"
    if call.into:
        own = ", ".join(f'"{output}": {written}' for written, output in call.into.items())
        yield f"{name} = {{{own}}} | named({name}, {', '.join(map(repr, call.returned))})"


def _asserted(p: Program, call: Asked) -> Iterator[str]:
    dialect = DIALECTS[p.framework]
    names = [x.name for x in call.inputs]
    if call.refused:
        yield f'try:\n    {_made(p, call)}\nexcept Exception as error:\n    print(f"refused: {{error}}")'
        yield f'else:\n    raise AssertionError("the call is accepted: {quoted(p.sentence)}")'
        return
    if call.unchanged:
        yield f"before = [{', '.join(dialect.copied.format(x=name) for name in names)}]"
    yield from _results(p, call, "result")
    for output in call.outputs:
        shape = repr(tuple(output.expected.shape))
        taken = f'part(result, "{output.name}", {output.place})'
        if output.assembled:
            yield from _assembled(call, output)
            taken = output.name
        if output.dtype:
            yield f'dtype = str({taken}.dtype).rpartition(".")[2]'
            starts = NAMES_OF_KINDS.get(output.dtype)
            asked = f"dtype.startswith({starts!r})" if starts else f'dtype == "{output.dtype}"'
            yield f'assert {asked}, f"{output.name} is {{dtype}}, not {output.dtype}"'
            continue
        yield from number_lines("expected", output.expected)
        yield from number_lines("bound", upwards(output.bound))
        yield f'check("{output.name}", {taken}, {shape}, expected, bound)'
    if call.unchanged:
        yield f"for name, x, y in zip({names!r}, before, [{', '.join(names)}]):"
        yield f'    assert {dialect.same.format(x="x", y="y")}, f"the call changed its input {{name}}"'
    if call.repeated:
        yield from _results(p, call, "again")
        yield f'first, second = (part(x, "{p.output}", 0) for x in (result, again))'
        yield f'assert {dialect.same.format(x="first", y="second")}, "the same call gives another result"'


def _assembled(call: Asked, output: Output) -> Iterator[str]:
    """The lines that make an output of what is returned."""
    used = {node.id for node in ast.walk(ast.parse(output.assembled)) if isinstance(node, ast.Name)}
    for place, name in enumerate(call.returned):
        if name in used:
            yield f'{name} = plain(part(result, "{name}", {place}))'
    yield from (f"{name} = {literal(x)}" for name, x in call.known.items() if name in used)
    yield f"{output.name} = {output.assembled}"


# The issue


def issue(p: Program) -> str:
    """The same as an issue that one can paste."""
    versions = "\n".join(f"- {name} {number}" for name, number in p.versions.items())
    documented = "\n".join(["\n", *p.documented]) if p.documented else ""
    formula = f"`{p.formula}`\n" if p.formula else ""
    return f"""# {p.subject}: {title(p)}

## What happens

{p.happens}

## What is expected, and why

{p.sentence}
{formula}{source(p)}{documented}

## Versions

{versions}

## Reproduction

It needs nothing but what is under test: it raises as long as the fault is there, and passes when it is mended.

```python
{program(p).rstrip()}
```
"""


def title(p: Program) -> str:
    """What is wrong, in a line."""
    options = ", ".join(f"{name}={literal(x)}" for name, x in p.calls[-1].options.items())
    return (p.happens.partition(". ")[0].rstrip(".") or p.sentence.rstrip(".")) + (
        f" with {options}" if options else ""
    )
