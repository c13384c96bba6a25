"""A faulty expression, name or entry in a specification gives one error at its place."""

import re
from pathlib import Path

import pytest

from attnspec.mechanisms.lint import lint_files
from attnspec.mechanisms.loader import load
from attnspec.mechanisms.schema import spec_folder
from attnspec.numerics import budget

# The mark ^ stands where the error is to point at.
FAULTS = {
    "softmax": [
        ("sum(terms, keep", "sum(^trems, keep", "definition.total: unknown name 'trems'; did you mean 'terms'?"),
        ("exp(shift(x))", "exp(shift(^zzz))", "definition.terms: unknown name 'zzz'"),
        ("exp(shift(x))", "exp(^mean)", "definition.terms: unknown name 'mean'; it is a function"),
        ("exp(shift(x))", "^exq(shift(x))", "definition.terms: unknown function 'exq'; did you mean 'exp'?"),
        ("exp(shift(x))", "exp(^shift(x).T)", "definition.terms: Attribute is not part of the language"),
        ("exp(shift(x))", "exp(^'x')", "definition.terms: the constant 'x' is not part of the language"),
        ("exp(shift(x))", "^shift(x, 1, 2)", "definition.terms: shift(x, axis = -1): too many positional arguments"),
        (
            "exp(shift(x))",
            "exp(^normal(n))",
            "definition.terms: normal draws, which is allowed only where cases are drawn",
        ),
        (
            "exp(shift(x))",
            "^x" + " + x" * 150,
            "definition.terms: an expression of 601 characters is over the limit of 600",
        ),
        ("x: normal(rows", "x: ^total + normal(rows", "inputs.x: unknown name 'total'"),
        ("holds: sum(p) == 1", "holds: sum(p) ==^", "laws.sums_to_one.holds: not an expression"),
        ("holds: sum(p) == 1", "holds: sum(^p(x)) == 1", "laws.sums_to_one.holds: write p(input = value, ...)"),
        ("when: n > 1 and all", "when: n > ^> 1 and all", "laws.ratio.when: not an expression"),
        ("all(abs(x) <", "all(abs(x) ^≤", "laws.ratio.when: only plain ASCII is allowed in an expression, not '≤'"),
        ("given: c = choice(0.5,", "given: c = choice(^d,", "laws.shift_invariant.given.c: unknown name 'd'"),
        ("given: c = choice(0.5,", "given: c = 1, c = ^choice(0.5,", "laws.shift_invariant: 'c' is assigned twice"),
        ("given: o = perm", "given: x = ^1, o = perm", "laws.reordered.given: 'x' already means something"),
        ("given: o = perm", "given: total = ^1, o = perm", "laws.reordered.given: 'total' already means something"),
        ("given: o = perm", "given: p = ^1, o = perm", "laws.reordered.given: 'p' already means something"),
        (
            "change: terms = exp(x)",
            "change: term = ^exp(x)",
            "mistakes.unshifted.change: nothing is called 'term'; did you mean 'terms'?",
        ),
        (
            "change: terms = exp(x)",
            "change: terms = exp(^xs)",
            "mistakes.unshifted.change.terms: unknown name 'xs'; did you mean 'x'?",
        ),
        (
            "change: terms = exp(x)",
            "change: ^exp(x)",
            "mistakes.unshifted.change: write assignments as: name = expression, name = expression",
        ),
        (
            "change: terms = exp(x)",
            "change: ^terms exp(x)",
            "mistakes.unshifted.change: not an expression",
        ),
        ("plain: rows = 3", "plain: row = ^3", "scenarios.plain: nothing is called 'row'; did you mean 'rows'?"),
        ("plain: rows = 3", "plain: total = ^3", "scenarios.plain: nothing is called 'total'"),
        (
            "scenarios:\n",
            "scenario_defaults: row = ^3\nscenarios:\n",
            "scenario_defaults: nothing is called 'row'; did you mean 'rows'?",
        ),
        (
            "plain: rows = 3",
            "plain: layout = ^stridded",
            "scenarios.plain.layout: unknown name 'stridded'; did you mean 'strided'?",
        ),
        ("peaked: x = 30 * x", "peaked: layout = ^strided", "regimes.peaked: nothing is called 'layout'"),
        ("given: x = [[0.0, 1.0, 2", "given: y = ^[[0.0, 1.0, 2", "examples.three.given: nothing is called 'y'"),
        ("gives: p = [[0.09", "gives: pp = ^[[0.09", "examples.three.gives: 'pp' is not an output; did you mean 'p'?"),
        ("gives: p = [[0.09", "gives: p = ^[[1 / 3, 0.09", "examples.three.gives: '1/3' is not a printed number"),
        (
            "gives: p = [[0.09",
            "gives: p = ^[[1.0], [0.09",
            "examples.three.gives: printed numbers stand in rows of equal length",
        ),
    ],
    "attention": [
        (
            "holds: out(q = 2 * q, k = 0.5 * k) == out",
            "holds: out == attention(qs = ^q)",
            "laws.traded.holds: attention has no input or option 'qs'; did you mean 'q'?",
        ),
        (
            "holds: out(q = 2 * q, k = 0.5 * k) == out",
            "holds: out == ^attention(q, k, v, mask)",
            "laws.traded.holds: attention takes 3 inputs by position",
        ),
        (
            "call: v = v[:, :, :-1]",
            "call: vs = ^v[:, :, :-1]",
            "rejects.lengths.call: nothing is called 'vs'; did you mean 'v'?",
        ),
        (
            "when: k_len > 1\n    call",
            "when: ^k_lens > 1\n    call",
            "rejects.lengths.when: unknown name 'k_lens'; did you mean 'k_len'?",
        ),
        (
            "heads % kv_heads == 0",
            "heads % ^kv_head == 0",
            "requires.grouped: unknown name 'kv_head'; did you mean 'kv_heads'?",
        ),
        (
            "heads % kv_heads == 0",
            "heads % kv_heads == 0 and all(^scores > 0)",
            "requires.grouped: unknown name 'scores'",
        ),
    ],
    "alibi_bias": [
        ("bias: where(column", "bias: where(^colum", "normal_form.bias: unknown name 'colum'; did you mean 'column'?"),
        (
            "alibi_slopes(heads =",
            "alibi_slopes(head = ^x or",
            "definition.slope: alibi_slopes has no input or option 'head'; did you mean 'heads'?",
        ),
    ],
    "causal_mask": [
        (
            "out(causal = false, mask = in_past)",
            "out(casual = ^false, mask = in_past)",
            "laws.as_mask.holds: out has no input or option 'casual'; did you mean 'causal'?",
        ),
        (
            "when: causal_alignment == bottom_right",
            "when: causal_alignment == ^botom_right",
            "laws.last_row.when: unknown name 'botom_right'; did you mean 'bottom_right'?",
        ),
        ("causal: true", "causal: ^ture", "options.causal: unknown name 'ture'; did you mean 'true'?"),
    ],
}


