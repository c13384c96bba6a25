"""What two implementations differ in, as people read it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from attnspec.reporting.side_by_side import answer, less_precise, markdown, page, rows_of

SIZES = {"q_len": 2, "k_len": 1, "causal": True, "softcap": None}
WITNESS = {"sizes": SIZES, "place": "out[0, 0]", "a": 0.0, "b": -1.0}
WHERE = {"conditions": ["causal", "q_len != k_len"], "cases": 7, "such": 8}
SAME: dict[str, Any] = {
    "operator": "attention",
    "a": {
        "name": "old",
        "target": "k.py:old",
        "subject": "old",
        "layout": "",
        "python": "3.12.1",
        "packages": {"torch": "2.9"},
    },
    "b": {
        "name": "new",
        "target": "k.py:new",
        "subject": "new",
        "layout": "",
        "python": "3.12.1",
        "packages": {"torch": "2.9"},
    },
    "verdict": "same",
    "sentence": "",
    "cases": 96,
    "both_wrong": 0,
    "broken": [],
    "ended": "",
    "conventions": [],
    "lacks": [],
    "refusals": [],
    "open": [],
    "wrong": [],
    "precision": [],
    "bits": {"same": 96, "cases": 96, "apart": 0.0, "witness": None},
    "contracts": [],
}
CONVENTION = {
    "convention": "causal_alignment",
    "a": "bottom_right",
    "b": "top_left",
    "dtypes": ["float32"],
    "where": WHERE,
    "witness": WITNESS,
}
WRONG = {
    "wrong": "b",
    "law": "attention.definition",
    "sentence": "Every output agrees with the definition.",
    "says": "",
    "also": ["attention.convex"],
    "dtypes": ["float32", "bfloat16"],
    "where": WHERE,
    "sizes": SIZES,
    "found": -1.0,
    "expected": 0.0,
    "units": 1.5e7,
}
PRECISION = {
    "dtype": "float32",
    "a": "fp32",
    "b": "tf32",
    "claimed": ["fp32", "fp32"],
    "laws": {"attention.definition": [0.2, 40.0], "attention.convex": [None, 0.3], "attention.linear": [0.2, 0.2]},
}
REST = {
    "refusals": [{"refuses": "a", "says": "no mask", "dtypes": ["float32"], "where": WHERE}],
    "open": [{"output": "lse", "mechanism": "attention", "dtypes": ["float32"], "where": WHERE, "witness": WITNESS}],
    "contracts": [{"contract": "fresh_output", "keeps": "a", "says": "it shares memory", "dtypes": ["float32"]}],
}


def differing(**more: Any) -> Any:
    return {**deepcopy(SAME), "bits": {"same": 31, "cases": 96, "apart": 0.25, "witness": WITNESS}, **more}


def whole(pair: Any) -> Any:
    head = {"format": 1, "attnspec": "", "platform": "", "command": "attnspec diff k.py:old k.py:new", "started": ""}
    return {**head, "profile": "quick", "seed": 0, "device": "cpu", "seconds": 1.0, "pairs": [pair]}


EVERYTHING = differing(
    conventions=[CONVENTION],
    lacks=[{"lacks": "b", "what": "softcap"}],
    wrong=[WRONG],
    precision=[PRECISION],
    broken=["attention.no_keys"],
    both_wrong=2,
    **REST,
)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (SAME, "new does what old does: both are right, and bits are the same in all 96 cases."),
        (
            differing(),
            "new does what old does: both are right, and bits are the same in 31 of 96 cases.",
        ),
        (
            differing(conventions=[CONVENTION]),
            "new differs from old in 1 convention (causal_alignment); elsewhere both are right, "
            "and bits are the same in 31 of 96 cases.",
        ),
        (
            differing(conventions=[CONVENTION], lacks=[{"lacks": "b", "what": "softcap"}], wrong=[WRONG]),
            "new differs from old in 1 convention (causal_alignment); new lacks softcap; new is wrong where causal and "
            "q_len != k_len (2 laws); elsewhere both are right, and bits are the same in 31 of 96 cases.",
        ),
        (
            differing(precision=[PRECISION]),
            "new differs from old in precision (fp32 and tf32 in float32); elsewhere both are right, "
            "and bits are the same in 31 of 96 cases.",
        ),
        ({**SAME, "cases": 0}, "new and old were not compared: no case was answered by both."),
    ],
)
def test_the_answer_is_a_sentence(pair: Any, expected: str) -> None:
    assert expected == answer(pair)


def test_another_layout_is_a_difference() -> None:
    pair = deepcopy(SAME)
    pair["a"]["layout"], pair["b"]["layout"] = "[batch, heads, length]", "[batch, length, heads]"
    assert answer(pair).startswith(
        "new differs from old in layout ([batch, heads, length] and [batch, length, heads]);"
    )


def test_the_page_begins_with_the_answer_and_fits_80_columns() -> None:
    pair = {**EVERYTHING, "sentence": answer(EVERYTHING)}
    lines = list(page(whole(pair)))
    assert lines[0].startswith("new differs from old in 1 convention (causal_alignment)")
    assert 80 >= max(map(len, lines))
    titles = ["Conventions", "Not taken", "Refused", "Wrong", "Both right, and left open", "Contracts", "Bits"]
    assert titles == [line for line in lines if line in titles]


def test_a_difference_has_its_words_where_it_is_and_its_smallest_witness() -> None:
    text = "\n".join(page(whole(differing(conventions=[CONVENTION])), width=200))
    assert "  causal_alignment: bottom_right in old, top_left in new\n" in text
    assert "      where causal and q_len != k_len, on 7 of 8 such cases\n" in text
    assert "      smallest: q_len=2 k_len=1 causal=True; out[0, 0] is 0 in old, -1 in new\n" in text


def test_what_is_wrong_has_its_law_and_its_error() -> None:
    text = "\n".join(page(whole(differing(wrong=[WRONG])), width=200))
    assert "  new breaks attention.definition, and old keeps it\n" in text
    assert "smallest: q_len=2 k_len=1 causal=True; got -1, expected 0: 1.5e+07 x its bound\n" in text
    assert "and attention.convex\n" in text
    assert text.endswith("attnspec check k.py:new   has the failures in full")


def test_precision_shows_grades_and_the_laws_that_differ_most() -> None:
    assert [
        ("grade", "fp32", "tf32"),
        ("attention.definition", "0.20", "40.00"),
        ("attention.convex", "-", "0.30"),
    ] == list(rows_of(EVERYTHING, PRECISION))  # type: ignore[arg-type] - a record


def test_only_one_that_is_less_precise_than_it_claims_differs() -> None:
    assert less_precise(PRECISION)  # type: ignore[arg-type] - a record
    assert not less_precise({**PRECISION, "claimed": ["fp32", "tf32"]})  # type: ignore[typeddict-item]


def test_long_names_are_told_apart_in_the_head_of_a_table() -> None:
    pair = deepcopy(EVERYTHING)
    pair["a"]["name"], pair["b"]["name"] = "a_kernel_with_a_long_name@old", "a_kernel_with_a_long_name@new"
    lines = list(page(whole(pair)))
    assert any(line.split() == ["a", "b"] for line in lines)


def test_markdown_has_the_same() -> None:
    text = "\n".join(markdown(whole({**EVERYTHING, "sentence": "They differ."})))
    assert text.startswith("**They differ.**\n")
    assert "### Conventions\n\n- causal_alignment: bottom_right in old, top_left in new\n" in text
    assert "| attention.definition | 0.20 | 40.00 |" in text
