"""Whether a class of a file is plainly its operator, by its name and by the words of its source; it is not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ANY = "module my simple basic vanilla standard dense layer encoder decoder transformer bert vit gpt 2 shared"
PLAIN = {
    "multi_head": f"{_ANY} attention attn mha mhsa head heads headed multi self cross causal masked scaled dot product "
    "softmax full grouped query gqa mqa",
    "feed_forward": f"{_ANY} feed forward mlp ffn ff position wise positionwise network net gelu relu gated",
}
"""By operator, of what the name of a class is made that claims nothing but it."""
FURTHER = {
    "multi_head": "rot rope freq cos sin alibi slope posit pos rel bucket window local dilat stride sparse landmark "
    "global sink cache memor past norm softcap cap tanh temper tau gate gating conv lora latent elu phi kernel talking "
    "lambda differential",
    "feed_forward": "norm conv lora expert moe rout cap clamp clip tanh sigmoid elu selu celu mish softplus leaky "
    "prelu sin cos shift mix res skip gamma alpha temper quant low rank kernel",
}
"""How words begin that speak of something that such a class does not have."""


def is_plain(path: Path, name: str, operator: str) -> bool:
    """Whether a class, with those of the same file that it is made of, speaks of nothing but an operator."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    if not {word.lower() for word in words} <= {*PLAIN.get(operator, "").split()}:
        return False
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    said = {word for each in _made_of(name, classes) for word in _words(classes[each])}
    return not any(word.startswith((*FURTHER[operator].split(),)) for word in said)


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
