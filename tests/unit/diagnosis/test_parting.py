"""A condition is learned on cases, and stands on others that are drawn against it."""

import itertools

from attnspec.adapters import Adapter
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.conditions import Condition, Fit, Literal
from attnspec.diagnosis.parting import Parting, point_of
from attnspec.diagnosis.phrases import where
from attnspec.diagnosis.steering import redrawn, sized
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

BENCH = run(
    Request(
        subject(Adapter("rows", "softmax", lambda x: x, "numpy")),
        library()["softmax"],
        "float32",
        PROFILES["quick"],
        laws=frozenset({"definition"}),
    )
).bench


class Long(Parting):
    """Wrong from 13 entries on."""

    def wrong(self, sample: Sample) -> bool:
        return sample.values["n"] >= 13


class Odd(Parting):
    """Wrong where the number of entries is odd."""

    exact = True

    def wrong(self, sample: Sample) -> bool:
        return sample.values["n"] % 2 == 1


class Speechless(Parting):
    """Nothing that is drawn says anything."""

    def wrong(self, sample: Sample) -> None:
        return None


def odd_points():
    m = library()["softmax"]
    drawn = plan(m, BENCH.subject.claims, PROFILES["quick"], 0, "float32")
    samples = [s for s in drawn.pairs if s.mechanism is m and s.values["n"] in (1, 2, 16)]
    return [point_of(sample, wrong=sample.values["n"] == 1) for sample in samples]


def points(count):
    m = library()["softmax"]
    drawn = plan(m, BENCH.subject.claims, PROFILES["quick"], 0, "float32")
    samples = itertools.islice((s for s in drawn.pairs if s.mechanism is m), count)
    return [point_of(sample, wrong=sample.values["n"] >= 13) for sample in samples]


def test_a_threshold_is_found_by_bisection():
    fit, tested = Long(BENCH, points(12), 0).stands()
    assert ("n >= 13", True) == (where(fit.condition), tested)


def test_a_literal_that_no_case_has_tested_is_left_out():
    assert Speechless(BENCH, points(12), 0).stands() is None


def test_sizes_past_a_threshold_tell_it_from_a_remainder():
    search = Odd(BENCH, odd_points(), 0)
    fit, stood = search.stands()
    assert ("n is odd", True) == (where(fit.condition), stood)


def test_of_a_condition_that_holds_on_right_cases_as_well_more_is_found_out_once():
    search = Long(BENCH, points(12), 0)
    fit, count = Fit(Condition((Literal("from", "n", 2, 1.6),)), 0, 1.6, partly=True), len(search.points)
    assert [True, False] == [search.sharpened(fit), search.sharpened(fit)]
    assert {True, False} == {point.wrong for point in search.points[count:]}
    assert all(fit.condition.holds(point.facts) for point in search.points[count:] if point.wrong)


def test_what_no_case_can_be_moved_out_of_stays_where_several_right_cases_are_without_it():
    fit = Fit(Condition((Literal("some", "lens", "zero", 1.6), Literal("from", "n", 13, 1.6))), 0, 3.7)
    right = [point_of(p.sample, wrong=False) for p in points(60) if p.facts.sizes["n"] >= 13][:1]
    assert [False, False] == [Speechless(BENCH, 5 * right, 0).tested(one, fit) for one in fit.condition.literals]
    assert [True, False] == [Speechless(BENCH, 6 * right, 0).tested(one, fit) for one in fit.condition.literals]


def test_where_nothing_separates_cases_more_of_them_are_tried_once():
    search = Long(BENCH, points(12), 0)
    assert [True, False] == [search.widened(), search.widened()]
    assert {True, False} == {point.wrong for point in search.points[12:]}
    assert not Odd(BENCH, odd_points(), 0).widened()


def test_a_condition_with_many_exceptions_is_sharpened():
    class Given(Long):
        exceptions, asked = 0, False

        def fit(self):
            return Fit(Condition((Literal("from", "n", 13, 1.6),)), self.exceptions, 1.6)

        def tests(self, condition):
            return iter(())

        def tested(self, literal, fit):
            return True

        def sharpened(self, fit):
            self.asked = True
            return False

    class Vague(Given):
        exceptions = 5

    searches = [kind(BENCH, points(12), 0) for kind in (Given, Vague)]
    assert [True, True] == [search.stands()[1] for search in searches]
    assert [False, True] == [search.asked for search in searches]


class Chancy(Parting):
    """Wrong on some entries, however many there are."""

    def wrong(self, sample: Sample) -> bool:
        return sample.values["n"] >= 13 or sample.case.seed % 3 == 0


def test_without_a_literal_cases_are_drawn_with_other_entries():
    fit = Fit(Condition((Literal("from", "n", 13, 1.6),)), 0, 1.6)
    assert [False, True] == [kind(BENCH, points(12), 0).doubted(fit) for kind in (Long, Chancy)]


def test_a_literal_too_many_is_left_out_when_the_budget_is_spent():
    literals = Literal("from", "n", 13, 1.6), Literal("up to", "rows", 3, 1.8)
    search, fit = Long(BENCH, points(12), 0), Fit(Condition(literals), 0, 3.9)
    search.tries = search.most
    assert search.spent
    assert "rows" not in where(search.shorter(fit).condition)
    assert fit is Speechless(BENCH, points(12), 0).shorter(fit)


class Square(Parting):
    """Wrong where there are as many rows as entries, from two on."""

    def wrong(self, sample: Sample) -> bool:
        return 2 <= sample.values["n"] == sample.values["rows"]


def test_sizes_that_are_the_same_are_moved_together_where_a_threshold_is_sought():
    m = library()["softmax"]
    drawn = plan(m, BENCH.subject.claims, PROFILES["quick"], 0, "float32")
    samples = [s for s in (*drawn.scenarios, *drawn.pairs) if s.mechanism is m and s.entries < 500]
    found = [point_of(s, wrong=2 <= s.values["n"] == s.values["rows"]) for s in samples]
    fit, _ = Square(BENCH, found, 0).stands()
    assert "n = rows and rows >= 2" == where(fit.condition)


class Hidden(Parting):
    """Wrong where the number of entries is odd; that it is right elsewhere shows with some entries alone."""

    exact, shows = True, 0

    def wrong(self, sample: Sample) -> bool | None:
        odd = sample.values["n"] % 2 == 1
        return odd if odd or sample.case.seed == self.shows else None


def test_a_condition_stands_by_right_cases_that_are_wrong_where_it_holds():
    m, claims = library()["softmax"], BENCH.subject.claims
    plain = next(s for s in plan(m, claims, PROFILES["quick"], 0, "float32").pairs if s.mechanism is m)
    (other,) = redrawn(plain, claims, 1)
    wrong = [point_of(sized(plain, claims, "n", n), wrong=True) for n in (3, 5, 9, 11)]
    right = [point_of(sized(other, claims, "n", n), wrong=False) for n in (4, 8, 10, 12)]
    search = Hidden(BENCH, [*wrong, *right], 0)
    search.shows = other.case.seed
    fit, stands = search.stands()
    assert ("n is odd", True) == (where(fit.condition), stands)
