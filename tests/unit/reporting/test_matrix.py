"""How implementations stand, as tables made of the lines of results files."""

import pytest

from attnspec.reporting.matrix import (
    LONGEST,
    MANY,
    heads,
    markdown,
    merged,
    precision,
    tables,
    text,
    unfinished,
    verdicts,
    violated,
)

HEADER = {
    "kind": "run",
    "attnspec": "0.1.0",
    "profile": "quick",
    "seed": 0,
    "device": "cpu",
    "packages": {"numpy": "2.0", "torch": "2.9"},
}
WITNESS = {"likeness": {"name": "softmax.no_shift"}, "key": "q7Kd2A", "broken": ["b"], "says": "A sentence."}


def cell(law="definition", verdict="pass", dtype="float32", **more):
    return {
        "kind": "cell",
        "subject": "kernel",
        "operator": "softmax",
        "mechanism": "softmax",
        "law": law,
        "level": "must",
        "dtype": dtype,
        "device": "cpu",
        "verdict": verdict,
        "cases": 9,
        "worst": 0.25,
        "says": "",
        **more,
    }


def test_of_a_cell_in_several_files_the_last_one_counts():
    first, second = cell(verdict="fail"), cell()
    assert [second] == merged([[HEADER, first], [HEADER, second, {"kind": "end"}]])


def test_headers_that_differ_in_packages_are_one():
    other = HEADER | {"packages": {"torch": "2.10", "jax": "0.9", "numpy": "2.0"}}
    packages = {"jax": "0.9", "numpy": "2.0", "torch": "2.9 and 2.10"}
    assert [HEADER | {"packages": packages}] == heads([HEADER, other])


def test_headers_of_other_runs_stand_apart():
    assert [HEADER, HEADER | {"seed": 1}] == heads([HEADER, HEADER | {"seed": 1}])


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ([cell()], "ok"),
        ([cell(), cell("order", "fail")], "FAIL"),
        ([cell(), cell("order", "fail"), cell("shift", "error")], "error"),
        ([cell(), cell("order", "fail", level="should")], "ok"),
        ([cell(verdict="not_declared")], "-"),
        ([cell(), cell("order", "not_declared")], "ok"),
        ([cell(verdict="not_tested"), cell("contract.shape")], "not tested"),
        ([cell(), cell("contract.shape", "fail")], "FAIL"),
        ([cell(), cell(verdict="fail", dtype="float16")], "ok f32, FAIL f16"),
        ([cell(), cell(dtype="bfloat16"), cell(verdict="fail", dtype="float16")], "ok f32 bf16, FAIL f16"),
    ],
)
def test_a_subject_stands_as_its_worst_law_that_must_hold(found, shown):
    assert [["kernel", shown]] == verdicts("softmax", found).rows


def test_mechanisms_stand_side_by_side():
    table = verdicts("softmax", [cell(), cell(mechanism="other", subject="another")])
    assert (["adapter", "softmax", "other"], 2) == (table.columns, len(table.rows))


@pytest.mark.parametrize(
    ("how", "shown"), [("declared", "zeros"), ("observed", "zeros*"), ("unexplained", "zeros?"), ("default", None)]
)
def test_conventions_say_how_they_are_known(how, shown):
    found = cell(run={"conventions": {"empty_row": {"word": "zeros", "how": how}}})
    conventions = [table.rows for table in tables([found]) if "empty_row" in table.columns]
    assert ([[["kernel", shown]]] if shown else []) == conventions


def test_conventions_stand_in_one_order_whichever_adapter_comes_first():
    known = {"word": "zeros", "how": "declared"}
    found = [
        cell(run={"conventions": {"grouping": known}}),
        cell(subject="another", run={"conventions": {"empty_row": known}}),
    ]
    assert [["adapter", "empty_row", "grouping"]] * 2 == [
        table.columns for order in (found, found[::-1]) for table in tables(order) if "grouping" in table.columns
    ]


def test_laws_that_fail_alike_are_one_row():
    found = [
        cell(law, "fail", mechanism=m) for m, law in (("softmax", "order"), ("softmax", "shift"), ("other", "sum"))
    ]
    assert [["kernel", "softmax: order, shift; other: sum", "f32", "", "", ""]] == violated(found).rows


def test_of_many_laws_the_first_ones_are_named():
    found = [cell(f"law_{i}", "fail") for i in range(MANY + 3)]
    assert violated(found).rows[0][1].endswith(f"law_{MANY - 1} and 3 more")


