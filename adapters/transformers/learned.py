"""The learned positions of models of Hugging Face transformers.

Source: transformers/models/{gpt2,opt,bart,whisper}/modeling_*.py.
OPT and BART keep two rows at the beginning of their tables for other uses; these hold NaN here, so that nobody reads
them unnoticed.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import adapter
from ..torch.layers import new_layer

DTYPES = ("float32", "bfloat16", "float16", "float64")
declared = functools.partial(adapter, dtypes=DTYPES, package="transformers", extra="transformers")


@functools.cache
def embedding(model: str, name: str, rows: int, dim: int) -> Any:
    """The module of a model's learned positions, without weights to speak of."""
    import importlib

    return new_layer(getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name), rows, dim)


def behind(unused: int, table: Any) -> Any:
    """A table with as many rows of NaN before it."""
    import torch

    return torch.cat((torch.full((unused, table.shape[1]), torch.nan, dtype=table.dtype, device=table.device), table))


def filled(module: Any, table: Any) -> Any:
    """The module with a table for its weight."""
    import torch

    module.weight = torch.nn.Parameter(table, requires_grad=False)
    return module


@functools.cache
def gpt2(rows: int, dim: int) -> Any:
    """GPT-2 without layers, and without the norm behind them."""
    import torch
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=1, n_positions=rows, n_embd=dim, n_layer=0, n_head=1, bos_token_id=None, eos_token_id=None
    )
    model = new_layer(GPT2Model, config).eval()
    model.ln_f = torch.nn.Identity()
    return model


@declared("learned_position")
def gpt2_positions(x: Any, table: Any, *, offset: int = 0) -> Any:
    """The embeddings of GPT2Model, from transformers.models.gpt2."""
    import torch

    model = gpt2(*table.shape)
    filled(model.wpe, table)
    positions = torch.arange(offset, offset + x.shape[1], device=x.device)[None]
    return model(inputs_embeds=x, position_ids=positions, use_cache=False).last_hidden_state


@declared("learned_position")
def opt_positions(x: Any, table: Any, *, offset: int = 0) -> Any:
    """OPTLearnedPositionalEmbedding of transformers.models.opt, by an attention mask of ones."""
    import torch

    module = filled(embedding("opt", "OPTLearnedPositionalEmbedding", *table.shape), behind(2, table))
    mask = torch.ones(x.shape[0], offset + x.shape[1], dtype=torch.int64, device=x.device)
    return x + module(mask, offset)


@declared("learned_position")
def bart_positions(x: Any, table: Any, *, offset: int = 0) -> Any:
    """BartLearnedPositionalEmbedding of transformers.models.bart."""
    module = filled(embedding("bart", "BartLearnedPositionalEmbedding", *table.shape), behind(2, table))
    return x + module(x[..., 0], offset)


@declared("learned_position")
def whisper_positions(x: Any, table: Any, *, offset: int = 0) -> Any:
    """WhisperPositionalEmbedding of transformers.models.whisper."""
    module = filled(embedding("whisper", "WhisperPositionalEmbedding", *table.shape), table)
    return x + module(x[..., 0], offset)
