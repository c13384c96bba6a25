"""How common a word is: counted on the page of conventions, and said of a rare word that was only observed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.mechanisms.loader import library
from attnspec.reporting.prevalence import ALL, KEPT, counted, known, rarity
from attnspec.reporting.summary import rows

PAGE = Path(__file__).resolve().parents[3] / "docs" / "conventions.md"


def test_what_is_kept_is_what_the_page_of_conventions_says():
    result = CliRunner().invoke(main, ["identify", "--count", str(PAGE)])
    assert (0, KEPT.read_text("utf-8")) == (result.exit_code, result.output)


def test_every_word_that_is_counted_is_one():
    for operator, conventions in known().items():
        for convention, counts in conventions.items():
            assert set() == set(counts) - {ALL, *library()[operator].conventions[convention]}


def test_a_word_counts_for_each_adapter_that_follows_it_somewhere():
    page = """# What

## attention

| implementation | empty_row | grouping |
|---|---|---|
| a | mean_value in float32 and bfloat16; nans in float64 | block |
| b | **zeros** | - |
| c | ? | zeros where q_len is 1, else nans |
| d | ? in float32; zeros in float64 | block |
"""
    assert {
        "attention": {
            "empty_row": {ALL: 3, "mean_value": 1, "nans": 1, "zeros": 2},
            "grouping": {ALL: 3, "block": 2, "zeros": 1, "nans": 1},
        }
    } == counted(page.splitlines())


COUNTS = {"attention": {"grouping": {ALL: 37, "block": 20, "paged": 15, "tiled": 2}}}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("tiled", "2 of 37 adapters follow tiled, and 20 of them block, which a reader would assume"),
        ("strange", "0 of 37 adapters follow strange, and 20 of them block, which a reader would assume"),
        ("block", ""),
        ("paged", ""),
    ],
)
def test_a_rare_word_is_told_with_the_common_one(word, says, monkeypatch):
    monkeypatch.setattr("attnspec.reporting.prevalence.known", lambda: COUNTS)
    assert says == rarity("attention", "grouping", word)
    assert "" == rarity("softmax", "grouping", word)
    assert "" == rarity("attention", "empty_row", word)


def test_a_rare_word_that_was_observed_is_told_in_the_summary(monkeypatch):
    monkeypatch.setattr("attnspec.reporting.prevalence.known", lambda: COUNTS)

    def lines(how, word):
        found = {"grouping": {"word": word, "how": how, "agreed": 3, "cases": 3}}
        cell = {"operator": "attention", "mechanism": "attention", "dtype": "float32", "verdict": "pass"}
        return [*rows("kernel", [{**cell, "level": "must", "run": {"conventions": found}}])][2:]

    said = "    grouping: 2 of 37 adapters follow tiled, and 20 of them block, which a reader would assume"
    assert ["  observed: grouping = tiled", said] == lines("observed", "tiled")
    assert ["  observed: grouping = block"] == lines("observed", "block")
    assert [] == lines("declared", "tiled")


def test_the_counts_are_shipped():
    assert known() == json.loads(KEPT.read_text("utf-8"))
    text = (PAGE.parents[1] / "pyproject.toml").read_text("utf-8")
    assert f'"{KEPT.name}"' in text.partition("package-data]")[2].partition("\n\n")[0]
