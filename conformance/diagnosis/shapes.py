"""The form of stored records and cases: which keys are read, and the type of each.

Keys that are not named here may stand beside these, for later versions may write more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..cases.workloads import LIES
from ..data.records import by_name, keys, name, number, one_of, or_none, scalar, several, text, truth, whole
from ..frameworks.framework import NAMED
from ..mechanisms.mechanism import LAYOUTS
from ..numerics.formats import FORMATS
from ..numerics.grades import GRADES

VERDICTS = ("pass", "fail", "error", "internal", "waived", "not_declared", "not_tested")
STANDINGS = ("conformant", "violated", "partial", "waived", "not_tested")
FEW = 4096
"""Entries of an array that is written out."""

dtype = one_of(FORMATS)
level = one_of(("must", "should"))
fail_on = one_of(("must", "should", "new"))


def device(x: Any, at: str) -> Iterator[str]:
    if not isinstance(x, str) or not re.fullmatch(NAMED, x):
        yield f"{at} is not a device; expected a name such as cpu, cuda:1 or tpu"


def key(x: Any, at: str) -> Iterator[str]:
    """Of a case: it is part of a path."""
    if not isinstance(x, str) or not re.fullmatch(r"[0-9A-Za-z]{1,40}", x):
        yield f"{at} is not a key of a case; expected letters and digits"


def array(x: Any, at: str) -> Iterator[str]:
    """An array that was written out: its dtype, its shape and its entries."""
    kinds = {"bool": bool, "int64": int, "float64": (int, float, str)}
    shape = keys({"dtype": one_of(kinds), "shape": several(whole), "entries": several(scalar)})
    faults = list(shape(x, at))
    if faults:
        yield from faults[:1]
    elif not len(x["entries"]) == math.prod(x["shape"]) <= FEW or len(x["shape"]) > 16:
        yield f"{at} has {len(x['entries'])} entries, and another shape; expected at most {FEW}"
    elif not all(isinstance(e, kinds[x["dtype"]]) and e is not None for e in x["entries"]):
        yield f"{at} has entries that are no {x['dtype']}"
    elif any(e not in ("inf", "-inf", "nan") for e in x["entries"] if isinstance(e, str)):
        yield f"{at} has a text among its entries; expected numbers, inf, -inf or nan"


_named = one_of(LAYOUTS)


def _layout(x: Any, at: str) -> Iterator[str]:
    """A memory layout by its name, or one that names strides."""
    if not (isinstance(x, str) and LIES.fullmatch(x)):
        yield from _named(x, at)


CASE = keys(
    {
        "mechanism": name,
        "label": text,
        "seed": whole,
        "fixed": by_name(scalar),
        "picks": by_name(whole),
        "scenario": text,
        "regime": text,
        "layout": _layout,
        "literals": by_name(array),
    }
)
LIKENESS = keys(
    {
        "name": name,
        "causes": several(keys({"name": text, "says": text})),
        "agreed": whole,
        "others": several(text),
        "by_laws": truth,
        "runner_up": text,
        "differs": whole,
        "convention": text,
        "word": text,
    },
    {"changed": several(keys({"line": text, "before": text, "after": text}))},
)
OUTCOME = keys(
    {
        "found": scalar,
        "expected": scalar,
        "bound": or_none(number),
        "units": or_none(number),
        "where": several(whole),
        "spoiled": whole,
        "entries": whole,
    },
    {"missed": or_none(keys({"units": or_none(number), "bound": or_none(number)})), "output": text},
)
WHEN = keys(
    {
        "says": text,
        "where": text,
        "wrong": whole,
        "inside": whole,
        "outside": whole,
        "tested": truth,
        "right_in": several(dtype),
        "at": text,
    }
)
ROWS = several(several(scalar))
MAP = keys(
    {"words": text, "case": text, "rows": several(text), "first": whole, "plane": text},
    {"subject": ROWS, "definition": ROWS},
)
FIELD = keys(
    {
        "case": text,
        "plane": several(whole),
        "first": several(whole),
        "found": ROWS,
        "expected": ROWS,
        "units": several(several(or_none(number))),
    }
)
_KEPT = keys(
    {
        "key": key,
        "target": name,
        "subject": name,
        "mechanism": name,
        "law": name,
        "says": text,
        "holds": text,
        "place": text,
        "dtype": dtype,
        "device": device,
        "words": by_name(text),
        "declared": several(text),
        "digest": text,
        "case": CASE,
        "sizes": by_name(scalar),
        "arrays": by_name(text),
        "givens": by_name(text),
        "from": keys({"label": text, "regime": text, "tried": whole}),
        "reason": text,
        "trace": text,
        "certain": truth,
        "grade": text,
        "units": or_none(number),
        "outcome": or_none(OUTCOME),
        "likeness": or_none(LIKENESS),
        "unusual": by_name(scalar),
        "broken": several(name),
    },
    {
        "level": level,
        "full": truth,
        "specs": several(text),
        "layout": text,
        "like": text,
        "least": several(number),
        "before": several(CASE),
        "dependent": truth,
        "retraced": truth,
        "after": text,
        "alone": truth,
        "large": truth,
        "stress": whole,
        "when": or_none(WHEN),
        "nearest": or_none(keys({"name": text, "says": text, "agreed": whole, "cases": whole})),
        "map": or_none(MAP),
        "field": or_none(FIELD),
        "follows": keys({"operator": name, "told": whole}),
    },
)


def witness(x: Any, at: str) -> Iterator[str]:
    """A failure as it is kept."""
    faults = list(_KEPT(x, at))
    if not faults and not set(x["declared"]) <= set(x["words"]):
        faults = [f"{at + '.' if at else ''}declared has conventions without a word"]
    yield from faults


CONVENTION = keys({"word": text, "how": text}, {"agreed": whole, "cases": whole})
EVIDENCE = keys({"scenarios": whole, "mistakes": whole, "unclaimed": whole, "unshown": several(text)})
COVERAGE = keys(
    {"answered": whole, "scenarios": whole, "share": number, "says": text, "by_value": several(text)},
    {"given": several(text)},
)
ERROR = keys({"case": text, "length": whole, "units": number, "row": whole, "rows": whole}, {"score": number})
TIMES = keys({"low": number, "median": number, "high": number})
LINES = {
    "run": keys(
        {},
        {
            "format": whole,
            "attnspec": text,
            "profile": text,
            "seed": scalar,
            "device": text,
            "packages": by_name(text),
            "targets": several(text),
            "fail_on": fail_on,
            "require": several(text),
            "shard": text,
            "specs": several(text),
            "isolation": text,
            "workload": keys(
                {
                    "path": text,
                    "uses": several(keys({"id": name, "operator": name, "dtype": dtype, "says": text, "count": whole})),
                    "left": several(keys({"interface": text, "says": text, "count": whole})),
                }
            ),
        },
    ),
    "expected": keys(
        {"subject": name, "operator": name, "mechanism": name, "dtype": dtype, "device": device, "laws": several(name)}
    ),
    "cell": keys(
        {
            "subject": name,
            "operator": name,
            "mechanism": name,
            "law": name,
            "level": level,
            "dtype": dtype,
            "device": device,
            "verdict": one_of(VERDICTS),
            "cases": whole,
            "worst": or_none(number),
            "says": text,
            "digest": text,
        },
        {
            "version": scalar,
            "resumed": truth,
            "trace": text,
            "unexplained": several(keys({"says": text, "trace": text})),
            "sentence": text,
            "finding": text,
            "note": text,
            "spread": several(whole),
            "witness": witness,
            "run": keys(
                {},
                {
                    "cases": whole,
                    "calls": whole,
                    "seconds": number,
                    "grade": one_of(("", *GRADES)),
                    "ended": text,
                    "conventions": by_name(CONVENTION),
                    "evidence": EVIDENCE,
                    "coverage": COVERAGE,
                    "claimed": text,
                    "untested": several(text),
                    "layout": text,
                    "like": text,
                    "taken": text,
                    "notes": several(text),
                    "interpreted": text,
                    "mended": several(text),
                    "errors": several(ERROR),
                    "times": TIMES,
                },
            ),
        },
    ),
    "subject": keys(
        {"subject": name, "verdict": one_of(STANDINGS)},
        {
            "reasons": several(text),
            "cells": by_name(whole),
            "conventions": by_name(by_name(text)),
            "grades": by_name(text),
            "known": keys({"cells": by_name(whole), "new": whole, "mended": several(text)}),
        },
    ),
    "end": keys({"partial": truth}, {"ended": text, "seconds": number}),
}
"""What a results file has, by the kind of its lines."""


def line(x: Any, at: str) -> Iterator[str]:
    """One line of a results file."""
    faults = list(keys({"kind": text})(x, at))
    if faults:
        yield from faults
    elif x["kind"] in LINES:
        yield from LINES[x["kind"]](x, at)
