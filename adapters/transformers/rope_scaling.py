"""The frequencies of rotary positions as models of Hugging Face transformers compute them from their configuration.

Source: transformers/modeling_rope_utils.py, the functions of ROPE_INIT_FUNCTIONS by their names; the unscaled ones are
those of GPTNeoXRotaryEmbedding.
A configuration has the trained length as original_max_position_embeddings, and dynamic scaling takes
max_position_embeddings for it.
"""

from __future__ import annotations

from typing import Any

from .. import adapter


@adapter("rotary_frequencies", package="transformers", extra="transformers")
def transformers_rope(
    short_factor: Any = 1.0,
    long_factor: Any = 1.0,
    *,
    dim: int,
    kind: str = "default",
    rotary_dim: int | None = None,
    base: float = 10000.0,
    factor: float = 4.0,
    trained: int = 2048,
    length: int = 1,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    attention_factor: float | None = None,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> Any:
    """ROPE_INIT_FUNCTIONS of transformers, and GPTNeoXRotaryEmbedding."""
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding

    width = dim if rotary_dim is None else rotary_dim
    own: dict[str, Any] = {"rope_type": kind, "rope_theta": base}
    # a quarter of a channel more, for the share is rounded down
    own["partial_rotary_factor"] = 1.0 if width == dim else (width + 0.25) / dim
    if kind != "default":
        own |= {"factor": factor, "original_max_position_embeddings": trained}
    if kind == "yarn":
        own |= {"beta_fast": beta_fast, "beta_slow": beta_slow, "truncate": truncate}
        own |= {"mscale": mscale, "mscale_all_dim": mscale_all_dim, "attention_factor": attention_factor}
    elif kind == "longrope":
        own |= {
            name: torch.broadcast_to(torch.as_tensor(x), (width // 2,)).tolist()
            for name, x in (("short_factor", short_factor), ("long_factor", long_factor))
        }
        own |= {"attention_factor": attention_factor}
    elif kind == "llama3":
        own |= {"low_freq_factor": low_freq_factor, "high_freq_factor": high_freq_factor}
    config: Any = LlamaConfig(
        hidden_size=dim,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=dim,
        max_position_embeddings=trained,
        rope_parameters={name: x for name, x in own.items() if x is not None},
    )
    if kind == "default":
        found = GPTNeoXRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        found = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)
    return {"frequencies": found[0], "scaling": found[1]}
