"""Greedy generation by Llama of Hugging Face transformers, with its cache and without.

Documentation: https://huggingface.co/docs/transformers/main_classes/text_generation
Prompts of several lengths are padded on the left, with a mask that says so; the library feeds a prompt in chunks of one
size.
"""

from __future__ import annotations

from typing import Any

from .. import Unsupported, adapter
from .decoder import CONVENTIONS, DTYPES, language_model


@adapter("generate", dtypes=DTYPES, conventions=CONVENTIONS, package="transformers", extra="transformers")
def llama_generate(
    prompts: Any,
    lengths: Any,
    embedding: Any,
    *weights: Any,
    heads: int,
    kv_heads: int | None = None,
    eps: float = 1e-6,
    base: float = 10000.0,
    new_tokens: int,
    chunks: tuple[int, ...] | None = None,
    pad: int,
    end: int | None = None,
) -> Any:
    """LlamaForCausalLM.generate; with chunks, by its cache."""
    import torch

    if new_tokens == 0:
        raise Unsupported("generates one token at least")
    if chunks is not None and any(n != chunks[0] for n in chunks[:-1]):
        raise Unsupported("all chunks but the last are of one size")
    prompt_of = [row[:n] for row, n in zip(prompts.long(), lengths.tolist(), strict=True) if 0 < n <= len(row)]
    if len(prompt_of) < len(prompts):
        raise ValueError("a prompt is as long as its row at most")
    model = language_model("sdpa", embedding, weights, heads, kv_heads, eps, base)
    model.generation_config.eos_token_id = end
    longest = max(map(len, prompt_of))
    padding = [longest - len(prompt) for prompt in prompt_of]
    whole = model.generate(
        torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0), value=pad) for row in prompt_of]),
        attention_mask=(torch.arange(longest) >= torch.tensor(padding)[:, None]).long(),
        max_new_tokens=new_tokens,
        do_sample=False,
        num_beams=1,
        use_cache=chunks is not None,
        pad_token_id=pad,
        prefill_chunk_size=chunks[0] if chunks is not None and len(chunks) > 1 else None,
    )
    tokens = torch.full((len(prompts), prompts.shape[1] + new_tokens), pad)
    for row, generated, n in zip(tokens, whole, padding, strict=True):
        row[: len(generated) - n] = generated[n:]
    return tokens
