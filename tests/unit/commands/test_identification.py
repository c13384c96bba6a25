"""What an implementation follows, whatever it declares."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main

KERNELS = """
import numpy as np
from attnspec import adapter

DTYPES = ("float32", "float64")

def softmax(x, empty):
    p = np.exp(x - np.where(np.isinf(x).all(-1, keepdims=True), 0, x.max(-1, keepdims=True)))
    total = p.sum(-1, keepdims=True)
    return np.where(total == 0, empty, p / np.where(total == 0, 1, total)).astype(x.dtype)

@adapter("softmax", framework="numpy", dtypes=DTYPES, conventions={"empty_row": "nans"})
def zeros(x): return softmax(x, 0)

@adapter("softmax", framework="numpy", dtypes=DTYPES)
def by_dtype(x): return softmax(x, 0 if x.dtype == np.float32 else np.nan)

@adapter("softmax", framework="numpy", dtypes=DTYPES)
def sevens(x): return softmax(x, 7)

@adapter("softmax", framework="numpy", dtypes=DTYPES)
def refuses(x):
    if np.isinf(x).any():
        raise ValueError
    return softmax(x, 0)

@adapter("attention", framework="numpy", limits={"kv_heads": [1]})
def by_length(q, k, v, *, causal=False):
    rows, columns = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])
    offset = k.shape[2] - 1 if q.shape[2] == 1 else 0
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    hidden = causal & (columns > rows + offset)
    return softmax(np.where(hidden, -np.inf, scores), 0) @ v

@adapter("swiglu", framework="numpy")
def plain(x, w_gate, w_up, w_down): return x
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS)

    def page(name, *args):
        result = CliRunner().invoke(main, ["identify", f"kernels.py:{name}", *args])
        assert 0 == result.exit_code, result.output
        return result.output.splitlines()

    return page


def test_what_is_followed_is_shown_with_its_evidence_and_against_what_is_declared(page):
    head, opening, entry, closing, note = page("zeros")
    assert ("zeros   softmax   float32 float64", "conventions={", "}") == (head, opening, closing)
    assert entry.startswith('    "empty_row": "zeros",  # shown by ')
    assert "empty_row: declared as nans, and follows zeros" == note


def test_a_convention_that_depends_on_the_dtype_is_in_no_block(page):
    assert ["empty_row: depends on the dtype: zeros in float32, nans in float64"] == page("by_dtype")[1:]


def test_one_dtype_is_told_by_itself(page):
    assert '    "empty_row": "nans",' in page("by_dtype", "--dtype", "float64")[2]


def test_what_follows_no_word_says_how_far_each_goes(page):
    (line,) = page("sevens")[1:]
    assert line.startswith("empty_row: follows no word consistently: ")
    assert "explains 0 of" in line


def test_what_no_case_tells_is_said(page):
    assert ["empty_row: no answered case distinguishes its words"] == page("refuses")[1:]


def test_an_operator_without_conventions_says_so(page):
    assert ["    swiglu has no conventions"] == page("plain")[1:]


def test_what_decides_between_two_words_is_named(page):
    text = page("by_length")
    at = next(i for i, line in enumerate(text) if line.startswith("causal_alignment: follows no word consistently"))
    assert "    in float32: bottom_right where q_len is 1, top_left elsewhere" == text[at + 1]


def test_a_table_of_many_has_what_differs_from_what_is_declared_in_bold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernels.py").write_text(KERNELS)
    names = ("zeros", "by_dtype", "sevens", "refuses", "plain", "by_length")
    result = CliRunner().invoke(main, ["identify", *(f"kernels.py:{name}" for name in names), "--markdown"])
    assert 0 == result.exit_code, result.output
    table = result.output.splitlines()
    assert table[0] == "# Conventions of implementations"
    assert table[2].startswith("- `attnspec 0.1.0   profile quick ")
    softmax = table.index("## softmax")
    assert [
        "| implementation | empty_row |",
        "|---|---|",
        "| by_dtype | zeros in float32; nans in float64 |",
        "| refuses | - |",
        "| sevens | ? |",
        "| zeros | **zeros** |",
    ] == table[softmax + 2 : softmax + 8]
    attention = next(line for line in table if line.startswith("| by_length "))
    assert "| bottom_right where q_len is 1, else top_left |" in attention
    assert not any(line.startswith("| plain") for line in table)


def test_a_target_is_named_or_all_of_them():
    assert 4 == CliRunner().invoke(main, ["identify"]).exit_code
