"""A failure as people read it."""

import pytest

from attnspec.reporting.blocks import block, line, texts, told_of_others
from attnspec.runs.groups import groups
from attnspec.runs.options import Options
from attnspec.runs.runner import Runner

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
    "causes": [{"name": "softmax.base_two", "says": "Powers of two."}],
    "agreed": 20,
    "others": [],
    "by_laws": False,
    "runner_up": "",
    "differs": 0,
    "convention": "",
    "word": "",
}
CONVENTION = {"name": "empty_row = nans", "says": "It returns NaN."}
MAP = {
    "words": "weight on hidden keys: key = query + 1",
    "case": "plain",
    "rows": ["o+....", "oo+...", "ooo+..", "oooo+.", "ooooo+", "oooooo"],
    "first": 0,
    "plane": "head 1",
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
        "Found     in scenario plain, shrunk in 4 steps",
        "Also      fails definition, share",
        "Then      attnspec explain softmax.ratio",
        "Replay    attnspec replay q7Kd2A",
        "Repro     attnspec repro q7Kd2A",
    ]


def test_the_condition_and_the_earlier_calls_that_it_needs_are_told_under_when():
    when = {"says": "wrong for k_len >= 33 (3 of 3 cases); right otherwise (8 of 8)"}
    assert [when["says"]] == entries({"when": when})["When"]
    after = {"after": "wrong after 2 earlier calls; right in a new process", "before": [{}, {}], "dependent": True}
    assert [f"{after['after']}; replay first makes those calls"] == entries(after)["When"]


