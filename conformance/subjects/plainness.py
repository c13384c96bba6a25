"""Whether a class of a file is plain attention, by its name and by the words of its source; it is not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PLAIN = {
    *("attention", "attn", "mha", "mhsa", "head", "heads", "headed", "multi", "self", "cross", "causal", "masked"),
    *("scaled", "dot", "product", "softmax", "layer", "module", "my", "simple", "basic", "vanilla", "standard", "full"),
    *(
        "dense",
        "encoder",
        "decoder",
        "transformer",
        "bert",
        "vit",
        "gpt",
        "2",
        "shared",
        "grouped",
        "query",
        "gqa",
        "mqa",
    ),
}
"""Of what the name of a class is made that claims nothing but attention between projections."""
FURTHER = (
    *("rot", "rope", "freq", "cos", "sin", "alibi", "slope", "posit", "pos", "rel", "bucket"),
    *("window", "local", "dilat", "stride", "sparse", "landmark", "global", "sink", "cache", "memor", "past"),
    *("norm", "softcap", "cap", "tanh", "temper", "tau", "gate", "gating", "conv", "lora", "latent"),
    *("elu", "phi", "kernel", "talking", "lambda", "differential"),
)
"""How words begin that speak of something that such attention does not have."""


def is_plain(path: Path, name: str) -> bool:
    """Whether a class, with those of the same file that it is made of, speaks of plain attention alone."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    if not {word.lower() for word in words} <= PLAIN:
        return False
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    said = {word for each in _made_of(name, classes) for word in _words(classes[each])}
    return not any(word.startswith(FURTHER) for word in said)


def _made_of(name: str, classes: dict[str, ast.ClassDef]) -> list[str]:
    """A class, and those of its file from which it inherits."""
    found = [name] if name in classes else []
    for each in found:
        bases = [base.id for base in classes[each].bases if isinstance(base, ast.Name)]
        found += [base for base in bases if base in classes and base not in found]
    return found


def _words(node: ast.AST) -> Iterator[str]:
    """The words of all names in a class, in small letters."""
    for each in ast.walk(node):
        names = (getattr(each, field, None) for field in ("id", "attr", "arg", "name"))
        for name in filter(None, names):
            yield from (word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))
