"""Values outside of an option's domain: the definition refuses them, and an implementation that answers is noted."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=2)
OUTSIDE = {
    "sliding_window": ("negative_left", "negative_right"),
    "attention_dropout": ("negative_share", "more_than_one"),
    "cached_attention": ("negative_window",),
    "paged_attention": ("negative_window", "no_slots"),
    "block_sparse_attention": ("negative_window", "no_block_of_queries", "no_block_of_keys"),
    "document_mask": ("negative_window", "empty_chunk"),
    "tree_mask": ("negative_window",),
    "top_k_filter": ("none_kept",),
    "top_p_filter": ("nothing_kept",),
    "sample": ("no_k", "no_p"),
    "moe_routing": ("none_chosen",),
    "lightning_indexer": ("none_chosen",),
    "gathered_attention": ("empty_block",),
    "windowed_decoder": ("empty_window",),
}


def cells(one, name):
    mechanism = library()[name]
    return run(Request(one, mechanism, "float32", SCENARIOS, laws=frozenset(OUTSIDE[name]))).cells


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_definition_refuses_values_outside(name):
    found = cells(DefinitionSubject(library()[name], "definition"), name)
    assert dict.fromkeys(OUTSIDE[name], "pass") == {cell.law: cell.verdict for cell in found}


def all_if_none(logits, *, k):
    """Top-k that keeps everything where k is zero."""
    order = np.argsort(np.argsort(-logits, -1, kind="stable"), -1, kind="stable")
    return np.where(order < (k or logits.shape[-1]), logits, -np.inf).astype(logits.dtype)


def test_who_answers_them_is_noted_and_does_not_fail():
    (cell,) = cells(subject(Adapter("all_if_none", "top_k_filter", all_if_none, "numpy")), "top_k_filter")
    assert ("none_kept", "should", True) == (cell.law, cell.level, cell.bad)
