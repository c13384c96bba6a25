"""Further arguments of a block: rotary tables, a mask, a position."""

from __future__ import annotations

from collections.abc import Sequence

ANGLES = '''def angles(x, heads, base):
    """The angle of each position and pair of channels [length, head_dim / 2]."""
    head_dim = x.shape[-1] // heads
    pairs = torch.arange(0, head_dim, 2, device=x.device) / head_dim
    return torch.outer(torch.arange(x.shape[1], device=x.device), base**-pairs)
'''
CAUSAL_MASK = '''def causal_mask(x):
    """What hides later tokens, as it is added to the scores [length, length]."""
    return torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
'''
TURNS = '''def turns(x, heads, base):
    """The rotation of each position and pair of channels as complex numbers [length, head_dim / 2]."""
    return torch.polar(torch.ones_like(angles(x, heads, base)), angles(x, heads, base))
'''
TWICE = '''def twice(x, heads, base):
    """The angle of each position and channel, those of the second half once more [length, head_dim]."""
    return torch.cat([angles(x, heads, base)] * 2, -1)
'''
ADDED_MASK = '''def added_mask(x, mask):
    """A mask that is true where a key is seen, as it is added to the scores."""
    return torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, float("-inf"))
'''
HELPERS = {"angles": ANGLES, "turns": TURNS, "twice": TWICE, "causal_mask": CAUSAL_MASK, "added_mask": ADDED_MASK}
"""The functions that a call may use, by their names."""
NEEDS = {"turns": ("angles",), "twice": ("angles",)}
POSITIONS = "torch.arange(x.shape[1], device=x.device)[None]"
COSINE, SINE = (f"twice(x, heads, base).{name}().to(x.dtype)" for name in ("cos", "sin"))
CAUSAL = "causal_mask(x)"
WANTED = {
    **dict.fromkeys(("freqs_cis", "freqs_complex", "freqs", "rope_freqs"), "turns(x, heads, base)"),
    **dict.fromkeys(("cos", "rope_cos", "cosine"), COSINE),
    **dict.fromkeys(("sin", "rope_sin", "sine"), SINE),
    "position_embeddings": f"({COSINE}[None], {SINE}[None])",
    **dict.fromkeys(("mask", "attn_mask"), CAUSAL),
    "attention_mask": f"{CAUSAL}[None, None]",
    **dict.fromkeys(
        ("position_ids", "positions", "pos", "input_pos"), "torch.arange(x.shape[1], device=x.device)[None]"
    ),
    **dict.fromkeys(("start_pos", "offset", "position"), "0"),
}
"""What is handed over for a parameter of the call."""


def call_of(takes: Sequence[tuple[str, bool]], masked: bool = False) -> str:
    """The call of a block that wants known tables, as a function of the module; empty where it wants the unknown.

    Where it is to be `masked`, a causal mask is passed that need not be; empty where no mask is taken.
    """
    (first, _), *others = [*takes, ("", False)][: len(takes)]
    given = [name for name, required in others if required or (masked and WANTED.get(name, "").startswith(CAUSAL))]
    passed = [f"{name}={WANTED[name]}" for name in given if name in WANTED]
    if len(passed) < len(given) or (masked and len(given) == sum(required for _, required in others)):
        return ""
    options = ", *, heads, base" if any("heads" in one for one in passed) else ""
    return f"lambda module, x{options}: module({', '.join(['x', *passed])})" if first else ""


def helpers(text: str) -> list[str]:
    """The functions that a declaration uses."""
    used = [name for name in HELPERS if f"{name}(x" in text]
    needed = [name for name in HELPERS if name in used or any(name in NEEDS.get(one, ()) for one in used)]
    return [HELPERS[name] for name in needed]
