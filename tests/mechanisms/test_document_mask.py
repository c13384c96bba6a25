"""Masks of documents, prefixes and chunks: both witnesses against attention over each document alone."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls.document_masks import control_documents_by_origin
from attnspec.cases.plans import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

WITNESSES = {
    "definition": lambda **values: Frame(library()["document_mask"], values).outputs()["mask"],
    "reference": reference.document_mask,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
POSITIONS = np.array([[0, 1, 2, 3, 0, 1, 5, 6]])
DOCUMENTS = [[0, 1, 2, 3], [4, 5], [6, 7]]


@witnesses
@pytest.mark.parametrize("window", [None, 1])
def test_documents_are_given_what_they_are_given_alone(witness, window):
    q, k, v = (np.sin(by * np.arange(1, 1 + 2 * 8 * 3)).reshape(1, 2, 8, 3) for by in (1.1, 1.7, 0.9))
    mask = witness(positions=POSITIONS, window_left=window, chunk=None)
    found = reference.attention(q, k, v, mask=mask[:, None])["out"]
    for own in DOCUMENTS:
        alone = reference.attention(q[:, :, own], k[:, :, own], v[:, :, own], causal=True, window_left=window)
        np.testing.assert_allclose(found[:, :, own], alone["out"], rtol=1e-13)


@witnesses
def test_a_prefix_sees_all_of_itself_beyond_chunks(witness):
    blocks = np.array([[7, 7, 7, -1, -1, -1, -1, -1]])
    mask = witness(positions=POSITIONS, blocks=blocks, window_left=None, chunk=2)
    assert mask[0, :3, :3].all()
    assert [False, False, True, True] == mask[0, 3, :4].tolist()
    assert not mask[0, 4:, :4].any()


def test_the_reference_refuses_a_token_without_a_block():
    with pytest.raises(ValueError, match="a position and a block"):
        reference.document_mask(POSITIONS, POSITIONS[:, 1:])


def failures(function):
    one = subject(Adapter("function", "document_mask", function, "torch"))
    cells = run(Request(one, library()["document_mask"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def one_document(positions, blocks=None, *, window_left=None, chunk=None):
    whole = torch.arange(positions.shape[1]).expand_as(positions)
    return control_documents_by_origin(whole, blocks, window_left=window_left, chunk=chunk)


def chunk_as_window(positions, blocks=None, *, window_left=None, chunk=None):
    reach = [n for n in (window_left, chunk and chunk - 1) if n is not None]
    return control_documents_by_origin(positions, blocks, window_left=min(reach, default=None))


@pytest.mark.parametrize("wrong", [one_document, chunk_as_window])
def test_what_has_been_reported_is_found(wrong):
    assert "definition" in failures(wrong)


def test_documents_told_by_their_origin_are_right():
    assert set() == failures(control_documents_by_origin)
