"""The tables of sines and cosines that models of Hugging Face transformers build.

Source: transformers/models/*/modeling_*.py, by the names of the functions and classes below.
Those after tensor2tensor (M2M-100, Speech2Text, FSMT, MusicGen, Whisper) space the frequencies to the base and need two
of them; those after XLM (DistilBERT, Marian, SpeechT5) space them by the width.
A module that looks rows up begins behind its padding index, which is zero here, so that it has no row for position
zero.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .. import Unsupported, adapter
from ..torch.layers import new_layer

TENSOR2TENSOR = {"columns": "sines_first", "spacing": "to_base"}
TWO_FREQUENCIES = {"dim": range(4, 4097, 2)}
declared = functools.partial(adapter, package="transformers", extra="transformers")


def modeling(model: str) -> Any:
    """The module of a model's code."""
    import importlib

    return importlib.import_module(f"transformers.models.{model}.modeling_{model}")


@functools.cache
def module(model: str, name: str, dim: int, *arguments: Any) -> Any:
    """A module with a small table, which serves all calls of one width, as in a model."""
    return new_layer(getattr(modeling(model), name), 64, dim, *arguments)


def tokens(length: int, offset: int, *leading: int) -> Any:
    """The ids of as many tokens, none of them a padding, where position zero is that of the padding."""
    import torch

    if offset == 0:
        raise Unsupported("row zero is that of the padding")
    return torch.ones(1, *leading, length, dtype=torch.int64)


@declared("sinusoidal", conventions=TENSOR2TENSOR, limits=TWO_FREQUENCIES)
def m2m_100_table(*, length: int, dim: int, offset: int = 0) -> Any:
    """M2M100SinusoidalPositionalEmbedding.get_embedding of transformers.models.m2m_100."""
    embedding = modeling("m2m_100").M2M100SinusoidalPositionalEmbedding
    return embedding.get_embedding(offset + length, dim)[offset:].clone()


@declared("sinusoidal", requires="offset > 0", conventions=TENSOR2TENSOR, limits=TWO_FREQUENCIES)
def m2m_100_positions(*, length: int, dim: int, offset: int = 0) -> Any:
    """M2M100SinusoidalPositionalEmbedding of transformers.models.m2m_100, behind a cache."""
    ids = tokens(length, offset)
    embedding = module("m2m_100", "M2M100SinusoidalPositionalEmbedding", dim, 0)
    return embedding(ids, None, offset - 1)[0]


@declared("sinusoidal", requires="offset > 0", conventions=TENSOR2TENSOR, limits=TWO_FREQUENCIES)
def speech_to_text_positions(*, length: int, dim: int, offset: int = 0) -> Any:
    """Speech2TextSinusoidalPositionalEmbedding of transformers.models.speech_to_text, behind a cache."""
    ids = tokens(length, offset)
    embedding = module("speech_to_text", "Speech2TextSinusoidalPositionalEmbedding", dim, 0)
    return embedding(ids, offset - 1)[0]


@declared("sinusoidal", requires="offset > 0", conventions=TENSOR2TENSOR, limits=TWO_FREQUENCIES)
def fsmt_positions(*, length: int, dim: int, offset: int = 0) -> Any:
    """SinusoidalPositionalEmbedding of transformers.models.fsmt, behind a cache."""
    embedding = fsmt(dim)
    renamed = "cache_length" in inspect.signature(embedding.forward).parameters  # from transformers 5.24 on
    cached = {"cache_length" if renamed else "past_key_values_length": offset - 1}
    return embedding(tokens(length, offset), **cached)[0]


@functools.cache
def fsmt(dim: int) -> Any:
    """The module of FSMT with its weight made, as the model's initialisation does."""
    embedding = module("fsmt", "SinusoidalPositionalEmbedding", dim, 0)
    embedding.make_weight(64, dim, 0)
    return embedding


@declared("sinusoidal", conventions={"columns": "cosines_first", "spacing": "to_base"}, limits=TWO_FREQUENCIES)
def musicgen_positions(*, length: int, dim: int, offset: int = 0) -> Any:
    """MusicgenSinusoidalPositionalEmbedding of transformers.models.musicgen, behind a cache."""
    import torch

    ids = torch.ones(1, 1, length, dtype=torch.int64)
    return module("musicgen", "MusicgenSinusoidalPositionalEmbedding", dim)(ids, offset)


@declared("sinusoidal", conventions=TENSOR2TENSOR, limits=TWO_FREQUENCIES)
def whisper_table(*, length: int, dim: int, base: float = 10000.0) -> Any:
    """The function sinusoids of transformers.models.whisper."""
    return modeling("whisper").sinusoids(length, dim, max_timescale=base)


@declared("sinusoidal", conventions={"columns": "sines_first", "spacing": "by_width"})
def marian_table(*, length: int, dim: int) -> Any:
    """MarianSinusoidalPositionalEmbedding.create_weight of transformers.models.marian."""
    return new_layer(modeling("marian").MarianSinusoidalPositionalEmbedding, length, dim).create_weight()


@declared("sinusoidal", conventions={"columns": "alternating", "spacing": "by_width"})
def distilbert_table(*, length: int, dim: int) -> Any:
    """The function create_sinusoidal_embeddings of transformers.models.distilbert."""
    import torch

    return modeling("distilbert").create_sinusoidal_embeddings(length, dim, torch.empty(length, dim))


@declared("sinusoidal", conventions={"columns": "alternating", "spacing": "by_width"})
def speecht5_table(*, length: int, dim: int) -> Any:
    """SpeechT5ScaledPositionalEncoding of transformers.models.speecht5, added to zeros."""
    import torch

    encoding = modeling("speecht5").SpeechT5ScaledPositionalEncoding(0.0, dim, max_len=max(length, 1))
    return encoding(torch.zeros(1, length, dim))[0]