def edited(name, before, after):
    """A shipped specification with a change, in the folder of the test, and the place of the mark in it."""
    text = (spec_folder() / f"{name}.yaml").read_text("utf-8")
    assert before in text
    head, _, tail = text.partition(before)
    path = Path(f"{name}.yaml")
    path.write_text(head + after.replace("^", "") + tail, "utf-8")
    head += after.partition("^")[0]
    return path, f"{path}:{head.count(chr(10)) + 1}:{len(head) - head.rfind(chr(10))}"


@pytest.mark.parametrize(
    ("name", "before", "after", "message"), [(name, *fault) for name, faults in FAULTS.items() for fault in faults]
)
def test_one_fault_is_one_error_at_its_place(name, before, after, message):
    path, place = edited(name, before, after)
    (error,) = lint_files([path])[0]
    # What Python says of a syntax error differs between its versions.
    assert f"{place}: {message}" == re.sub("(not an expression).*", r"\1", str(error).partition("\n")[0])


def test_an_error_shows_the_expression_with_a_mark_under_the_fault():
    path, place = edited("softmax", "exp(shift(x))", "exp(shift(^y))")
    (error,) = lint_files([path])[0]
    expected = f"{place}: definition.terms: unknown name 'y'\n    exp(shift(y))\n              ^"
    assert expected == str(error)


def test_an_error_in_an_assignment_shows_the_assignments_alone():
    path, _ = edited("softmax", "change: terms = exp(x)", "change: terms = exp(x) +")
    (error,) = lint_files([path])[0]
    assert ["    terms = exp(x) +", "                    ^"] == str(error).splitlines()[1:]


