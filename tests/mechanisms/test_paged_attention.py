"""Pages of keys and values: two witnesses against exact digits, the domain, and faults as people make them."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.paged import control_pages_in_cascade
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame, refused
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

CONVENTIONS = {
    "empty_row": "zeros",
    "masked_nonfinite": "propagates",
    "unused_entries": "numbers",
    "grouping": "block",
}


def failures(function, laws=None, words=None, profile="smoke"):
    conventions = CONVENTIONS | (words or {})
    one = subject(Adapter("function", "paged_attention", function, "torch", conventions=conventions))
    cells = run(Request(one, library()["paged_attention"], "float32", PROFILES[profile], laws=laws)).cells
    return [cell.law for cell in cells if cell.bad and cell.level == "must"]


# The witnesses


def exactly(q, k, v):
    """One query over keys, in sixty digits."""
    with mpmath.workdps(60):
        scores = [mpmath.fsum(map(mpmath.fmul, q, row)) / mpmath.sqrt(len(q)) for row in k]
        weights = [mpmath.exp(s) for s in scores]
        return [float(mpmath.fsum(map(mpmath.fmul, weights, column)) / mpmath.fsum(weights)) for column in v.T]


@pytest.mark.parametrize("window_left", [None, 0, 3])
@pytest.mark.parametrize("k_lens", [[7, 2], [6, 9], [3, 5]], ids=str)
def test_both_witnesses_have_the_digits_of_the_formula(k_lens, window_left):
    draw = np.random.default_rng(0)
    q, k, v = draw.normal(size=(2, 2, 4, 5)), draw.normal(size=(2, 9, 2, 5)), draw.normal(size=(2, 9, 2, 3))
    table = np.array([[4, 0, 6], [2, 5, 1]])
    key_pages, value_pages = draw.normal(size=(7, 3, 2, 5)), draw.normal(size=(7, 3, 2, 3))
    for item in range(2):
        key_pages[table[item]], value_pages[table[item]] = k[item].reshape(3, 3, 2, 5), v[item].reshape(3, 3, 2, 3)
    expected = np.empty((2, 2, 4, 3))
    for b, i, h in np.ndindex(2, 2, 4):
        last = k_lens[b] - 1 + i
        seen = range(0 if window_left is None else max(last - 1 - window_left, 0), last)
        expected[b, i, h] = exactly(q[b, i, h], k[b, seen, h // 2], v[b, seen, h // 2])
    given = {"q": q, "key_pages": key_pages, "value_pages": value_pages, "table": table, "k_lens": np.array(k_lens)}
    found = reference.paged_attention(*given.values(), window_left=window_left)["out"]
    np.testing.assert_allclose(found, expected, 0, 1e-13)
    frame = Frame(library()["paged_attention"], {**given, "window_left": window_left})
    np.testing.assert_allclose(frame.outputs()["out"], expected, 0, 1e-13)


@pytest.mark.parametrize(
    ("table", "k_lens", "condition"),
    [
        ([[2, 0], [1, 3]], [4, 3], None),
        ([[2, -1], [1, 3]], [2, 3], None),
        ([[2, 2], [1, 3]], [2, 3], None),
        ([[2, 0], [2, 0]], [4, 3], None),
        ([[2, 0], [1, 3]], [5, 3], "fitting"),
        ([[2, 0], [1, 3]], [-1, 3], "fitting"),
        ([[2, -1], [1, 3]], [3, 3], "numbered"),
        ([[2, 4], [1, 3]], [2, 3], "numbered"),
        ([[2, 2], [1, 3]], [3, 3], "apart"),
    ],
    ids=str,
)
def test_the_pages_that_an_item_uses_are_numbered_and_apart(table, k_lens, condition):
    x = np.ones((4, 2, 1, 3))
    given = {"q": np.ones((2, 1, 1, 3)), "key_pages": x, "value_pages": x, "table": np.array(table)}
    why = refused(library()["paged_attention"], {**given, "k_lens": np.array(k_lens)})
    assert condition == (why and why.partition(", ")[2].partition(":")[0])


# Faults, as people make them


def gathered(q, key_pages, value_pages, table, k_lens, *, scale=None, lookup=None, there=None):
    """All slots of the tables, of which those that hold later tokens or none are hidden."""
    page_size, group = key_pages.shape[1], q.shape[2] // key_pages.shape[2]
    slot, row = torch.arange(table.shape[1] * page_size), k_lens[:, None] - q.shape[1] + torch.arange(q.shape[1])
    page = table[:, slot // page_size] if lookup is None else lookup(table, slot, page_size)
    k, v = (x[page, slot % page_size].repeat_interleave(group, 2) for x in (key_pages, value_pages))
    seen = slot <= row[..., None] if there is None else there(slot, row, k_lens, page_size)
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    p = torch.softmax(s.masked_fill(~seen[:, None], float("-inf")), -1).nan_to_num(0.0)
    return torch.einsum("bhqk,bkhd->bqhd", p, v)


def test_slots_that_are_gathered_and_hidden_are_right():
    assert [] == failures(gathered)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lookup": lambda table, slot, n: table[:1].expand(len(table), -1)[:, slot // n]},
        {"lookup": lambda table, slot, n: (table[:, :1] + slot // n) % (table.max() + 1)},
        {"there": lambda slot, row, k_lens, n: slot // n <= row[..., None] // n},
        {"there": lambda slot, row, k_lens, n: slot <= k_lens.max() - k_lens[:, None, None] + row[..., None]},
    ],
    ids=["table_of_the_first_item", "pages_in_a_row", "whole_pages", "lengths_of_the_longest"],
)
def test_a_fault_is_seen(wrong):
    def faulty(q, key_pages, value_pages, table, k_lens, *, scale=None):
        return gathered(q, key_pages, value_pages, table, k_lens, scale=scale, **wrong)

    assert ["definition"] == failures(faulty, laws=("definition",))


# Keys and values in one array


SPLIT = {
    "kv_nhd": lambda x: x.unbind(1),
    "kv_hnd": lambda x: x.transpose(2, 3).unbind(1),
    "kv_pools": lambda x: x.unbind(0),
    "kv_heads_in_turn": lambda x: (x[:, :, ::2], x[:, :, 1::2]),
    "kv_channels": lambda x: x.chunk(2, -1),
    "kv_channels_hnd": lambda x: x.transpose(1, 2).chunk(2, -1),
}


def over_one_array(layout, order):
    """Attention over `kv_cache`, which has keys and values in a layout."""

    def paged_attention(q, kv_cache, table, k_lens, *, scale=None):
        pools = SPLIT[layout](kv_cache)[::order]
        out = torch.zeros(q.shape)
        for item, count in enumerate(k_lens.tolist()):
            pages = table[item, : -(-count // pools[0].shape[1])].long()
            group = q.shape[2] // pools[0].shape[2]
            keys, values = (x[pages].flatten(0, 1)[:count].repeat_interleave(group, 1) for x in pools)
            scores = torch.einsum("qhd,khd->hqk", q[item], keys) * (q.shape[3] ** -0.5 if scale is None else scale)
            row = torch.arange(q.shape[1])[:, None] + count - q.shape[1]
            shares = torch.softmax(scores.masked_fill(torch.arange(count) > row, -torch.inf), -1).nan_to_num(0.0)
            out[item] = torch.einsum("hqk,khd->qhd", shares, values)
        return out

    return paged_attention


@pytest.mark.parametrize(("order", "bad"), [(1, []), (-1, ["definition"])], ids=["right", "exchanged"])
@pytest.mark.parametrize("layout", SPLIT)
def test_pages_of_keys_and_values_may_be_one_array(layout, order, bad):
    words = {**CONVENTIONS, "unused_entries": "unread"}
    one = subject(
        Adapter("function", "paged_attention", over_one_array(layout, order), "torch", conventions=words, layout=layout)
    )
    request = Request(one, library()["paged_attention"], "float32", PROFILES["smoke"], laws=("definition",))
    assert bad == [cell.law for cell in run(request).cells if cell.bad]
    assert layout in library()["paged_attention"].layouts


def test_parts_meet_by_their_logsumexps_alone():
    def one_more_for_one_page(q, key_pages, value_pages, table, k_lens, *, scale=None, softcap=None):
        found = control_pages_in_cascade(q, key_pages, value_pages, table, k_lens, scale=scale, softcap=softcap)
        return {**found, "lse": found["lse"] + (table.shape[1] == 1)}

    words, ways = {"empty_row": "zeros", "lse_base": "natural"}, (control_pages_in_cascade, one_more_for_one_page)
    assert [[], ["cascade"]] == [failures(one, ("cascade",), words, "quick") for one in ways]