@pytest.mark.parametrize(
    ("witness", "cell", "says"),
    [
        ({"certain": False}, {}, "(fp32, beyond the likely bound but within the worst-case bound)"),
        ({"outcome": {**OUTCOME, "bound": None}}, {}, "16 x the bound unbounded (fp32)"),
        (
            {"outcome": {**OUTCOME, "units": None, "found": "nan"}, "reason": "p is NaN"},
            {},
            "got nan, expected 1: p is",
        ),
        (
            {"outcome": {**OUTCOME, "units": None, "bound": None, "missed": {"units": 581069.0, "bound": 0.25}}},
            {},
            "got 0.5, expected 1: the error from the definition is 5.81e+05 x the bound 0.25 (fp32)",
        ),
        (
            {"outcome": {**OUTCOME, "units": None, "bound": None, "missed": None}},
            {},
            "got 0.5, expected 1",
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
    ("more", "says"),
    [
        ({}, "it matches the subject on all 20 cases where it differs from the definition"),
        ({"agreed": 1}, "it matches the subject on the one case where it differs from the definition"),
        (
            {"runner_up": "softmax.no_shift", "differs": 4},
            "it matches the subject on all 20 cases where it differs from the definition; the next best is "
            "softmax.no_shift, which differs on 4",
        ),
        ({"by_laws": True}, "it fails the same laws on the same cases, 20 times, and passes the others"),
    ],
)
def test_a_likeness_is_named_with_its_evidence(more, says):
    name, *evidence = entries({"likeness": {**LIKENESS, **more}})["Like"]
    assert ("softmax.base_two: Powers of two.", says) == (name, " ".join(evidence))


def test_where_nothing_fits_what_comes_nearest_is_not_claimed():
    nearest = {"name": "softmax.base_two", "says": "Powers of two.", "agreed": 23, "cases": 25}
    says = "no known mistake fits; the nearest is softmax.base_two: Powers of two."
    assert [says, "it matches the subject on 23 of 25 cases"] == entries({"nearest": nearest})["Like"]


def test_what_gives_the_same_is_named_beside_it():
    name, *_ = entries({"likeness": {**LIKENESS, "others": ["softmax.a", "softmax.b", "softmax.c"]}})["Like"]
    assert "softmax.base_two (or softmax.a, softmax.b, which gives the same results): Powers of two." == name


def test_two_causes_are_named_line_by_line():
    found = entries({"likeness": {**LIKENESS, "causes": [*LIKENESS["causes"], CONVENTION], "convention": "empty_row"}})
    assert ["softmax.base_two: Powers of two."] == found["Like"]
    name, *evidence = found["and"]
    assert "empty_row = nans: It returns NaN." == name
    assert "together they match the subject on all 20 cases where they differ from the definition" == evidence[0]
    assert (
        "fix softmax.base_two; if empty_row = nans is intended, declare conventions={'empty_row': 'nans'}"
        == " ".join(found["Then"])
    )


def test_what_has_no_name_is_the_changed_line_on_two_lines_where_one_is_too_short():
    says = "the definition with one line changed"
    changed = [{"line": "factor", "before": "head_dim ** -0.5", "after": "head_dim ** 0.5"}]
    likeness = {**LIKENESS, "causes": [{"name": "x", "says": says}], "agreed": 57, "changed": changed}
    first = f"{says} (matches the subject on all 57 cases that show it):"
    assert [first, "factor:  head_dim ** -0.5   ->   head_dim ** 0.5"] == entries({"likeness": likeness})["Like"]
    long = [{"line": "factor", "before": "head_dim ** -0.5" + " + 0" * 12, "after": "head_dim ** 0.5" + " + 0" * 12}]
    found = entries({"likeness": {**likeness, "changed": long}})["Like"]
    assert [first, f"factor:  {long[0]['before']}", f"     ->  {long[0]['after']}"] == found
    found = entries({"likeness": {**likeness, "others": ["scaled: q -> k", "keys: k -> q", "values: v -> k"]}})["Like"]
    assert ["or, with the same results, scaled: q -> k", "or, with the same results, keys: k -> q"] == found[2:]
    own = f"factor: {changed[0]['before']} -> head_dim ** -1.5"
    found = entries({"likeness": {**likeness, "others": [own, f"scaled: {'q' * 50} -> {'k' * 50}"]}})["Like"]
    assert "or, with the same results, -> head_dim ** -1.5" == found[2]
    assert [f"or, with the same results, scaled: {'q' * 50}", f"{'':26} -> {'k' * 50}"] == found[3:]


def test_a_map_is_drawn_with_a_legend_beside_it():
    assert [
        "weight on hidden keys: key = query + 1",
        "query 0   o+....   in scenario plain, head 1",
        "query 1   oo+...   o ok, . hidden, + too large",
        "query 2   ooo+..",
        "query 3   oooo+.",
        "query 4   ooooo+",
        "query 5   oooooo",
    ] == entries({"map": MAP})["Weights"]


@pytest.mark.parametrize(("width", "keys"), [(100, 60), (80, 60), (80, 40), (60, 60)])
def test_the_legend_of_a_wide_map_stands_below_it(width, keys):
    seen = {**MAP, "rows": ["o" * (keys - 1) + "+"] * 2, "plane": "item 12, head 3"}
    lines = block({**WITNESS, "map": seen}, CELL, width)
    at = next(i for i, text in enumerate(lines) if text.startswith("Weights"))
    drawn = [text.strip() for text in lines[at + 1 : at + 5]]
    assert ["query 0   ooo", "query 1   ooo"] == [text[:13] for text in drawn[:2]]
    below = " ".join(drawn[2:]).partition(" Also")[0]
    assert below.startswith("in scenario plain, item 12, head 3: o ok, + too large")
    assert max(map(len, lines)) <= width


def test_of_a_map_fewer_rows_are_drawn_before_an_array_is_left_out():
    arrays = {f"array_{i}": "0" for i in range(7)}
    found = entries({"map": MAP, "arrays": arrays})
    assert (7, 4) == (len(found["input"]), len(found["Weights"]))


@pytest.mark.parametrize(
    ("words", "label", "says"),
    [
        ("other weights everywhere", "Weights", "in scenario plain, head 1: other weights everywhere"),
        ("out is wrong at the last channel", "Found", "in scenario plain, head 1: out is wrong at the last channel"),
    ],
)
def test_what_is_wrong_is_said_in_words_where_nothing_is_drawn(words, label, says):
    assert says == entries({"map": {**MAP, "words": words, "rows": []}})[label][-1]


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
    assert [target[8:]] == [text[10:][: len(target) - 8] for text in shown[0] if text.startswith("Like")]


@pytest.mark.parametrize(("width", "height"), [(80, 28), (100, 24)])
def test_any_block_fits_a_screen(width, height):
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
        "likeness": {**LIKENESS, "causes": [{"name": "softmax.base_two", "says": long}] * 2},
        "map": {**MAP, "words": long, "rows": ["o" * 60] * 6},
        "broken": ["law"] * 99,
        "unusual": {f"option_{i}": i for i in range(40)},
    }
    shown = block({**WITNESS, **witness}, {**CELL, "subject": "path/to/a_kernel_of_a_long_name" * 4}, width)
    assert len(shown) <= height
    assert max(map(len, shown)) <= width
    assert ["          and 12 more"] == [text for text in shown if "more" in text]
    assert ["Replay    attnspec replay q7Kd2A", "Repro     attnspec repro q7Kd2A"] == shown[-2:]


def test_what_is_to_be_typed_can_be_typed_on_a_narrow_terminal():
    lines = block({**WITNESS, "level": "must"}, CELL, 80)
    assert [
        "Waive     attnspec waive q7Kd2A --issue URL --owner NAME --reason TEXT \\",
        "              --expires DAY",
    ] == lines[-2:]


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
    told = [text for text in shown if text and not text.startswith("==") and "use -v to see all" not in text]
    assert lines == "".join(text[0] for text in told)
    assert (lines not in ("", "-")) == any(text.endswith("in full; use -v to see all") for text in shown)
    assert shown[1::2][: len(blocks)] == [""] * len(blocks)


@pytest.mark.parametrize(
    ("further", "elsewhere"),
    [
        ([{"mechanism": "softmax", "law": "definition", "level": "must"}], ["softmax.definition in float32"]),
        ([{"mechanism": "softmax", "law": "definition", "level": "should"}], []),
        ([{"mechanism": "softmax", "law": "definition", "level": "must", "subject": "another"}], []),
        ([{"mechanism": "softmax", "law": "contract.precision", "level": "must"}], []),
        ([{"mechanism": "softmax", "law": "definition", "level": "must", "verdict": "pass"}], []),
    ],
)
def test_a_failure_knows_what_else_is_wrong_with_its_subject(further, elsewhere):
    cells = [{**CELL, "level": "must", "law": "contract.precision", "witness": WITNESS}]
    ((witness, _),) = told_of_others([*cells, *({**CELL, **cell} for cell in further)])
    assert elsewhere == witness["elsewhere"]


def test_a_failure_is_not_said_to_follow_from_itself():
    cell = {**CELL, "level": "must", "witness": WITNESS}
    other = {**CELL, "level": "must", "dtype": "bfloat16"}
    assert [["softmax.ratio in bfloat16"]] == [witness["elsewhere"] for witness, _ in told_of_others([cell, other])]


def test_a_known_failure_names_its_finding_in_place_of_what_comes_nearest():
    nearest = {"name": "softmax.base_two", "says": "Powers of two.", "agreed": 4, "cases": 5}
    found = entries({"nearest": nearest, "level": "must"}, {"finding": "torch-causal-scale"})
    assert ["torch-causal-scale: attnspec explain torch-causal-scale"] == found["Known"]
    assert {"Like", "Waive"} & {*found} == set()
    assert line(WITNESS, {**CELL, "finding": "a-b"}).endswith("   known: a-b   case q7Kd2A")


def test_of_a_large_case_the_output_is_named_and_there_is_no_program():
    outcome = {**WITNESS["outcome"], "output": "out", "where": [0, 7], "spoiled": 2, "entries": 9}
    shown = entries({"large": True, "outcome": outcome})
    assert ["out[0, 7], 2 of 9 entries that were judged beyond the bound"] == shown["Where"]
    assert "Repro" not in shown
    assert ["attnspec replay q7Kd2A"] == shown["Replay"]
