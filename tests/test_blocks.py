"""A failure as people read it."""

import pytest

from attnspec.report.blocks import block, line, texts
from attnspec.runs import Options, Runner, groups

CELL = {
    "subject": "kernel",
    "mechanism": "softmax",
    "law": "ratio",
    "dtype": "float32",
    "device": "cpu",
    "verdict": "fail",
    "says": "",
}
OUTCOME = {"found": 0.5, "expected": 1.0, "bound": 0.03125, "units": 16.0, "where": [0, 2], "spoiled": 1, "entries": 6}
WITNESS = {
    "key": "q7Kd2A",
    "says": "Entries are in the ratio of their exponentials.",
    "holds": "p[..., 0] == p[..., 1]",
    "place": "spec/softmax.yaml:96:12",
    "words": {"empty_row": "zeros"},
    "declared": ["empty_row"],
    "sizes": {"rows": 1, "n": 3, "scale": None, "causal": False, "softcap": 30.0},
    "arrays": {"x": "[[0., 1., 2.]]"},
    "givens": {"c": "1000"},
    "outcome": OUTCOME,
    "reason": "",
    "certain": True,
    "grade": "fp32",
    "from": {"label": "plain", "regime": "", "tried": 4},
    "likeness": None,
    "broken": ["definition", "share"],
    "unusual": {},
    "full": True,
}
LIKENESS = {
    "name": "softmax.base_two",
    "says": "Powers of two.",
    "agreed": 20,
    "beyond": False,
    "convention": "",
    "word": "",
}


def entries(witness=(), cell=()):
    """The entries of a block by their labels; what continues an entry is joined to it."""
    found, label = {}, ""
    for text in block({**WITNESS, **dict(witness)}, {**CELL, **dict(cell)})[1:]:
        label = text[:10].strip() or label
        found.setdefault(label, []).append(text[10:])
    return found


def test_a_block_says_the_law_then_the_witness_then_how_to_go_on():
    head, *lines = block(WITNESS, CELL)
    assert head == "== kernel   softmax.ratio   float32 cpu " + "=" * 48 + " case q7Kd2A"
    assert lines == [
        "Law       Entries are in the ratio of their exponentials.",
        "          p[..., 0] == p[..., 1]",
        "          spec/softmax.yaml:96:12   declared: empty_row = zeros",
        "Smallest  rows=1 n=3 softcap=30",
        "input     x = [[0., 1., 2.]]",
        "given     c = 1000",
        "Result    got 0.5, expected 1: the error is 16 x the bound 0.03125 (fp32)",
        "Where     entry [0, 2], 1 of 6 entries beyond the bound",
        "Found     in scenario plain, made smaller in 4 steps",
        "Also      breaks definition, share",
        "Then      attnspec explain softmax.ratio",
        "Replay    attnspec replay q7Kd2A",
    ]


@pytest.mark.parametrize(
    ("witness", "cell", "says"),
    [
        ({}, {}, "attnspec explain softmax.ratio"),
        ({}, {"law": "contract.dtype"}, "attnspec explain contract.dtype"),
        ({}, {"law": "contract.precision"}, "if intended, declare the grade; if not, look for an intermediate stored"),
        ({}, {"verdict": "error"}, "if it is not claimed, raise attnspec.Unsupported or declare limits; if it is, -v"),
        ({"unusual": {"scale": 0.5}}, {}, "if scale = 0.5 is not claimed, raise attnspec.Unsupported or leave the"),
        (
            {"likeness": {**LIKENESS, "convention": "empty_row", "word": "nans"}},
            {},
            "if intended, declare conventions={'empty_row': 'nans'}; if not, compare",
        ),
    ],
)
def test_the_innocent_reading_comes_with_what_to_do(witness, cell, says):
    assert " ".join(entries(witness, cell)["Then"]).startswith(says)


@pytest.mark.parametrize(
    ("witness", "cell", "says"),
    [
        ({"certain": False}, {}, "(fp32, under the likely bound and not the worst one)"),
        ({"outcome": {**OUTCOME, "bound": None}}, {}, "16 x the bound unbounded (fp32)"),
        (
            {"outcome": {**OUTCOME, "units": None, "found": "nan"}, "reason": "p is NaN"},
            {},
            "got nan, expected 1: p is",
        ),
        ({"outcome": None, "reason": "IndexError: tuple"}, {}, "IndexError: tuple"),
        ({"outcome": None}, {"says": "the call was accepted"}, "the call was accepted"),
        ({"outcome": None}, {}, "the claim is false"),
        ({}, {"law": "contract.precision", "says": "behaves as bf16_naive"}, "behaves as bf16_naive"),
    ],
)
def test_the_result_is_told_in_units_of_the_bound_or_in_words(witness, cell, says):
    assert says in " ".join(entries(witness, cell)["Result"])


