"""A function that computes two operators is a subject of both."""

import torch

from attnspec.mechanisms.loader import library
from attnspec.subjects.beside import others
from attnspec.subjects.targets import subject, undecorated


def turned(x, cos, sin):
    one, other = x.chunk(2, -1)
    return torch.cat((one * cos - other * sin, one * sin + other * cos), -1)


def rope_of_both(q, k, cos, sin):
    return turned(q, cos, sin), turned(k, cos, sin)


def rope_of_queries(q, k, cos, sin):
    return turned(q, cos, sin)


LINE = (
    "rotary(q=x, k=x, cos=cos(positions[:, none]), sin=sin(positions[:, none]))"
    " fixed(interleaved=false) requires(dim == 2)"
)


def further(function, like=LINE):
    one = subject(undecorated(function, function.__name__, "rotary", "torch"), declared=False)
    one.take_as(like)
    return [*others(one, library())]


def test_what_turns_queries_and_keys_is_of_both_by_the_positions_of_one_item():
    (found,) = further(rope_of_both)
    assert "rotary_pair" == found.operator
    assert found.adapter.like == (
        "rotary_pair(q=q, k=k, cos=cos(positions[0][:, none]), sin=sin(positions[0][:, none]))"
        " fixed(interleaved=false, inverse=false) requires(dim == 2, batch == 1) returns(q_out, k_out)"
    )


def test_what_has_one_result_is_of_one_operator():
    assert [] == further(rope_of_queries)
