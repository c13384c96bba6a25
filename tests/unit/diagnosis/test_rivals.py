"""What gives no result where the subject raises an error explains more than what has one there."""

from attnspec.cases.profiles import Profile
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)


def named(text):
    """The name of a definition of attention that forgets by channels whose factor is a text."""
    m = library()["wkv7"]
    changed = DefinitionSubject(m, "changed", {"factor": Expression(text, m.definition["factor"].scope)})
    result = run(Request(changed, m, "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad and cell.failure.outcome.fault is None)
    return diagnose(result.bench, failure, 0).name


def test_a_mistake_is_named_where_the_subject_answers_every_call():
    assert "wkv7.always_by_the_root" == named("key_dim ** -0.5")


def test_a_swapped_test_for_an_option_is_told_by_the_errors_without_it():
    assert "scale != none" in named("key_dim ** -0.5 if scale != none else scale")