@pytest.mark.parametrize(
    ("label", "regime", "says"),
    [("plain", "", "scenario plain"), ("pair 3", "ties", "pair 3 (regime ties)"), ("draw 2", "", "draw 2")],
)
def test_a_block_says_where_the_failure_was_found(label, regime, says):
    assert [f"in {says}"] == entries({"from": {"label": label, "regime": regime, "tried": 0}})["Found"]


@pytest.mark.parametrize(
    ("agreed", "told"), [(1, "on the one case that tells it from"), (20, "on all 20 cases that tell it from")]
)
def test_a_likeness_is_named_with_its_evidence(agreed, told):
    name, *evidence = entries({"likeness": {**LIKENESS, "agreed": agreed}})["Like"]
    assert "softmax.base_two: Powers of two." == name
    assert told in " ".join(evidence)


@pytest.mark.parametrize(("beyond", "told"), [(False, False), (True, True)])
def test_a_likeness_says_whether_it_explains_everything(beyond, told):
    _, *evidence = entries({"likeness": {**LIKENESS, "beyond": beyond}})["Like"]
    assert told == ("what else fails has another cause" in " ".join(evidence))


@pytest.mark.parametrize("target", ["mistake:sliding_window.symmetric", "mistake:softmax.floored_maximum"])
def test_the_block_of_a_real_failure_fits_a_screen(target):
    runner = Runner(Options(targets=(target,), mechanisms=(target[8:].partition(".")[0],)))
    shown = [
        block(cell["witness"], cell)
        for group in groups(runner.options)[:1]
        for cell in runner.cells(group)
        if "witness" in cell
    ]
    assert 1 == len(shown)
    assert len(shown[0]) <= 24
    assert max(map(len, shown[0])) <= 100
    assert [f"{target[8:]}: "] == [text[10:][: len(target) - 6] for text in shown[0] if text.startswith("Like")]


def test_any_block_fits_a_screen():
    long = "word " * 200
    witness = {
        "says": long,
        "holds": long,
        "declared": ["empty_row"] * 40,
        "sizes": {f"size_{i}": i for i in range(60)},
        "arrays": {f"array_{i}": long for i in range(6)},
        "givens": {f"given_{i}": "x" * 300 for i in range(6)},
        "outcome": None,
        "reason": long,
        "likeness": {**LIKENESS, "says": long},
        "broken": ["law"] * 99,
        "unusual": {f"option_{i}": i for i in range(40)},
    }
    shown = block({**WITNESS, **witness}, {**CELL, "subject": "path/to/a_kernel_of_a_long_name" * 4})
    assert 24 == len(shown)
    assert max(map(len, shown)) <= 100
    assert ["          and 9 more"] == [text for text in shown if "more" in text]
    assert "Replay    attnspec replay q7Kd2A" == shown[-1]


@pytest.mark.parametrize(
    ("broken", "more"), [([], ""), (["share"], ", and 1 more law"), (["a", "b"], ", and 2 more laws")]
)
def test_a_failure_in_one_line(broken, more):
    result = "got 0.5, expected 1: the error is 16 x the bound 0.03125 (fp32)"
    shown = line({**WITNESS, "broken": broken}, CELL)
    assert f"kernel   softmax.ratio   float32   {result}{more}   case q7Kd2A" == shown


@pytest.mark.parametrize(
    ("subjects", "blocks", "lines"),
    [("aaa", "aa", "a"), ("aab", "ab", "a"), ("abc", "ab", "c"), ("a", "a", ""), ("-aa", "aa", "-"), ("", "", "")],
)
def test_of_every_subject_the_first_failure_is_a_block_before_any_second_one(subjects, blocks, lines):
    failures = [({**WITNESS, "full": name != "-"}, {**CELL, "subject": name}) for name in subjects]
    shown = list(texts(failures, 2))
    assert blocks == "".join(text[3] for text in shown if text.startswith("=="))
    assert lines == "".join(text[0] for text in shown if text and not text.startswith("=="))
    assert shown[1::2][: len(blocks)] == [""] * len(blocks)
