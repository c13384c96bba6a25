"""Where outputs are random, what breaks the same laws is the same only if its rows come as often."""

from collections import Counter

import pytest

from attnspec.cases.profiles import Profile
from attnspec.diagnosis.candidates import Candidate
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.signatures import Signature, like_rows
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import mistake

pytestmark = pytest.mark.usefixtures("steady")

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)


def failing(address, law):
    m = library()[address.partition(".")[0]]
    result = run(Request(mistake(address), m, "float32", SCENARIOS, laws=frozenset({law})))
    return result.bench, next(cell.failure for cell in result.cells if cell.bad)


@pytest.mark.parametrize(("count", "like"), [(300, True), (330, True), (600, False), (0, False)])
def test_rows_are_alike_if_each_comes_as_often_as_chance_allows(count, like):
    assert like is like_rows(Counter(a=300, b=700), Counter(a=count, b=1000 - count))


def test_no_rows_are_like_any():
    assert like_rows(Counter(), Counter(a=1))


NEAR = ["further_most_likely", "further_by_first_draw"]


@pytest.mark.parametrize("own", NEAR)
def test_of_two_mistakes_that_break_the_same_laws_the_one_is_known_by_its_rows(own):
    bench, failure = failing(f"speculative_sampling.{own}", "drawn_as_often")
    signature = Signature(bench, failure, 0)
    known = [bench.mechanism.mistakes[name] for name in NEAR]
    assert [own] == [x.name for x in known if signature.same(Candidate(x.name, x.says, x.change))]
    assert f"speculative_sampling.{own}" == diagnose(bench, failure, 0).name


def test_of_a_mistake_that_is_not_known_nothing_is_said_that_has_other_rows():
    bench, failure = failing("speculative_sampling.further_most_likely", "drawn_as_often")
    assert diagnose(bench, failure, 0, without={"speculative_sampling.further_most_likely"}) is None
