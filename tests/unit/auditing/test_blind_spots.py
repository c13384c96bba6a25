"""What a run could not have noticed in one implementation, and why."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from attnspec.adapters import Adapter
from attnspec.auditing.blind_spots import Seen, page, seen
from attnspec.cli import main
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject


def softmax(x):
    with np.errstate(all="ignore"):
        terms = np.exp(x - np.maximum(x.max(-1, keepdims=True), -1e30))
        return terms / np.maximum(terms.sum(-1, keepdims=True), 1e-30)


def of_few_entries(x):
    if x.shape[-1] > 8:
        raise NotImplementedError("too wide")
    return softmax(x)


def attention(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5) @ v


def masked(q, k, v, causal=False):
    return attention(q, k, v)


def blind(function, operator, mechanism="", mistakes=(), **more):
    words = {"empty_row": "zeros"} if operator == "softmax" else {}
    one = subject(
        Adapter("kernel", operator, function, "numpy", **{"conventions": words, "dtypes": ("float32",), **more})
    )
    return seen(one, library()[mechanism or operator], "float32", mistakes=mistakes)


def test_whoever_claims_everything_leaves_nothing_unnoticed():
    found = blind(softmax, "softmax")
    assert (len(library()["softmax"].mistakes), {}) == (found.known, found.blind)


@pytest.mark.parametrize(
    ("function", "more", "why"),
    [
        (softmax, {"limits": {"n": range(1, 9)}}, "beyond the limits of n"),
        (of_few_entries, {}, "the cases that show it are refused: NotImplementedError: too wide"),
    ],
)
def test_mistakes_of_many_entries_hide_from_who_takes_few(function, more, why):
    assert why in blind(function, "softmax", **more).blind.values()


def test_a_mistake_in_what_is_not_claimed_is_not_noticed():
    found = blind(attention, "attention", mistakes=("cap_ignored", "sink_scaled", "no_scale")).blind
    assert {"cap_ignored": "does not take softcap", "sink_scaled": "does not take sink"} == found


def test_what_is_fixed_shows_no_other_value():
    found = blind(attention, "attention", mistakes=("cap_ignored",), fixed={"softcap": None})
    assert {"cap_ignored": "takes softcap = None only"} == found.blind


def test_of_a_mechanism_that_is_not_claimed_nothing_is_noticed():
    found = blind(attention, "attention", "sliding_window").blind
    assert dict.fromkeys(library()["sliding_window"].mistakes, "does not take window_left") == found


def test_some_mistakes_show_under_one_word_alone():
    words = {"causal_alignment": "top_left", "masked_nonfinite": "ignored", "empty_row": "zeros", "grouping": "block"}
    found = blind(masked, "attention", "causal_mask", ("first_row_in_decode",), conventions=words)
    assert {"first_row_in_decode": "does not show where causal_alignment = top_left"} == found.blind


def test_the_page_has_a_block_for_every_reason():
    one = subject(Adapter("kernel", "attention", attention, "numpy"))
    says = library()["attention"].mistakes
    assert list(
        page(
            one,
            [
                Seen("attention", "float32", 44, {"cap_ignored": "no caps", "sink_scaled": "no sinks"}),
                Seen("attention", "float16", 44, {"sink_ignored": "no sinks", "sink_scaled": "no sinks"}),
                Seen("multi_query", "float32", 1, {"queries_mixed": "no heads"}),
            ],
        )
    ) == [
        "kernel   attention   41 of 44 known mistakes would be detected",
        "    no sinks:",
        f"        sink_scaled   {says['sink_scaled'].says}",
        f"        sink_ignored in float16   {says['sink_ignored'].says}",
        "    no caps:",
        f"        cap_ignored in float32   {says['cap_ignored'].says}",
        "kernel   multi_query   0 of 1 known mistakes would be detected",
        "    no heads: all of them",
    ]


def test_the_command_answers_for_a_file():
    code = "def softmax(x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n"
    Path("kernels.py").write_text(f"import numpy as np\n\n\n{code}")
    done = CliRunner().invoke(main, ["audit", "--for", "kernels.py:softmax", "--mechanism", "softmax"])
    assert 0 == done.exit_code
    assert done.output.startswith("softmax   softmax   ")
    assert 6 == CliRunner().invoke(main, ["audit", "--for", "kernels.py:softmx"]).exit_code
    nothing = CliRunner().invoke(main, ["audit", "--for", "kernels.py:softmax", "--mechanism", "attention"])
    assert 5 == nothing.exit_code


def test_the_command_asks_for_an_operator_where_a_name_does_not_say_it():
    Path("kernels.py").write_text("def fast(x):\n    return x\n")
    arguments = ["audit", "--for", "kernels.py:fast", "--mechanism", "alibi_slopes"]
    assert "add --operator" in CliRunner().invoke(main, arguments).stderr
    done = CliRunner().invoke(main, [*arguments[:-1], "softmax", "--operator", "softmax", "--framework", "numpy"])
    assert (0, True) == (done.exit_code, done.output.startswith("fast   softmax   "))
    alone = CliRunner().invoke(main, ["audit", "--operator", "softmax"])
    assert (4, True) == (alone.exit_code, "are about the TARGET of --for" in alone.stderr)
