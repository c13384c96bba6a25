"""Restricted and whole evaluations of every definition agree bit for bit, in values and in bounds.

What `stored` rounds alike is counted in what is there: a bound may be less for a part of an array.
"""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.cases.plans import directed
from attnspec.cases.samples import Sample
from attnspec.errors import SpecError
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.restriction import labels_of, restrictable, restricted
from attnspec.numerics import budget
from attnspec.numerics.comparing import recording
from attnspec.numerics.grades import STANDARD
from attnspec.numerics.numbers import Number
from attnspec.numerics.products import by_entry
from attnspec.subjects.stand_ins import DefinitionSubject

LIBRARY = NONE.library()
AXES = {name: axes for name in LIBRARY if (axes := restrictable(LIBRARY[name]))}
WHOLLY = {
    "attention": ("batch", "heads", "q_len"),
    "packed_attention": ("q_tokens", "heads"),
    "paged_attention": ("batch", "q_len", "heads"),
    "cached_attention": ("batch", "heads", "value_dim"),
}
"""The axes that are restricted in cases of the sizes of production."""
SMALL = 1500
"""Entries of a sample that are gone through, entry by entry."""


def parts(x):
    if not isinstance(x, Number):
        return {"value": np.asarray(x)}
    return {"value": x.value, **{part: x.full(getattr(x, part)) for part in ("worst", "variance", "shared")}}


def taken(x, labels, positions):
    """The entries of an output at positions."""
    for at, label in enumerate(labels, -len(labels)):
        if label in positions and -at <= x.ndim and x.shape[at] != 1:
            x = np.take(x, positions[label], at)
    return x


def differing(mechanism, sample, axes, grade):
    """The outputs, with their parts, that are not the same; none where the restriction is refused."""
    values, dtype = {**mechanism.words, **sample.values}, sample.dtype
    positions = {name: np.unique([0, values[name] // 2, values[name] - 1]) for name in axes}
    if any(values[name] < 1 for name in axes):
        return None
    names = [name for name in mechanism.outputs if name not in mechanism.random]
    whole = Frame(mechanism, values, grade=grade, dtype=dtype).outputs(*names)
    found, counting = [], any("stored(" in line.text for line in mechanism.definition.values())
    restriction = restricted(mechanism, axes)
    try:
        part = restriction.frame(values, positions, grade=grade, dtype=dtype).outputs(*names)
    except SpecError as error:
        if "cannot be restricted" in error.message or "are not known" in error.message:
            return None
        raise
    for name in names:
        labels = labels_of(mechanism, name)
        own, expected = parts(part[name]), parts(whole[name])
        for kind, x in expected.items():
            chosen, y = taken(x, labels, positions), own.get(kind)
            pair = np.broadcast_arrays(chosen, y)
            same = y is not None and np.array_equal(*pair, equal_nan=chosen.dtype.kind == "f")
            if counting and kind != "value":
                same = same or (y is not None and bool(np.all(np.isnan(pair[0]) | (pair[1] <= pair[0] * (1 + 1e-9)))))
            found += [] if same else [(name, kind)]
    return found


@pytest.mark.parametrize("name", AXES)
def test_a_part_of_a_definition_is_that_part_of_the_whole(name):
    mechanism, compared = LIBRARY[name], set()
    sets = [set(AXES[name]), *({axis} for axis in AXES[name])]
    cases = [*directed(mechanism, DefinitionSubject(mechanism, "definition").claims, 0)]
    for number, case in enumerate([*cases, *cases[: len(sets)]]):
        dtype = ("float32", "bfloat16")[number % 2]
        sample = Sample(mechanism, case, dtype)
        if sample.entries > SMALL:
            continue
        axes = sets[number % len(sets)]
        with np.errstate(all="ignore"), by_entry(), recording(), budget.metered():
            found = differing(mechanism, sample, axes, STANDARD[dtype])
        assert (case.label, axes, found or []) == (case.label, axes, [])
        compared |= axes if found is not None else set()
    assert compared
    assert name not in WHOLLY or compared == set(AXES[name])


@pytest.mark.parametrize("name", WHOLLY)
def test_the_axes_that_may_be_restricted_are_found(name):
    assert AXES[name] == WHOLLY[name]


def test_what_is_computed_along_an_axis_is_a_fault():
    with pytest.raises(SpecError, match="the axis k_len cannot be restricted: any goes along it"):
        restricted(LIBRARY["attention"], {"k_len"})
