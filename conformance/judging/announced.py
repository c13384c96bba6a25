"""What a report begins with: the layout that a function reads, and the interface that it is treated as."""

from __future__ import annotations

import re

from ..mechanisms.signatures import Signature, beside
from ..mechanisms.stated import is_stated
from ..subjects.subject import AdapterSubject, Subject


def taken_told(subject: AdapterSubject) -> str:
    """What a report begins with: the layout that is to be declared, and the interface that a function is treated as."""
    taken = subject.form.taken
    if taken is None:
        return layout_told(subject)
    layout = layout_told(subject)
    told = f"{f'{layout}; it' if layout else subject.name} is treated as {interface_told(taken.signature)}"
    elsewhere = {name for one in beside(taken.signature.name) for name in one.mapped}
    left = [name for name in taken.left if name not in elsewhere]
    return told + (f"; not tested: {', '.join(left)}" if left else "")


def interface_told(signature: Signature) -> str:
    """What a known interface is called, with its file, or what stands for what in one that is stated in a line."""
    if not is_stated(signature.name):
        return f"{signature.name} ({signature.path})"
    plain = {name: x for name, x in signature.parameters.items() if x.how not in ("dtype", "device")}
    single = {name: x.texts[0] for name, x in plain.items() if len(x.texts) == 1}
    renamed = {name: text for name, text in single.items() if text != name}
    options = {name: option for name, text in renamed.items() if _is_name(option := _option(text))}
    parts = [f"`{name}` for `{option}`" for name, option in options.items() if option != name]
    parts += [f"`{name}` for the dtype of {x.texts[0]}" for name, x in signature.parameters.items() if x.how == "dtype"]
    said = ", ".join(parts)
    return f"{signature.operator}" + (f": {said}" if said else "")


def _is_name(text: str) -> bool:
    return text.isidentifier() and text not in ("true", "false", "none")


def _option(text: str) -> str:
    """The option that an expression passes, or something in place of none; or the expression."""
    found = re.fullmatch(r".* if (\w+) == none else \1", text)
    return found[1] if found else text


def layout_told(subject: Subject) -> str:
    """What is said of a layout that was identified and is not the operator's; nothing where there is none."""
    if not isinstance(subject, AdapterSubject) or not subject.observed_layout:
        return ""
    return f'{subject.name} reads {subject.form.in_words()}: declare layout = "{subject.form.layout.name}"'