def test_another_reason_or_likeness_is_another_row():
    found = [cell("a", "fail", witness=WITNESS), cell("b", "fail"), cell("c", "error", says="ValueError:\n  no")]
    assert [
        ["kernel", "softmax: a", "f32", "softmax.no_shift", "", "q7Kd2A"],
        ["kernel", "softmax: b", "f32", "", "", "q7Kd2A"],
        ["kernel", "softmax: c", "f32", "", "ValueError: no", ""],
    ] == violated(found).rows


def test_a_long_reason_is_cut():
    assert LONGEST == len(violated([cell(verdict="error", says="x" * 500)]).rows[0][-2])


def test_what_should_hold_is_no_violation():
    assert [] == violated([cell(verdict="fail", level="should")]).rows


def test_precision_has_a_column_for_each_dtype_that_was_tried():
    assert ["adapter", "float32", "bfloat16"] == precision([cell(dtype="bfloat16"), cell()]).columns


def test_markdown_has_every_table_under_one_header():
    lines = list(markdown([HEADER, HEADER], [cell("a | b", "fail")]))
    assert (1, True) == (sum("attnspec 0.1.0" in line for line in lines), "| kernel | FAIL |" in lines)
    assert r"| kernel | softmax: a \| b | f32 |  |  |  |" in lines


def test_plain_text_is_aligned():
    lines = list(text([HEADER], [cell(), cell(subject="a_longer_name")]))
    assert ["adapter        softmax", "a_longer_name  ok", "kernel         ok"] == [
        line for line in lines if line.endswith((" ok", " softmax"))
    ]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([{"kind": "end", "partial": False}], []),
        ([None], ["PARTIAL: A run did not finish; the results so far are valid."]),
        ([{"kind": "end", "partial": True}, None], ["PARTIAL: 2 runs did not finish; the results so far are valid."]),
    ],
)
def test_runs_that_did_not_finish_are_told(ends, said):
    files = [[HEADER, cell(), *([end] if end else [])] for end in ends]
    for render in (markdown, text):
        shown = list(render([HEADER], merged(files), unfinished(files)))
        assert said == [line for line in shown if line.startswith("PARTIAL")]


def test_what_a_subject_says_is_text_in_markdown_and_nothing_else():
    evil = "a|b`c`<img src=x>\n[d](http://e)\x1b[31m" + "n" * 5000
    lines = list(markdown([HEADER], [cell(verdict="error", subject=evil, says=evil)]))
    assert all(line.isprintable() for line in lines)
    (row,) = [line for line in lines if line.endswith(" | error |")]
    assert row.startswith(r"| a\|b&#96;c&#96;&lt;img src=x&gt;&#92;n[d]\(http://e)&#92;x1b[31mnnn")
    assert all(line.isprintable() for line in text([HEADER], [cell(verdict="error", subject=evil, says=evil)]))


def test_the_page_says_what_each_failing_law_says_and_names_the_cases():
    found = [
        cell("a", "fail", witness=WITNESS),
        cell("b", "fail", sentence="B holds."),
        cell("c", "fail", level="should", sentence="C holds."),
        *(cell("d", "fail", dtype=d, sentence="D | holds.", witness=WITNESS | {"key": d}) for d in ("x", "y")),
    ]
    lines = list(markdown([HEADER], found))
    at = lines.index("## What these laws say")
    assert lines[at + 2 :] == [
        "| law | says |",
        "|---|---|",
        "| softmax.a | A sentence. |",
        "| softmax.b | B holds. |",
        r"| softmax.d | D \| holds. |",
    ]
    assert "| kernel | softmax: a | f32 | softmax.no_shift |  | q7Kd2A |" in lines
    assert "| kernel | softmax: d | x y | softmax.no_shift |  | x, y |" in lines


@pytest.mark.parametrize("columns", [60, 80])
def test_a_table_too_wide_for_a_terminal_is_shown_row_by_row(columns):
    found = [cell(mechanism=f"mechanism_{i}", verdict="not_declared" if i == 3 else "pass") for i in range(12)]
    found += [cell("order", "fail", says="no number " * 6)]
    lines = [line for line in text([HEADER], found, columns=columns) if not line.startswith("'ok' is")]
    assert "    mechanism_0   ok" in lines
    assert not any("mechanism_3" in line for line in lines)
    assert columns == len(next(line for line in lines if line.startswith("==")))
