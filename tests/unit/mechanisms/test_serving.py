"""Cases of the sizes of production, as files state them."""

from __future__ import annotations

import itertools

import pytest

from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import covering, far_of, faults, invariance, serving

LIBRARY = NONE.library()


def test_the_shipped_files_have_no_faults():
    assert [] == [*faults(LIBRARY)]


def test_every_two_levels_that_fit_meet_in_a_row():
    levels = [3, 2, 4]
    rows = [*covering(levels, lambda row: row[0] + row[2] < 5, 99)]
    assert all(row[0] + row[2] < 5 for row in rows)
    for i, j in itertools.combinations(range(3), 2):
        met = {(row[i], row[j]) for row in rows}
        wanted = set(itertools.product(range(levels[i]), range(levels[j])))
        assert wanted - ({(2, 3)} if (i, j) == (0, 2) else set()) == met


def test_there_are_no_more_rows_than_are_asked_for():
    assert 2 == len([*covering([4, 4], lambda row: True, 2)])


def test_cases_come_before_rows():
    names = [*serving(LIBRARY["attention"])]
    assert "decode" == names[0]
    assert "pair_20" == names[-1]


def test_a_further_mechanism_has_no_cases():
    assert {} == serving(LIBRARY["causal_mask"])


FILE = """operator: attention
factors:
  keys: [k_len = 9]
fits: k_len > 1
rows: 2
cases:
  plain: q_len = 1
"""


@pytest.mark.parametrize(
    ("text", "instead", "says"),
    [
        ("operator: attention", "operator: attentions", "the file is called 'attention', and not 'attentions'"),
        ("k_len = 9", "k_size = 9", "nothing is called 'k_size'"),
        ("fits: k_len > 1", "fits: k_size > 1", "unknown name 'k_size'"),
        ("rows: 2", "rows: many", "rows: 'many'"),
        (
            "rows: 2",
            "rows: 2\nfurther: {causal_masks: {batch: {axis: batch, case: q_len = 1}}}",
            "further: causal_masks is no further mechanism of attention",
        ),
        (
            "rows: 2",
            "rows: 2\nfurther: {causal_mask: {batch: {axis: k_len, case: q_len = 1}}}",
            "axis: something is computed along k_len",
        ),
        (
            "rows: 2",
            "rows: 2\ninvariance: {chunk: {axis: q_len, option: chunks, case: q_len = 1}}",
            "option: nothing is called chunks",
        ),
        ("cases:", "cazes:", "unknown key 'cazes'; did you mean 'cases'?"),
    ],
)
def test_a_fault_of_a_file_is_told(tmp_path, text, instead, says):
    (tmp_path / "attention.yaml").write_text(FILE.replace(text, instead))
    assert says in " ".join(str(error) for error in faults(LIBRARY, tmp_path))


def test_a_case_may_say_how_its_arrays_lie():
    assert far_of(LIBRARY["attention"], "decode") is None
    assert far_of(LIBRARY["attention"], "strides_over_31_bits").apart.text.startswith("2 ** 31")
    pool = far_of(LIBRARY["paged_attention"], "pool_over_31_bits")
    assert ("pages", "table") == (pool.axis, pool.numbers)
    assert "pool_over_31_bits" in serving(LIBRARY["paged_attention"])


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("attention", {"batch": "batch", "chunk": "q_len"}),
        ("cached_attention", {"batch": "batch", "chunk": "length"}),
        ("quantized_attention", {"batch": "batch", "chunk": "q_len"}),
        ("quantized_cache", {"batch": "batch", "chunk": "length"}),
        ("written_cache", {"batch": "batch", "chunk": "length"}),
        ("quantized_pages", {"batch": "batch", "chunk": "q_len"}),
        ("causal_mask", {}),
        ("latent_pages", {"batch": "batch", "chunk": "q_len"}),
        ("packed_attention", {"batch": "items"}),
        ("softmax", {"batch": "rows"}),
    ],
)
def test_bits_of_rows_are_asked_for_along_an_axis(name, axes):
    assert axes == {kind: company.axis for kind, company in invariance(LIBRARY[name]).items()}
