"""Pages whose queries reach to the right, and pages with a bias: witnesses by hand, and faults as people make them."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

SEED = 11


def pages():
    rng = np.random.default_rng(SEED)
    q, k, v = (rng.normal(size=shape) for shape in ((2, 5, 4, 5), (6, 4, 2, 5), (6, 4, 2, 3)))
    return {"q": q, "key_pages": k, "value_pages": v, "table": np.array([[5, 1], [2, 4]]), "k_lens": np.array([7, 6])}


def by_definition(mechanism, **given):
    return Frame(library()[mechanism], given)["out"]


def by_reference(mechanism, **given):
    return reference.paged_attention(**given)["out"]


def by_hand(given, sees, bias):
    """Every query by itself over the tokens that it sees."""
    out = np.zeros((2, 5, 4, 3))
    for item, count in enumerate(given["k_lens"]):
        keys, values = (given[name][given["table"][item]].reshape(8, 2, -1) for name in ("key_pages", "value_pages"))
        for i in range(5):
            row = count - 5 + i
            seen = [t for t in range(count) if sees(item, row, t)]
            for head in range(4):
                scores = keys[seen, head // 2] @ given["q"][item, i, head] / np.sqrt(5) + bias[item, head, i, seen]
                weights = np.exp(scores - scores.max())
                out[item, i, head] = weights @ values[seen, head // 2] / weights.sum()
    return out


SPANS = np.array([[[3, 5], [0, 1]], [[2, 5], [4, 3]]])


def together(item, row, t):
    return any(a <= row <= b and a <= t <= b for a, b in SPANS[item])


@pytest.mark.parametrize("witness", [by_definition, by_reference])
@pytest.mark.parametrize(
    ("options", "sees"),
    [
        ({"window_right": None}, lambda item, row, t: True),
        ({"window_right": 1}, lambda item, row, t: t <= row + 1),
        ({"window_right": 2, "window_left": 1}, lambda item, row, t: row - 1 <= t <= row + 2),
        ({"spans": SPANS}, lambda item, row, t: t <= row or together(item, row, t)),
        ({"spans": SPANS, "window_left": 1}, lambda i, row, t: row - 1 <= t <= row or together(i, row, t)),
        (
            {"spans": SPANS, "window_left": 1, "clamp_spans": True},
            lambda i, row, t: row - 1 <= t and (t <= row or together(i, row, t)),
        ),
    ],
)
def test_every_query_sees_what_windows_and_spans_say(witness, options, sees):
    given = pages()
    found = np.asarray(witness("bidirectional_pages", **given, **options))
    assert np.abs(found - by_hand(given, sees, np.zeros((2, 4, 5, 8)))).max() < 1e-14


@pytest.mark.parametrize("witness", [by_definition, by_reference])
@pytest.mark.parametrize("shape", [(2, 4), (1, 4), (2, 1), (1, 1)])
def test_a_bias_is_added_to_the_scores_of_the_tokens_in_their_order(witness, shape):
    given, bias = pages(), np.random.default_rng(SEED).normal(size=(*shape, 5, 8))
    found = np.asarray(witness("biased_pages", **given, bias=bias))
    expected = by_hand(given, lambda item, row, t: t <= row, np.broadcast_to(bias, (2, 4, 5, 8)))
    assert np.abs(found - expected).max() < 1e-14


def attention_with(spans_of=lambda spans, item: spans[item], values_of=lambda v, behind: v):
    """A function that is right but for the spans that it takes for those of an item, or for its values."""

    def paged_attention(
        q, key_pages, value_pages, table, k_lens, *, spans=None, window_left=None, window_right=0, scale=None
    ):
        out = torch.zeros(*q.shape[:3], value_pages.shape[3])
        for item, count in enumerate(k_lens.tolist()):
            own = table[item, : -(-count // key_pages.shape[1])]
            k, v = (
                x[own].flatten(0, 1)[:count].transpose(0, 1).repeat_interleave(q.shape[2] // x.shape[2], 0).float()
                for x in (key_pages, value_pages)
            )
            row, slot = count - q.shape[1] + torch.arange(q.shape[1])[:, None], torch.arange(count)
            seen = (slot <= row + (count + q.shape[1] if window_right is None else window_right)) & (
                row - slot <= (count if window_left is None else window_left)
            )
            for first, last in [] if spans is None else spans_of(spans, item).tolist():
                seen = seen | ((first <= row) & (row <= last) & (first <= slot) & (slot <= last))
            s = q[item].transpose(0, 1).float() @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
            p = torch.softmax(s.masked_fill(~seen, -torch.inf), -1).nan_to_num()
            behind = slot > row[0] + (window_right or count)
            out[item] = (p @ values_of(v, behind)).transpose(0, 1)
        return out.to(q.dtype)

    return paged_attention


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (attention_with(), ""),
        (attention_with(spans_of=lambda spans, item: spans[0]), "spans_of_first_item"),
        (attention_with(spans_of=lambda spans, item: spans[item, :1]), "first_span_alone"),
        (
            attention_with(values_of=lambda v, behind: v.masked_fill(behind[:, None], 0.0)),
            "values_behind_first_window",
        ),
    ],
)
def test_what_is_wrong_with_spans_and_right_windows_is_found_and_named(function, name):
    report = attnspec.check(
        function,
        operator="paged_attention",
        framework="torch",
        laws=("bidirectional_pages.definition",),
        isolate=False,
        dtypes=("float32",),
    )
    assert (not name) == bool(report)
    assert not name or f"bidirectional_pages.{name}" in str(report)
