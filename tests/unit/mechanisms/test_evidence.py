"""Which scenarios show which mistakes: read, counted, and put in order."""

from dataclasses import replace
from pathlib import Path

import pytest

from attnspec.cases.plans import Plan, beyond_limits
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms import evidence
from attnspec.mechanisms.evidence import Evidence, derived, digest_of, dtypes_shown, evidence_of, write
from attnspec.mechanisms.loader import library, load
from attnspec.mechanisms.schema import spec_folder
from attnspec.subjects.stand_ins import DefinitionSubject

KNOWN = Evidence(
    "digest",
    {"plain": 1.0, "long": 9.0, "large": 1.0, "rare": 2.0},
    {"base_two": "4400", "late": "0300", "clipped": "0012", "unshown": "0000"},
)


@pytest.mark.parametrize(
    ("mistake", "dtype", "expected"),
    [
        ("base_two", "bfloat16", {"plain", "long"}),
        ("late", "float16", {"long"}),
        ("late", "bfloat16", {"long"}),  # the most there is
        ("clipped", "float64", {"large", "rare"}),
        ("clipped", "float32", {"rare"}),
        ("unshown", "float64", set()),
        ("unheard_of", "float64", set()),
    ],
)
def test_a_mistake_shows_on_scenarios_in_a_dtype(mistake, dtype, expected):
    assert expected == KNOWN.telling(mistake, dtype)


def test_what_a_single_scenario_shows_hangs_on_it():
    assert {"late": "long", "clipped": "rare"} == KNOWN.hanging("float32")


def test_a_mistake_may_show_in_fine_dtypes_alone():
    assert [True, True, True, False] == [KNOWN.shown_in("late", dtype) for dtype in evidence.DTYPES]


@pytest.mark.parametrize(
    ("labels", "dtype", "expected"),
    [
        (["plain", "long", "large", "rare"], "float64", ["large", "long"]),  # which makes plain superfluous
        (["plain", "long"], "float16", ["long"]),
        (["plain", "large", "rare"], "float64", ["plain", "large"]),
        (["plain", "large", "rare"], "bfloat16", ["plain", "rare"]),
        (["new"], "float64", []),
    ],
)
def test_the_core_shows_every_mistake_that_all_scenarios_show(labels, dtype, expected):
    assert expected == KNOWN.core(labels, dtype)


def test_what_was_not_tried_does_not_show_mistakes():
    assert ["late", "unshown"] == KNOWN.unshown(["plain", "rare"], "float32")


def test_a_dtype_may_know_better():
    amended = KNOWN.amended("base_two", "bfloat16", {"plain"}, "rare")
    assert "3404" == amended.shows["base_two"]
    assert "0300" == amended.shows["late"]
    assert "4400" == KNOWN.amended("base_two", "float32", set(), "pair 3").shows["base_two"]


@pytest.mark.parametrize(("excess", "count"), [(0.0, 0), (1.5, 0), (1e6, 1), (1e10, 2), (1e13, 3), (1e14, 4)])
def test_an_error_shows_in_those_dtypes_whose_rounding_it_exceeds(excess, count):
    assert count == dtypes_shown(excess)


def test_evidence_is_written_and_read(monkeypatch):
    monkeypatch.setattr(evidence, "FOLDER", Path("evidence"))
    softmax = library()["softmax"]
    assert evidence_of(softmax) is None
    found = derived(softmax, {"plain": 0.00123, "long": 0.0}, {"base_two": {"plain": 1e14}})
    assert Evidence(digest_of(softmax), {"plain": 1.2, "long": 0.0}, {"base_two": "40"}) == found
    write(softmax, found)
    assert found == evidence_of(softmax)
    write(softmax, replace(found, digest="of another text"))
    assert evidence_of(softmax) is None


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("title: Softmax", "title: The softmax", True),
        ("base_two:\n    says: ", "base_two:\n    says: Here, ", True),
        ("terms = 2.0 ** ", "terms = 2.5 ** ", False),
        ("definition:\n", "definition:\n  unused: 1\n", False),
        ("scenarios:\n", "scenarios:\n  further: n = 7\n", False),
    ],
)
def test_evidence_is_of_draws_definition_and_mistakes(old, new, same):
    shipped = (spec_folder() / "softmax.yaml").read_text("utf-8")
    assert 1 == shipped.count(old)
    Path("softmax.yaml").write_text(shipped.replace(old, new))
    edited = load([Path("softmax.yaml")])["softmax"]
    assert same == (digest_of(library()["softmax"]) == digest_of(edited))


@pytest.mark.parametrize("name", sorted(library()))
def test_shipped_evidence_is_of_the_shipped_text(name):
    found, mechanism = evidence_of(library()[name]), library()[name]
    assert found is not None, f"attnspec audit --derive --mechanism {name}"
    assert set(mechanism.mistakes) == set(found.shows)
    assert {len(found.milliseconds)} == {len(digits) for digits in found.shows.values()}


@pytest.mark.parametrize("name", ["softmax", "rotary", "top_p_filter"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_smoke_test_finds_every_known_mistake(name, dtype):
    m = library()[name]
    for mistake in m.mistakes.values():
        wrong = DefinitionSubject(m, mistake.name, mistake.change, dtypes=(dtype,))
        result = run(Request(wrong, m, dtype, PROFILES["smoke"], first=True))
        assert any(cell.bad and cell.level == "must" for cell in result.cells), mistake.name


def test_where_time_is_short_what_shows_most_is_tried_first_and_nothing_is_lost():
    m = library()["softmax"]
    claims = DefinitionSubject(m, "definition").claims
    quick, smoke = (Plan(m, claims, PROFILES[profile], 0, "float32") for profile in ("quick", "smoke"))
    labels = [sample.case.label for sample in next(quick.urgent())]
    assert quick.core == labels[: len(quick.core)]
    assert list(m.scenarios) == [sample.case.label for sample in quick.first][: len(m.scenarios)]
    assert sorted(quick.core) == sorted(sample.case.label for sample in smoke.first)
    assert sorted(labels) == sorted(evidence_of(m).milliseconds)


def test_scenarios_beyond_the_limits_of_a_subject_are_told_with_the_limits():
    m = library()["softmax"]
    claims = DefinitionSubject(m, "definition").claims
    assert {} == beyond_limits(m, claims, "float32")
    found = beyond_limits(m, replace(claims, limits={"n": range(1, 9)}), "float32")
    assert ["n"] == found["very_long"]
    assert "one_entry" not in found
