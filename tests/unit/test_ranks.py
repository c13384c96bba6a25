"""Processes that make one call together: what they are handed and return, how they fail, and wrong rings among them."""

import os
import time

import pytest
import torch
import torch.distributed as dist

import attnspec
from attnspec import adapter
from attnspec.adapters.controls import ring
from attnspec.adapters.faults.ring import ring_backward_of_own_queries, ring_hides_by_local_position
from attnspec.adapters.torch.ranks import Ranks, cut, filled, in_order, joined, striped, zigzag

ORDERS = pytest.mark.parametrize("order", [in_order, zigzag, striped])


@ORDERS
@pytest.mark.parametrize(("length", "count"), [(12, 3), (13, 2), (2, 4), (0, 2)])
def test_what_is_cut_is_joined_again(order, length, count):
    x = torch.arange(2.0 * length).reshape(2, length)
    places = order(length, count)
    assert torch.equal(x, joined(cut(x, places, 1), places, 1))


def test_orders_are_those_of_their_names():
    assert [[0, 1, 2, 3], [4, 5, 6, 7]] == in_order(8, 2)
    assert [[0, 1, 6, 7], [2, 3, 4, 5]] == zigzag(8, 2)
    assert [[0, 2, 4, 6], [1, 3, 5, 7]] == striped(8, 2)


def test_zeros_fill_an_axis_up():
    assert [[1.0, 1.0, 1.0, 0.0]] == filled(torch.ones(1, 3), 4, 1).tolist()
    assert (2, 4) == filled(torch.ones(2, 4), 4, 1).shape


SEEN = {"left": None, "right": None, "count": 2}


def summed(x, *, factor):
    """The sum over all ranks, which rank this is, and its process."""
    dist.all_reduce(x)
    return factor * x, dist.get_rank(), os.getpid()


def failing(x):
    if dist.get_rank() == int(x):
        raise ValueError("a wrong shard")
    return x


def ending(x):
    os._exit(3)


def test_ranks_work_together_and_stay():
    ranks = Ranks(2, summed)
    first, second = (ranks([torch.ones(2), torch.ones(2)], factor=n) for n in (1, 3))
    assert [[2.0, 2.0], [6.0, 6.0]] == [first[0][0].tolist(), second[1][0].tolist()]
    assert [0, 1] == [rank for _, rank, _ in first]
    assert [pid for *_, pid in first] == [pid for *_, pid in second]
    ranks.end()


def test_what_a_rank_raises_is_raised_and_the_next_call_has_new_processes():
    ranks = Ranks(2, failing)
    with pytest.raises(ValueError, match="a wrong shard"):
        ranks([1, 1])
    assert [7, 7] == ranks([7, 7])
    ranks.end()


def test_a_rank_that_ends_is_told():
    with pytest.raises((EOFError, ConnectionResetError)):
        Ranks(2, ending)([1, 1])


def test_a_rank_that_does_not_answer_is_told():
    with pytest.raises(TimeoutError, match="has answered in 1 s"):
        Ranks(2, time.sleep, seconds=1)([30, 30])


def rank_of_ring(q, k, v, rows, columns, **options):
    return ring.passed_on(ring.forward(ring.RIGHT, q, k, v, rows, columns, **options))


def test_processes_give_the_bits_that_the_same_ranks_in_turns_give():
    q, k, v = (torch.randn(1, 2, 9, 4) for _ in range(3))
    ranks, seen = Ranks(2, rank_of_ring), {"length": 9, "causal": True, "scale": 0.5, **SEEN}
    _, given = ring.shards(2, zigzag, q, k, v)
    together = ring.in_turns([ring.forward(ring.RIGHT, *own, **seen) for own in zip(*given, strict=True)])
    for expected, actual in zip(together, ranks(*given, **seen), strict=True):
        assert all(torch.equal(x, y) for x, y in zip(expected, actual, strict=True))
    ranks.end()


def rank_of_wrong_ring(q, k, v, rows, columns, **options):
    part = ring.SimpleNamespace(hidden=ring_hides_by_local_position, merged=ring.merged)
    return ring.passed_on(ring.forward(part, q, k, v, rows, columns, **options))


def rank_of_wrong_backward(q, k, v, d_out, rows, columns, **options):
    part = ring.SimpleNamespace(**vars(ring.RIGHT) | {"added": ring_backward_of_own_queries})
    return ring.passed_on(ring.backward(part, q, k, v, d_out, rows, columns, **options))


forward, backward = Ranks(2, rank_of_wrong_ring), Ranks(2, rank_of_wrong_backward)


def wrong_ring(q, k, v, *, causal=False):
    at, given = ring.shards(2, zigzag, q, k, v)
    found = forward(*given, scale=q.shape[3] ** -0.5, length=k.shape[2], causal=causal, **SEEN)
    return joined([out for out, _ in found], at[0], 2)[:, :, : q.shape[2]]


def wrong_ring_backward(q, k, v, d_out, *, causal=False):
    at, given = ring.shards(2, zigzag, q, k, v, d_out)
    found = backward(*given, scale=q.shape[3] ** -0.5, length=k.shape[2], causal=causal, **SEEN)
    whole = ((at[0], q), (at[1], k), (at[1], v))
    return tuple(joined([one[i] for one in found], own, 2)[:, :, : x.shape[2]] for i, (own, x) in enumerate(whole))


@pytest.mark.parametrize(
    ("function", "operator", "law", "named"),
    [
        (wrong_ring, "attention", "causal_mask.definition", "ring_hides_by_local_position"),
        (wrong_ring_backward, "attention_gradient", "attention_gradient.definition", "ring_backward_of_own_queries"),
    ],
)
def test_a_wrong_ring_of_processes_is_found_and_named(function, operator, law, named):
    declared = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}
    subject = adapter(operator, conventions=declared)(function)
    report = attnspec.check(subject, dtypes=("float32",), laws=(law,), isolate=False, profile="smoke")
    assert {"fail"} == {line["verdict"] for line in report.lines if line["kind"] == "cell"}
    assert named in str(report)
