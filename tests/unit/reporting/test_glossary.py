"""The words of the project, in the terminal and on their page."""

from pathlib import Path

import pytest

from attnspec.mechanisms.loader import library
from attnspec.reporting.glossary import TERMS, known_words, meanings, page

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_made_from_the_words_of_the_terminal():
    assert [*page()] == (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()


def test_terms_are_in_order_each_with_one_short_sentence():
    assert sorted(TERMS) == list(TERMS)
    assert [] == [
        term for term, (says, where) in TERMS.items() if not says.endswith(".") or len(says) > 100 or not where
    ]


def test_a_term_says_what_it_means_and_where_it_appears():
    lines = [*meanings("bound", library())]
    assert "bound (a term)" == lines[0]
    assert {
        "    How much rounding may change an entry.",
        "    docs/bounds.md, Result of a failure",
    } <= {*lines}
    assert "bound" in known_words(library())


@pytest.mark.parametrize(("word", "first"), [("vacuous", "vacuous (of a report)"), ("bfloat16", "bfloat16 (a dtype)")])
def test_other_words_keep_their_meanings(word, first):
    assert first == next(meanings(word, library()))
