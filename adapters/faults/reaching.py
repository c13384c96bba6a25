"""Pages in blocks of queries, each of which reads the stretch of tokens that it reaches, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.attention import online
from ..controls.paged import CONVENTIONS, visible
from .whole import Whole

ROWS = 4
"""Queries of a block."""
Spans = list[list[int]]


def start(first: int, window: int | None, spans: Spans) -> int:
    """The first token that a block reads whose first query is at the position `first`."""
    return 0 if window is None else max(min([first - window, *(a for a, _ in spans)]), 0)


def stop(at: int, last: int, left: int | None, right: int | None, spans: Spans, count: int) -> int:
    """The token behind those that a block reads from `at` on whose last query is at the position `last`."""
    return count if right is None else max(at, min(max([last + right, *(b for _, b in spans)]) + 1, count))


def weighed(v: Any, at: int, first: int, right: int | None) -> Any:
    """The values of a block, those that none of its queries sees among them."""
    return v


def added(bias: Any, first: int, last: int, at: int, end: int) -> Any:
    """The bias of queries `first` to `last` for the tokens from `at` to `end`: [heads, queries, tokens]."""
    return bias[:, first:last, at:end]


def blocked(part: Any) -> Callable[..., Any]:
    """Of parts to the function of blocks: the state of an item, without arguments that a fault cannot have."""
    import torch

    def attend(
        q: Any, key_pages: Any, value_pages: Any, table: Any, k_lens: Any, spans: Any, bias: Any, **options: Any
    ) -> Any:
        left, right, scale = options["window_left"], options["window_right"], options["scale"]
        out, q_len = torch.zeros(*q.shape[:3], value_pages.shape[3]), q.shape[1]
        for item, count in enumerate(k_lens.tolist()):
            own = [] if spans is None else [pair for pair in spans[item].tolist() if pair[0] <= pair[1]]
            seen, before = visible(q_len, count, left, right, own), count - q_len
            pages = table[item, : -(-count // key_pages.shape[1])]
            k, v = (x[pages].flatten(0, 1)[:count].float().transpose(0, 1)[None] for x in (key_pages, value_pages))
            for one in range(0, q_len, ROWS):
                end = min(one + ROWS, q_len)
                at = part.start(before + one, left, own)
                to = part.stop(at, before + end - 1, left, right, own, count)
                more = {} if bias is None else {"bias": part.added(bias[item % len(bias)], one, end, at, to)}
                values = part.weighed(v[:, :, at:to], at, before + one, right)
                queries, mask = q[item : item + 1, one:end].transpose(1, 2), seen[one:end, at:to]
                found, _ = online(queries, k[:, :, at:to], values, mask=mask, scale=scale, **more)
                out[item, one:end] = found[0].transpose(0, 1)
        return out.to(q.dtype)

    return attend


def of_spans(part: Any) -> Callable[..., Any]:
    def paged_attention(
        q: Any,
        key_pages: Any,
        value_pages: Any,
        table: Any,
        k_lens: Any,
        *,
        spans: Any,
        scale: float | None = None,
        window_left: int | None = None,
        window_right: int | None = 0,
    ) -> Any:
        options = {"window_left": window_left, "window_right": window_right, "scale": scale}
        return blocked(part)(q, key_pages, value_pages, table, k_lens, spans, None, **options)

    return paged_attention


def of_biases(part: Any) -> Callable[..., Any]:
    def paged_attention(
        q: Any,
        key_pages: Any,
        value_pages: Any,
        table: Any,
        k_lens: Any,
        *,
        bias: Any,
        scale: float | None = None,
        window_left: int | None = None,
    ) -> Any:
        options = {"window_left": window_left, "window_right": 0, "scale": scale}
        return blocked(part)(q, key_pages, value_pages, table, k_lens, None, bias, **options)

    return paged_attention


PARTS = (start, stop, weighed, added)
SPANS = Whole("paged_attention", of_spans, PARTS, CONVENTIONS, requires=("not single(spans)",))
BIASES = Whole("paged_attention", of_biases, PARTS, CONVENTIONS)


@SPANS.instead_of(start)
def span_before_the_window_unread(first: int, window: int | None, spans: Spans) -> int:
    """A block reads no token before the window of its first query, where a span begins before it."""
    return start(first, window, [])


@SPANS.instead_of(stop)
def span_behind_the_block_unread(
    at: int, last: int, left: int | None, right: int | None, spans: Spans, count: int
) -> int:
    """A block reads no token behind its last query, where a span ends behind it."""
    return stop(at, last, left, right, [], count)


@SPANS.instead_of(stop, seen="flashinfer-ai/flashinfer#4972, flashinfer-ai/flashinfer#4992")
def as_many_tokens_as_the_window_and_a_block(
    at: int, last: int, left: int | None, right: int | None, spans: Spans, count: int
) -> int:
    """Without causality a block reads as many tokens as its window to the left and its queries are."""
    whole = stop(at, last, left, right, spans, count)
    return whole if left is None or right is not None else max(at, min(whole, at + left + ROWS))


@SPANS.instead_of(weighed)
def values_behind_the_first_query_of_a_block(v: Any, at: int, first: int, right: int | None) -> Any:
    """Values behind the right window of the first query of a block count as zeros for all of them."""
    import torch

    behind = at + torch.arange(v.shape[2]) > first + (right or 0)
    return v.masked_fill(behind[:, None], 0.0) if right else v


@BIASES.instead_of(added)
def bias_from_the_first_token_read(bias: Any, first: int, last: int, at: int, end: int) -> Any:
    """Columns of the bias are counted from the first token that a block reads."""
    return bias[:, first:last, : end - at]


@BIASES.instead_of(added)
def bias_of_the_first_block(bias: Any, first: int, last: int, at: int, end: int) -> Any:
    """Rows of the bias are counted from the first query of each block."""
    return bias[:, : last - first, at:end]
