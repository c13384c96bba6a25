"""Pages with a mask for each query: two witnesses against their formula, and faults as people make them."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

SEED = 7


def case():
    rng = np.random.default_rng(SEED)
    q, k, v = (rng.normal(size=shape) for shape in ((2, 3, 4, 5), (6, 4, 2, 5), (6, 4, 2, 3)))
    table, k_lens = np.array([[5, 1], [2, 4]]), np.array([7, 4])
    past = np.arange(8) <= k_lens[:, None, None] - 3 + np.arange(3)[:, None]
    mask = past & ((rng.random((2, 3, 8)) < 0.6) | (np.arange(8) == 0))
    return {"q": q, "key_pages": k, "value_pages": v, "table": table, "k_lens": k_lens, "mask": mask}


def by_definition(**given):
    frame = Frame(library()["masked_pages"], given)
    return frame["out"]


def by_reference(**given):
    return reference.paged_attention(**given)["out"]


@pytest.mark.parametrize("witness", [by_definition, by_reference])
def test_every_item_is_given_attention_with_its_mask_over_its_tokens(witness):
    given = case()
    found = np.asarray(witness(**given))
    for item, count in enumerate(given["k_lens"]):
        keys, values = (
            given[name][given["table"][item]].reshape(8, 2, -1)[:count] for name in ("key_pages", "value_pages")
        )
        for head in range(4):
            scores = given["q"][item, :, head] @ keys[:, head // 2].T / np.sqrt(5)
            weights = np.where(given["mask"][item, :, :count], np.exp(scores), 0)
            expected = weights @ values[:, head // 2] / weights.sum(-1, keepdims=True)
            assert np.abs(found[item, :, head] - expected).max() < 1e-14


def attention_with(columns):
    """A function whose mask has its columns read in one way or another."""

    def paged_attention(q, key_pages, value_pages, table, k_lens, *, mask=None, window_left=None, scale=None):
        out = torch.zeros(*q.shape[:3], value_pages.shape[3])
        for item, count in enumerate(k_lens.tolist()):
            own = table[item, : -(-count // key_pages.shape[1])]
            k, v = (
                x[own].flatten(0, 1)[:count].transpose(0, 1).repeat_interleave(q.shape[2] // x.shape[2], 0).float()
                for x in (key_pages, value_pages)
            )
            back = count - q.shape[1] + torch.arange(q.shape[1])[:, None] - torch.arange(count)
            seen = (back >= 0) & (back <= (count if window_left is None else window_left))
            if mask is not None:
                seen = seen & columns(mask[item], count, key_pages.shape[1], q.shape[1], window_left)
            s = q[item].transpose(0, 1).float() @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
            p = torch.softmax(s.masked_fill(~seen, -torch.inf), -1).nan_to_num()
            out[item] = (p @ v).transpose(0, 1)
        return out.to(q.dtype)

    return paged_attention


def right(mask, count, page_size, q_len, window):
    return mask[:, :count]


def of_a_page(mask, count, page_size, q_len, window):
    return mask[:, torch.arange(count) % page_size]


def of_the_first_query(mask, count, page_size, q_len, window):
    return mask[:1, :count]


def only_of_drafts(mask, count, page_size, q_len, window):
    return mask[:, :count] | (torch.arange(count) < count - q_len)


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (right, ""),
        (of_a_page, "columns_of_a_page"),
        (of_the_first_query, "of_first_query"),
        (only_of_drafts, "cached_tokens_seen"),
    ],
)
def test_columns_of_the_mask_that_are_read_wrongly_are_found_and_named(columns, name):
    laws = ("masked_pages.definition",)
    report = attnspec.check(
        attention_with(columns),
        operator="paged_attention",
        framework="torch",
        laws=laws,
        isolate=False,
        dtypes=("float32",),
    )
    assert (not name) == bool(report)
    assert not name or f"Like      masked_pages.{name}:" in str(report)
