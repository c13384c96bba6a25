"""Sums within chunks and of segments: both witnesses by hand, and functions as people write them."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined_cumsum(**values):
    return np.asarray(Frame(library()["chunk_cumsum"], values).outputs()["out"])


@pytest.mark.parametrize("witness", [defined_cumsum, reference.chunk_cumsum])
@pytest.mark.parametrize("length", [8, 5, 3])
def test_sums_begin_anew_in_each_chunk(witness, length):
    x = np.random.default_rng(0).normal(size=(2, 3, length))
    parts = np.split(x, [4, 8][: (length - 1) // 4], 2)
    onwards = 0.5 * np.concatenate([part.cumsum(2) for part in parts], 2)
    back = 0.5 * np.concatenate([part[..., ::-1].cumsum(2)[..., ::-1] for part in parts], 2)
    np.testing.assert_allclose(witness(x=x, chunk_size=4, reverse=False, scale=0.5), onwards, rtol=1e-12)
    np.testing.assert_allclose(witness(x=x, chunk_size=4, reverse=True, scale=0.5), back, rtol=1e-12)


def test_the_reference_refuses_chunks_without_tokens():
    with pytest.raises(ValueError, match="a chunk has a token"):
        reference.chunk_cumsum(np.ones((1, 1, 2)), chunk_size=0)


def back(part, fault):
    if fault == "difference":
        return part.sum(1, keepdim=True) - part.cumsum(1) + part
    return part.flip(1).cumsum(1).flip(1)


def known(fault=None):
    def chunk_local_cumsum(g, chunk_size, reverse=False, scale=None, cu_seqlens=None, output_dtype=torch.float):
        parts = [part.float() for part in g.split(chunk_size, 1)]
        out = torch.cat([back(part, fault) if reverse else part.cumsum(1) for part in parts], 1)
        return out if scale is None or fault == "scale" else out * scale

    return chunk_local_cumsum


def own(fault=None):
    def chunkwise_cumsum(log_decay, chunk_len):
        rest = -log_decay.shape[1] % chunk_len
        padded = torch.nn.functional.pad(log_decay.float(), (0, 0, 0, rest))
        parts = padded if fault == "whole" else padded.unflatten(1, (-1, chunk_len))
        sums = parts.cumsum(1 if fault == "whole" else 2)
        return (sums if fault == "whole" else sums.flatten(1, 2))[:, : log_decay.shape[1]]

    return chunkwise_cumsum


def checked(function):
    return attnspec.check(function, profile="quick", dtypes=("float32",), explain_time=0)


@pytest.mark.parametrize("function", [known(), own()])
def test_a_right_function_conforms(function):
    report = checked(function)
    assert report.conformant, report
    assert {"chunk_cumsum"} == {line["operator"] for line in report.lines if line["kind"] == "cell"}


@pytest.mark.parametrize("function", [known("difference"), known("scale"), own("whole")])
def test_a_wrong_function_does_not(function):
    assert not checked(function).conformant


def defined_segments(**values):
    return np.asarray(Frame(library()["segment_sums"], values).outputs()["sums"])


@pytest.mark.parametrize("witness", [defined_segments, reference.segment_sums])
def test_a_segment_is_summed_behind_its_first_place(witness):
    x = np.array([[1.0, 2.0, 4.0, 8.0], [3.0, -np.inf, 5.0, 7.0]])
    none = -np.inf
    first = [[0, none, none, none], [2, 0, none, none], [6, 4, 0, none], [14, 12, 8, 0]]
    second = [[0, none, none, none], [none, 0, none, none], [none, 5, 0, none], [none, 12, 7, 0]]
    np.testing.assert_array_equal(witness(x=x), [first, second])


def test_the_reference_refuses_numbers_without_end():
    with pytest.raises(ValueError, match="below infinity"):
        reference.segment_sums(np.full((1, 2), np.inf))


def hidden(n, diagonal):
    return ~torch.ones(n, n, dtype=torch.bool).tril(diagonal)


def segsum(x):
    n = x.shape[-1]
    sums = x.float()[..., None].expand(*x.shape, n).masked_fill(hidden(n, -1), 0).cumsum(-2)
    return sums.masked_fill(hidden(n, 0), -torch.inf).to(x.dtype)


def segment_sum(input_tensor):
    return segsum(input_tensor)


def segsum_of_four_axes(A):
    b, h, c, n = A.shape
    return segsum(A.reshape(b * h * c, n)).reshape(b, h, c, n, n)


def segsum_by_difference(x):
    whole = x.cumsum(-1)
    return (whole[..., None] - whole[..., None, :]).masked_fill(hidden(x.shape[-1], 0), -torch.inf)


def segsum_with_the_first(x):
    return (segsum(x) + x[..., None, :]).masked_fill(hidden(x.shape[-1], 0), -torch.inf)


@pytest.mark.parametrize("function", [segsum, segment_sum, segsum_of_four_axes])
def test_right_segment_sums_conform(function):
    report = checked(function)
    assert report.conformant, report
    assert {"segment_sums"} == {line["operator"] for line in report.lines if line["kind"] == "cell"}


@pytest.mark.parametrize("function", [segsum_by_difference, segsum_with_the_first])
def test_wrong_segment_sums_do_not(function):
    assert not checked(function).conformant
