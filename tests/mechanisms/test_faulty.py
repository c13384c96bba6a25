"""Faults written as functions: made of right parts but one, told with where they were seen, and refuted."""

import importlib
import inspect
import json
import re

import pytest

from attnspec import adapters
from attnspec.adapters import Adapter
from attnspec.adapters.faults.norms import SOFTMAX, blocks, shared
from attnspec.adapters.faults.whole import OTHERWISE, Whole
from attnspec.auditing import faulty
from attnspec.auditing.faulty import audited_fault, faults_of
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.errors import UsageError
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.schema import spec_folder
from attnspec.subjects.registered import families, fault, faults
from attnspec.subjects.targets import resolve, subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
SMOKE = PROFILES["smoke"]
FAULTS = faults()
WHOLES = {
    f"{module.rpartition('.')[2]}.{name}": whole
    for module in families("faults")
    for name, whole in vars(importlib.import_module(module)).items()
    if isinstance(whole, Whole) and inspect.getsource(importlib.import_module(module)).count(f"\n{name} = ")
}
KNOWN = 250
"""Known ways to be wrong of which it is said where they were seen: no fewer than these."""


@pytest.mark.parametrize("whole", WHOLES.values(), ids=WHOLES)
def test_what_faults_are_made_from_is_conformant(whole):
    declared = {"conventions": whole.conventions, "grade": whole.grade, "requires": whole.requires}
    right = Adapter("right", whole.operator, whole.right(), whole.framework, **declared)
    own = library().of(whole.operator)
    cells = [cell for m in own for cell in run(Request(subject(right), m, "float32", SMOKE)).cells]
    assert [] == [cell.address for cell in cells if cell.bad and cell.level == "must"]
    told = [c for c in cells if c.law == "definition" or own[0].undetermined]  # which has laws alone
    assert "pass" == next(c.verdict for c in told if c.verdict != "not_declared")


@pytest.mark.parametrize(
    ("whole", "size"), [(whole, size) for whole in WHOLES.values() for size in list(whole.sizes)[1:]]
)
def test_what_faults_are_made_from_is_conformant_in_other_sizes(whole, size):
    right = Adapter("right", whole.operator, whole.right(size), whole.framework, conventions=whole.conventions)
    result = run(Request(subject(right), library()[whole.operator], "float32", SMOKE, laws=frozenset({"definition"})))
    assert ["pass"] == [cell.verdict for cell in result.cells if cell.law == "definition"]


# Declaring


def test_a_fault_takes_the_place_of_one_part(monkeypatch):
    monkeypatch.setattr(adapters, "_registered", [])

    @SOFTMAX.instead_of(shared, seen="owner/repository#12", dtypes=("float16",))
    def halved(x, top, total):
        """Shares are halved."""
        return shared(x, top, total) / 2

    (found,) = adapters.registered()
    assert ("fault:halved", "softmax", ("float16",)) == (found.name, found.operator, found.dtypes)
    assert ("Shares are halved.", "owner/repository#12", __name__) == (found.summary, found.seen, found.module)
    assert SOFTMAX.conventions == found.conventions


def test_a_fault_of_tiles_is_made_with_other_sizes_too():
    import torch

    k = torch.arange(40.0).reshape(1, 1, 40, 1)
    q, v = torch.zeros(1, 1, 1, 1), k
    lost = FAULTS["fault:boundary_key_lost"].function
    others = {size: vars(lost)[OTHERWISE][size] for size in ("tiles of 32", "64 keys at a time")}
    sizes = {"16": lost(q, k, v)[0]} | {size: made()(q, k, v)[0] for size, made in others.items()}
    left = [[key for key in range(40) if key % n != n - 1] for n in (16, 32, 64)]
    means = [pytest.approx(sum(keys) / len(keys)) for keys in left]
    assert means == [out.item() for out in sizes.values()]


def test_what_is_no_part_cannot_be_exchanged():
    with pytest.raises(ValueError, match="sorted is not a part of this implementation of softmax"):
        SOFTMAX.instead_of(sorted)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_says_in_one_sentence_what_is_wrong(name):
    assert re.fullmatch(r"[A-Z].*[^.]\.", FAULTS[name].summary)
    assert FAULTS[name].summary == inspect.getdoc(FAULTS[name].function)


def test_no_two_faults_have_one_name():
    registered = [adapter.name for adapter in adapters.registered() if adapter.module in families("faults")]
    assert sorted(FAULTS) == sorted(registered)


# Where it was seen


def test_faults_and_mistakes_say_in_one_way_where_they_were_seen():
    places = json.loads((spec_folder() / "schema.json").read_text())["$defs"]["places"]["pattern"]
    assert [] == [one.name for one in FAULTS.values() if one.seen and not re.search(places, one.seen)]


def test_of_hundreds_of_known_mistakes_it_is_known_where_they_were_seen():
    mistakes = [mistake.seen for m in library().values() for mistake in m.mistakes.values()]
    assert KNOWN <= sum(map(bool, [*mistakes, *(one.seen for one in FAULTS.values())]))


# The audit


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("lanes_of_zeros", r"float32: softmax\.definition on \w+ after \d+ checks"),
        ("boundary_key_twice", r"float32: attention\.definition on \w+ after \d+ checks"),
        ("order_of_atomics", r"float32: attention\.contract\.repeatable on \w+ after \d+ checks"),
        ("mask_inverted_in_place", r"float32: attention\.contract\.inputs_unchanged on \w+ after \d+ checks"),
        ("cache_not_cleared", r"float32: cached_attention\.definition on \w+ after \d+ checks"),
    ],
)
def test_the_audit_tells_what_refutes_a_fault_and_on_which_case(name, told):
    part = audited_fault(f"fault:{name}")
    assert [] == part.faults
    assert re.fullmatch(told, part.notes[0])
    assert [f"{dtype}:" for dtype in FAULTS[f"fault:{name}"].dtypes] == [note.split()[0] for note in part.notes]


def test_a_fault_that_nothing_refutes_is_a_fault_of_the_audit(monkeypatch):
    monkeypatch.setattr(adapters, "_registered", [])
    monkeypatch.setitem(faulty.PROFILES, "quick", SCENARIOS)
    monkeypatch.setattr("attnspec.subjects.registered.families", lambda audited: [__name__])

    @SOFTMAX.instead_of(blocks, dtypes=("float32",))
    def split_in_eights(x):
        """Blocks have eight entries."""
        return list(x.split(8, -1))

    (told,) = audited_fault("fault:split_in_eights").faults
    assert told.startswith("Blocks have eight entries. Nothing refutes it in float32, after ")


def test_the_faults_of_a_mechanism_are_those_of_its_operator():
    assert {"softmax"} == set(faults_of(library(), ["softmax"]))
    assert {"attention"} == set(faults_of(library(), ["alibi", "causal_mask"]))
    assert {} == faults_of(library(), ["alibi_slopes"])


def test_a_fault_is_a_subject():
    (one,) = resolve("fault:boundary_key_twice")
    assert ("fault:boundary_key_twice", "attention") == (one.name, one.operator)


def test_an_unknown_fault_is_refused():
    with pytest.raises(UsageError, match=r"there is no 'fault:boundary_key'; did you mean 'fault:boundary_key_"):
        fault("fault:boundary_key")
