"""What becomes of a NaN in a query is noted, and nobody is accused of it: correct kernels differ."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject

FEW = Profile("few", covering=1, draws=0, admitted=2)
LAWS = frozenset({"poisoned_query", "poisoned_alone"})
MECHANISMS = ("attention", "packed_attention", "paged_attention", "cached_attention")


def cells(one, mechanism, laws=LAWS):
    result = run(Request(one, library()[mechanism], "float32", FEW, laws=laws))
    return {cell.law: (cell.level, cell.verdict) for cell in result.cells}


def changed(mechanism, text):
    m = library()[mechanism]
    return DefinitionSubject(m, "changed", {"attended": Expression(text, m.definition["attended"].scope)})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_definition_carries_a_nan_to_its_own_row_alone(mechanism):
    found = cells(DefinitionSubject(library()[mechanism], "definition"), mechanism)
    assert dict.fromkeys(LAWS, ("should", "pass")) == {law: found[law] for law in LAWS}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_zeros_for_what_is_not_a_number_are_noted(mechanism):
    m = library()[mechanism]
    inner = m.definition["attended"].text
    one = changed(mechanism, f"where(finite({inner}), {inner}, 0)")
    found = cells(one, mechanism, None)
    assert {("poisoned_query", "should")} == {
        (law, level) for law, (level, verdict) in found.items() if verdict == "fail"
    }


def one_maximum(q, k, v):
    """Attention whose rows share one maximum, as rows of a tile may."""
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q.astype(float) @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max((-1, -2), keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).astype(q.dtype)


def test_a_nan_that_reaches_other_rows_is_noted():
    found = cells(subject(Adapter("one_maximum", "attention", one_maximum, "numpy")), "attention")
    assert ("should", "fail") == found["poisoned_alone"]
