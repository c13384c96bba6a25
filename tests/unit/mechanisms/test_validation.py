"""No name of a specification means two things, and no part contradicts another."""

from pathlib import Path

import pytest

from attnspec.mechanisms.lint import lint_files
from attnspec.mechanisms.loader import library, load
from attnspec.mechanisms.schema import spec_folder


def first_fault(name, changes, further=""):
    """The first fault of a changed copy, and the place of the mark § in it."""
    text = (spec_folder() / f"{name}.yaml").read_text("utf-8") + further
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    head = text.partition("§")[0]
    path = Path(f"{name}.yaml")
    path.write_text(text.replace("§", "", 1), "utf-8")
    found = lint_files([path])[0]
    return str(found[0]), f"{path}:{head.count(chr(10)) + 1}:{len(head) - head.rfind(chr(10))}"


CLASHES = [
    ("softmax", "  n: choice(1, 2", "  §exp: choice(1, 2", "'exp' is already the name of a function"),
    ("softmax", "  n: choice(1, 2", "  §normal: choice(1, 2", "'normal' is already the name of a function"),
    ("softmax", "  n: choice(1, 2", "  §infinity: choice(1, 2", "'infinity' is already the name of a constant"),
    ("softmax", "  n: choice(1, 2", "  §unspecified: choice(1, 2", "'unspecified' is already the name of a constant"),
    (
        "softmax",
        "  n: choice(1, 2",
        "  §layout: choice(1, 2",
        "'layout' is already the name of the memory layout of a case",
    ),
    ("softmax", "  x: normal(rows", "  §n: normal(rows", "'n' is already the name of a size"),
    ("softmax", "  terms: exp", "  §x: exp", "'x' is already the name of an input"),
    ("softmax", "  terms: exp", "  §sum: exp", "'sum' is already the name of a function"),
    ("softmax", "    zeros: A row", "    §n: A row", "'n' is already the name of a size"),
    ("softmax", "    zeros: A row", "    §x: A row", "'x' is already the name of an input"),
    ("softmax", "    zeros: A row", "    §some: A row", "'some' is already the name of a line of the definition"),
    ("softmax", "    zeros: A row", "    §max: A row", "'max' is already the name of a function"),
    ("softmax", "    zeros: A row", "    §none: A row", "'none' is already the name of a constant"),
    ("attention", "    two: The log", "    §tiled: The log", "'tiled' is already the name of a word of grouping"),
    (
        "attention",
        "follows:\n",
        "words:\n  scale:\n    §tiled: of tiles\nfollows:\n",
        "'tiled' is already the name of a word of grouping",
    ),
    ("attention", "  causal: choice", "  §heads: choice", "'heads' is already the name of a size"),
    ("causal_mask", "  causal: true", "  §mask: true", "'mask' is already the name of an input"),
    ("causal_mask", "  causal: true", "  §row: true", "'row' is already the name of a line of the definition"),
    ("causal_mask", "  causal: true", "  §tiled: true", "'tiled' is already the name of a word of grouping"),
    ("alibi", "  slope: alibi", "  §mask: alibi", "'mask' is already the name of an input"),
    ("softmax", "  sums_to_one:", "  §definition:", "two laws are called 'definition'"),
]


@pytest.mark.parametrize(("name", "before", "after", "message"), CLASHES)
def test_a_name_that_is_taken_is_refused_where_it_is_given_again(name, before, after, message):
    found, place = first_fault(name, [(before, after)])
    assert f"{place}: {message}" == found


def test_a_reject_has_no_name_of_a_law():
    found, place = first_fault("softmax", [], "rejects:\n  §sums_to_one:\n    says: It is refused.\n    call: x = 1\n")
    assert f"{place}: two laws are called 'sums_to_one'" == found


def test_a_further_mechanism_may_replace_sizes_options_and_lines():
    text = (spec_folder() / "causal_mask.yaml").read_text("utf-8")
    further = "definition:\n  in_past: column <= row\nsizes:\n  batch: 1\noptions:\n"
    Path("causal_mask.yaml").write_text(text.replace("options:\n", further), "utf-8")
    operator = library()["attention"]
    loaded = load([Path("causal_mask.yaml")], {"attention": operator})["causal_mask"]
    assert ("column <= row", "1", "true") == (
        loaded.definition["in_past"].text,
        loaded.sizes["batch"].text,
        loaded.options["causal"].text,
    )
    assert operator.definition["in_window"] is loaded.definition["in_window"]
    assert frozenset({"batch", "causal"}) == loaded.own


