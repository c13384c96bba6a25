"""The parameters of a function whose own signature says nothing of them.

Those of a function in C are said by its documentation, which begins as `f(query, key, scale=None) -> Tensor`, those of
one that TorchScript has compiled by what was written, and those of a step of autograd by its forward pass. What a
function of one tuple or dict takes is said by how it unpacks that: `q, k, v = data`. Nothing here knows attnspec, for
it also serves where that is not to be seen.
"""

import ast
import inspect
import re
import textwrap
from typing import Any

BUNDLES = ("data", "inputs", "input_data", "args", "arguments", "batch", "tensors")
"""What a parameter is called that holds all others."""
WRITTEN = "_torchdynamo_inline"
"""The attribute by which torch keeps the function that TorchScript has compiled."""


def documented(function: Any) -> Any:
    """A function with a signature that names its parameters; itself where it has one, or nothing says one."""
    if isinstance(function, Documented):
        return function
    bundle = _bundle(function)
    if bundle is not None:
        return Bundled(function, *bundle)
    step = _step(function)
    if step is not None:
        _, *parameters = inspect.signature(step.forward).parameters.values()
        return ByPlace(step.apply, inspect.Signature(parameters), step.__name__ if step is function else "")
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        if inspect.isfunction(written := getattr(function, WRITTEN, None)):
            return Scripted(function, written)
        found = stated(str(getattr(function, "__doc__", None) or ""))
        return function if found is None else Documented(function, found)
    return function


def _step(function: Any) -> Any:
    """The class of a step of autograd, which is given itself or by its `apply`; None for anything else."""
    step = getattr(function, "__self__", None) if getattr(function, "__name__", "") == "apply" else function
    both = inspect.isclass(step) and all(callable(getattr(step, name, None)) for name in ("apply", "backward"))
    return step if both and inspect.isfunction(getattr(step, "forward", None)) else None


class Documented:
    """A function with parameters that it does not name itself."""

    def __init__(self, function, signature, name=""):
        self.function, self.__signature__ = function, signature
        self.__name__, self.__doc__ = name or getattr(function, "__name__", ""), getattr(function, "__doc__", None)
        self.__module__ = str(getattr(function, "__module__", None) or "")

    def __call__(self, *given, **named):
        return self.function(*given, **named)


class Scripted(Documented):
    """A function that TorchScript has compiled, which is named as it was written."""

    def __init__(self, function, written):
        super().__init__(function, inspect.signature(written), written.__name__)
        self.__wrapped__, self.__doc__, self.__module__ = written, written.__doc__, written.__module__


class ByPlace(Documented):
    """A function that takes nothing by name."""

    def __call__(self, *given, **named):
        bound = self.__signature__.bind(*given, **named)
        bound.apply_defaults()
        return self.function(*bound.args)


class Bundled(Documented):
    """A function of one tuple or dict as one of what is in it."""

    def __init__(self, function, names, bundle):
        """`bundle` is "tuple" or "dict"."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        super().__init__(function, inspect.Signature([inspect.Parameter(name, kind) for name in names]))
        self.__wrapped__, self.bundle = function, bundle

    def __call__(self, *given, **named):
        bound = self.__signature__.bind(*given, **named)
        return self.function(bound.args if self.bundle == "tuple" else dict(bound.arguments))


def _bundle(function):
    """What is in the only parameter of a function, and whether that is a tuple or a dict; None where it has others."""
    plain = inspect.unwrap(function) if callable(function) else function
    if not inspect.isfunction(plain):
        return None
    taken = [*inspect.signature(plain).parameters.values()]
    if len(taken) != 1 or taken[0].name not in BUNDLES or taken[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    except (OSError, TypeError, SyntaxError):
        return None
    return _unpacked(tree, taken[0].name)


def _unpacked(tree, name):
    """The names that a tuple is unpacked to, in one line or by its places, or by which a dict is read."""
    places, keys = {}, {}
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and isinstance(value, ast.Name) and value.id == name:
            targets = getattr(node.targets[0], "elts", ())
            if len(targets) > 1 and all(isinstance(target, ast.Name) for target in targets):
                return [target.id for target in targets], "tuple"
        if isinstance(node, ast.Subscript) and isinstance(value, ast.Name) and value.id == name:
            key = getattr(node.slice, "value", None)
            keys |= {key: None} if isinstance(key, str) and key.isidentifier() else {}
        if isinstance(node, ast.Assign) and isinstance(value, ast.Subscript) and isinstance(node.targets[0], ast.Name):
            place = getattr(value.slice, "value", None)
            if isinstance(value.value, ast.Name) and value.value.id == name and type(place) is int:
                places[place] = node.targets[0].id
    if len(places) > 1 and sorted(places) == [*range(len(places))]:
        return [places[place] for place in sorted(places)], "tuple"
    return ([*keys], "dict") if keys else None


def stated(text):
    """The signature that a text begins with; None where it begins with none."""
    said = re.match(r"[\w.]+(?=\()", text.strip())
    try:
        tree = ast.parse(f"def f{_head(text.strip()[said.end() :])}: ..." if said else "").body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    own, kinds = tree.args, inspect.Parameter
    by_position = [*own.posonlyargs, *own.args]
    defaults = [*[None] * (len(by_position) - len(own.defaults)), *own.defaults]
    found = [
        _parameter(arg, kinds.POSITIONAL_ONLY if arg in own.posonlyargs else kinds.POSITIONAL_OR_KEYWORD, default)
        for arg, default in zip(by_position, defaults, strict=True)
    ]
    found += [
        _parameter(arg, kinds.KEYWORD_ONLY, default)
        for arg, default in zip(own.kwonlyargs, own.kw_defaults, strict=True)
    ]
    return inspect.Signature(found)


def _head(text):
    """A text as far as its first brackets go, without what is returned."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character in ")]" and depth == 0:
            return text[: at + 1]
    return text


def _parameter(arg, kind, default):
    annotation = ast.unparse(arg.annotation) if arg.annotation else inspect.Parameter.empty
    return inspect.Parameter(arg.arg, kind, default=_value(default), annotation=annotation)


def _value(default):
    """A default in plain values; None for any other."""
    if default is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError, SyntaxError):
        return None
