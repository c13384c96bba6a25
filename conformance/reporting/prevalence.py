"""How many shipped adapters follow each word of a convention.

`attnspec identify --count docs/conventions.md` counts them on the page that `attnspec identify --all --markdown` makes,
and what it prints is kept beside this module.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

KEPT = Path(__file__).with_suffix(".json")
Counts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Of each operator and convention: how many adapters follow each word, and under `ALL` how many follow any."""
ALL = "adapters"
RARE = 1 / 4
"""The share of adapters up to which a word is rare."""
PAGE = 1 << 22
"""Bytes of a page that is counted."""


@functools.cache
def known() -> Counts:
    """What was counted."""
    return json.loads(KEPT.read_text("utf-8"))


def counted(page: Iterable[str]) -> Counts:
    """The words on a page of tables; one counts for each adapter that follows it in some dtype or on some cases."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    operator, columns = "", list[str]()
    for line in page:
        if line.startswith("## "):
            operator, columns = line.removeprefix("## ").strip(), []
        elif operator and line.startswith("| "):
            entries = [entry.strip() for entry in line.strip().strip("|").split("|")]
            if not columns:
                columns = entries[1:]
                continue
            for convention, entry in zip(columns, entries[1:], strict=True):
                _count(found.setdefault(operator, {}).setdefault(convention, {ALL: 0}), entry)
    return found


def _count(counts: dict[str, int], entry: str) -> None:
    words = _words(entry)
    counts[ALL] += bool(words)
    for word in words:
        counts[word] = counts.get(word, 0) + 1


def _words(entry: str) -> list[str]:
    """The words of an entry: `a`, `**a**`, `a in float32; b in float64`, or `a where x is 1, else b`."""
    parts = re.split(r"; |, else ", entry.replace("*", ""))
    words = dict.fromkeys(part.partition(" ")[0] for part in parts)
    return [word for word in words if re.fullmatch(r"[a-z][a-z0-9_]*", word)]


def rarity(operator: str, convention: str, word: str) -> str:
    """How many follow a word, and what a reader would assume; nothing of a word that is not rare."""
    counts = known().get(operator, {}).get(convention, {})
    words = {name: count for name, count in counts.items() if name != ALL}
    common = max(words, key=lambda name: words[name], default=word)
    if word == common or words.get(word, 0) > RARE * counts[ALL]:
        return ""
    follow = f"{words.get(word, 0)} of {counts[ALL]} adapters follow {word}"
    return f"{follow}, and {words[common]} of them {common}, which a reader would assume"