CONTRADICTIONS = [
    (
        "softmax",
        [("terms: exp(shift(x))", "terms: §exp(shift(total))")],
        "definition: a cycle: terms -> total -> terms",
    ),
    ("softmax", [("total: sum(terms", "total: §total + sum(terms")], "definition: a cycle: total -> total"),
    (
        "softmax",
        [("rows: choice(1, 2, 3)", "rows: §choice(n, 2)"), ("  n: choice(1,", "  n: choice(rows,")],
        "draws: a cycle: rows -> n -> rows",
    ),
    (
        "softmax",
        [("given: c = choice(0.5, -3, 1000, -1000)", "given: c = §2 * d, d = 3 * c")],
        "laws.shift_invariant.given: a cycle: c -> d -> c",
    ),
    (
        "causal_mask",
        [("options:\n", "definition:\n  seeing: any(in_past)\n  in_past: §any(seeing)\noptions:\n")],
        "definition: a cycle: in_past -> seeing -> in_past",
    ),
    (
        "softmax",
        [("plain: rows = 3, n = 7", "plain: rows = §n, n = rows")],
        "scenarios.plain: a cycle: rows -> n -> rows",
    ),
    (
        "softmax",
        [("peaked: x = 30 * x", "peaked: x = 30 * x, n = §size(x)")],
        "regimes.peaked: a cycle: n -> x -> n",
    ),
    (
        "causal_mask",
        [("change: in_past = true", "change: in_past = §allowed")],
        "mistakes.ignored.change: a cycle: in_past -> allowed -> in_past",
    ),
    (
        "attention",
        [("follows:\n", "words:\n  §scales:\n    large: 30\nfollows:\n")],
        "words: no option is called 'scales'; did you mean 'scale'?",
    ),
    ("softmax", [("outputs: [p]", "outputs: [§q]")], "outputs: no line of the definition is called 'q'"),
    (
        "softmax",
        [("outputs: [p]", "outputs: [p, §totals]")],
        "outputs: no line of the definition is called 'totals'; did you mean 'total'?",
    ),
    (
        "softmax",
        [("mechanism: softmax", "mechanism: §softmax"), ("outputs: [p]\n", "")],
        "the key 'outputs' is missing",
    ),
    ("attention", [("  lse: float32", "  §lsa: float32")], "dtypes: 'lsa' is neither input, output nor line"),
    (
        "attention",
        [("  lse: float32", "  lse: §float8_e4m")],
        "dtypes.lse: 'float8_e4m' is neither a dtype nor an option with words for dtypes; "
        "did you mean 'float8_e4m3fn'?",
    ),
    (
        "attention",
        [("  lse: float32", "  k: §softcap")],
        "dtypes.k: 'softcap' is neither a dtype nor an option with words for dtypes",
    ),
    (
        "quantized_attention",
        [("int8: int8}", "int8: integer8}"), ("  k: kv_dtype", "  k: §kv_dtype")],
        "dtypes.k: 'integer8' is neither a dtype nor an option with words for dtypes; did you mean 'integer'?",
    ),
    (
        "quantized_attention",
        [("  k: kv_dtype", "  out: §kv_dtype")],
        "dtypes.out: an option says the dtype of inputs alone",
    ),
    (
        "alibi_bias",
        [("normal_form:\n  bias:", "normal_form:\n  §slope:")],
        "normal_form: 'slope' is neither input nor output",
    ),
    ("softmax", [("outputs: [p]", "outputs: [p]\nrandom: [§some]")], "random: 'some' is neither input nor output"),
    (
        "attention",
        [("empty_bias_row: empty_row", "empty_bias_row: §empty_rows")],
        "follows: no convention 'empty_rows'; did you mean 'empty_row'?",
    ),
    (
        "attention",
        [("  empty_bias_row: empty_row", "  §empty_bias: empty_row")],
        "follows: no convention 'empty_bias'; did you mean 'empty_bias_row'?",
    ),
    (
        "attention",
        [("  empty_bias_row: empty_row", "  §empty_bias_row: lse_base")],
        "follows: 'empty_bias_row' has not as many words as 'lse_base'",
    ),
    (
        "softmax",
        [("  n: choice(1, 2", "  m: choice(1, 2)\n  n: choice(1, 2"), ("terms: exp(", "terms: §m + exp(")],
        "definition.terms: the size 'm' is not fixed by the shape of a required input",
    ),
]


@pytest.mark.parametrize(("name", "changes", "message"), CONTRADICTIONS)
def test_parts_that_contradict_one_another_are_refused(name, changes, message):
    found, place = first_fault(name, changes)
    assert f"{place}: {message}" == found


def test_what_reads_the_name_that_it_replaces_is_no_circle():
    text = (spec_folder() / "softmax.yaml").read_text("utf-8")
    text = text.replace("plain: rows = 3, n = 7", "plain: rows = rows + 1, n = rows")
    Path("softmax.yaml").write_text(text.replace("change: terms = exp(x)", "change: terms = 2 * terms"), "utf-8")
    assert [] == lint_files([Path("softmax.yaml")])[0]


def test_a_line_that_cannot_be_read_is_not_also_missing():
    Path("softmax.yaml").write_text(
        (spec_folder() / "softmax.yaml").read_text("utf-8").replace("p: where(some, ", "p: where(same, "), "utf-8"
    )
    (only,) = lint_files([Path("softmax.yaml")])[0]
    assert "unknown name 'same'; did you mean 'some'?" in str(only)


def test_a_layout_is_a_word_of_scenarios_alone():
    text = (spec_folder() / "softmax.yaml").read_text("utf-8")
    text = text.replace("  n: choice(1, 2", "  offset: choice(1, 2)\n  n: choice(offset, 2")
    Path("softmax.yaml").write_text(text.replace("layout = strided", "layout = offset"), "utf-8")
    loaded = load([Path("softmax.yaml")])["softmax"]
    assert frozenset({"offset"}) == loaded.sizes["n"].uses
    assert "offset" == loaded.scenarios["strided"].assigned["layout"](None)
