"""What Hypothesis draws: as many cases as asked for, all different, kept where they are drawn again."""

import gc
import threading

import pytest
from hypothesis.internal.conjecture import providers

from attnspec.cases import disk, drawing, exploring
from attnspec.cases.exploring import Example, Examples, Structures, _repeated, explored
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.subjects.claims import Claims
from attnspec.subjects.stand_ins import DefinitionSubject

ATTENTION = library()["attention"]
EVERYTHING = Claims(frozenset({*ATTENTION.optional, *ATTENTION.options}), ("float32",))


def test_explored_cases_are_as_many_as_asked_for_and_differ():
    samples = explored(ATTENTION, EVERYTHING, 0, "float32", 20)
    assert 20 == len(samples)
    assert len({sample.case.key for sample in samples}) > 15
    assert len({sample.layout for sample in samples}) > 1
    assert len({sample.case.regime for sample in samples}) > 1


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/values"


def drawn_again(m: Mechanism, seed, monkeypatch):
    """The draws of a plan, and those of a process that finds them kept."""
    found = []
    for _ in range(2):
        monkeypatch.setattr(drawing, "Samples", type("Samples", (drawing.Samples,), {}))
        found.append(explored(m, DefinitionSubject(m, "definition").claims, seed, "float32", 4))
        monkeypatch.setattr(exploring, "_explored", None)
    return found


@pytest.mark.parametrize("name", ["attention", "attention_gradient", "packed_attention", "paged_attention", "einsum"])
def test_draws_are_made_once(name, monkeypatch):
    first, second = drawn_again(library()[name], 3, monkeypatch)
    assert 4 == len(first)
    assert [s.case for s in first] == [s.case for s in second]
    assert [disk.key_of(s) for s in first] == [disk.key_of(s) for s in second]
    assert all(one is not other for one, other in zip(first, second, strict=True))


def test_draws_that_are_not_drawn_again_are_not_kept(monkeypatch, folder):
    monkeypatch.setattr(exploring, "_redrawn", lambda sample, claims: False)
    m = library()["softmax"]
    explored(m, DefinitionSubject(m, "definition").claims, 3, "float32", 2)
    assert not folder.exists()


def test_no_case_depends_on_the_sources_of_modules_that_are_loaded(monkeypatch):
    monkeypatch.setattr(providers, "_get_local_constants", read := lambda: pytest.fail("sources are read"))
    explored(ATTENTION, EVERYTHING, 5, "float32", 20)
    assert read is providers._get_local_constants


def test_what_hypothesis_knows_of_other_tests_is_as_it_was():
    known = providers.CONSTANTS_CACHE
    explored(library()["softmax"], Claims(frozenset(), ("float32",)), 5, "float32", 2)
    assert known is providers.CONSTANTS_CACHE


@pytest.mark.parametrize(
    "name", ["attention", "attention_gradient", "paged_attention", "einsum", "generate", "quantize"]
)
def test_cases_are_the_same_whether_or_not_another_dtype_was_drawn_before(name, monkeypatch):
    m, found = library()[name], []
    claims = DefinitionSubject(m, "definition").claims
    for before in ((), ("float32", "float16")):
        monkeypatch.setenv("ATTNSPEC_CACHE", "off")
        m.kept(Examples).clear()
        for dtype in before:
            explored(m, claims, 3, dtype, 12)
        found.append([sample.case for sample in explored(m, claims, 3, "bfloat16", 12)])
    assert 12 == len(found[0])
    assert found[0] == found[1]


def test_hypothesis_is_not_asked_again_for_another_dtype(monkeypatch):
    ATTENTION.kept(Examples).clear()
    explored(ATTENTION, EVERYTHING, 7, "float32", 4)
    monkeypatch.setattr(exploring, "_drawn_anew", None)
    assert 4 == len(explored(ATTENTION, EVERYTHING, 7, "float16", 4))


def test_hypothesis_does_not_search_for_garbage_among_all_that_there_is(monkeypatch):
    monkeypatch.setattr("attnspec.mechanisms.library._others_froze", False)
    gc.unfreeze()
    searched, everything = [], len(gc.get_objects())
    monkeypatch.setattr(gc, "collect", lambda: searched.append(len(gc.get_objects())))
    ATTENTION.kept(Examples).clear()
    drawing = threading.Thread(target=explored, args=(ATTENTION, EVERYTHING, 5, "float32", 1))  # the first of a thread
    drawing.start()
    drawing.join()
    assert [True] == [n < everything / 10 for n in searched]
    assert 0 == gc.get_freeze_count()
    gc.freeze()  # as it was


def test_examples_are_drawn_anew_where_something_else_comes_of_them():
    structures = Structures(ATTENTION, EVERYTHING, "float32")
    ATTENTION.kept(Examples).clear()
    explored(ATTENTION, EVERYTHING, 7, "float16", 2)
    (examples,) = ATTENTION.kept(Examples).values()
    first = examples[0]
    assert _repeated(structures, examples) is not None
    for other in (
        Example(first.choices, not first.fits),
        Example(first.choices[:-1], first.fits),
        Example([*first.choices, (2, 0)], first.fits),
        Example([(n + 1, index) for n, index in first.choices], first.fits),
        Example(first.choices, None),
    ):
        assert _repeated(structures, [other]) is None
    assert [] == _repeated(structures, [Example(first.choices[:2], None)])