def test_all_faults_are_named_at_once_in_the_order_of_the_file():
    path, _ = edited("softmax", "holds: sum(p) == 1", "holds: sum(pp) == 1")
    text = path.read_text("utf-8").replace("exp(shift(x))", "exp(shift(xx))").replace("plain: rows", "plain: row")
    path.write_text(text, "utf-8")
    expected = ["definition.terms", "scenarios.plain", "laws.sums_to_one.holds"]
    assert expected == [str(error).split(": ")[1] for error in lint_files([path])[0]]


def test_after_too_many_faults_nothing_further_is_read():
    claims = "".join(f"  more{i}: {{says: A., holds: pp}}\n" for i in range(2 * budget.FAULTS))
    path, _ = edited("softmax", "laws:\n", f"laws:\n{claims}")
    found = lint_files([path])[0]
    assert budget.FAULTS + 1 == len(found)
    assert str(found[-1]).endswith("after 50 faults nothing further is read; fix these first")


def softmax(before="title", after="title"):
    path, _ = edited("softmax", before, after)
    return load([path])["softmax"]


def test_what_is_left_out_of_a_document_is_empty_or_at_its_default():
    Path("plain.yaml").write_text(
        "mechanism: plain\ntitle: Plain\nversion: 2\nsources: [one 2020]\nsummary: >-\n  Two\n  lines.\n"
        "sizes: {n: 3}\ninputs: {x: normal(n)}\ndefinition: {y: 2 * x}\noutputs: [y]\n"
        "laws: {twice: {says: It doubles., holds: y == x + x}}\nrejects: {none: {says: No x., call: x = 1}}\n",
        "utf-8",
    )
    plain = load([Path("plain.yaml")])["plain"]
    assert ("Plain", "Two lines.", "", 2, ("one 2020",)) == (
        plain.title,
        plain.summary,
        plain.formula,
        plain.version,
        plain.sources,
    )
    assert ("plain", ("x",), (), ("y",)) == (plain.operator, plain.required, plain.optional, plain.outputs)
    assert ({}, {}, (), {}, False) == (
        plain.conventions,
        plain.mistakes,
        plain.random,
        plain.defaults,
        plain.by_reference,
    )
    law, reject = plain.laws["twice"], plain.rejects["none"]
    assert ("must", "", "true", {}) == (law.level, law.contract, law.when.text, law.given)
    assert ("should", "true") == (reject.level, reject.when.text)


def test_the_digest_tells_whether_the_text_is_the_same():
    first = softmax()
    assert first.digest == softmax().digest
    assert first.digest != softmax("title: Softmax", "title: softmax").digest


def test_the_digest_of_a_further_mechanism_depends_on_its_operator():
    paths = [edited(name, "title", "title")[0] for name in ("attention", "causal_mask", "softmax")]
    before = load(paths)["causal_mask"].digest
    edited("attention", "version: 1", "version: 2")
    assert before != load(paths)["causal_mask"].digest


def test_a_law_knows_which_of_its_givens_depend_on_the_subject():
    given = "given: a = choice(2, 3), b = p(x = a * x), c = b + 1"
    law = softmax("when: all(some) or empty_row == mean_value", given).laws["sums_to_one"]
    assert frozenset({"b", "c"}) == law.asking


def test_the_share_that_is_answered_is_nine_tenths_unless_a_file_says_otherwise():
    assert 0.9 == softmax().answered
    assert 0.75 == softmax("version: 1", "version: 1\nanswered: 0.75").answered


def test_a_scenario_has_the_defaults_that_it_does_not_assign_itself(tmp_path):
    path = tmp_path / "four.yaml"
    path.write_text(
        "mechanism: four\ntitle: Four\nversion: 1\nsummary: Four.\nsources: [Nobody 2020]\n"
        "sizes: {n: 'between(1, 9)', m: 'between(1, 9)'}\ninputs: {x: 'normal(n, m)'}\n"
        "definition: {z: x}\noutputs: [z]\n"
        "scenario_defaults: n = 4, m = 2\nscenarios: {plain: m = 2, wide: 'm = every(5, 6)'}\n"
    )
    scenarios = load([path])["four"].scenarios
    assigned = {name: {n: x.text for n, x in one.assigned.items()} for name, one in scenarios.items()}
    assert {"plain": {"n": "4", "m": "2"}, "wide": {"n": "4", "m": "every(5, 6)"}} == assigned
