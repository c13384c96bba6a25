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
    assert entry.startswith('    "empty_row": "zeros",  # told by ')
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
    assert ["empty_row: no case that it answers tells its words apart"] == page("refuses")[1:]


def test_an_operator_without_conventions_says_so(page):
    assert ["    swiglu has no conventions"] == page("plain")[1:]
