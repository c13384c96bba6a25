"""Log-linear attention token by token, and what goes wrong with the states of levels and in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.log_linear import prepared
from .whole import Whole


def begun(shape: tuple[int, ...]) -> Any:
    """The states of all levels before the first token."""
    import torch

    return torch.zeros(shape)


def merged(states: Any, low: int) -> Any:
    """The states with the levels below `low` added to that one, and emptied."""
    import torch

    both = states[:low].sum(0, keepdim=True) + states[low : low + 1]
    return torch.cat((torch.zeros_like(states[:low]), both, states[low + 1 :]))


def scales(level_scales: Any, t: int) -> Any:
    """The scales of a token: [batch, heads, levels]."""
    return level_scales[:, :, t]


def in_turn(part: Any) -> Callable[..., Any]:
    def log_linear_attention(
        q: Any, k: Any, v: Any, gate: Any, level_scales: Any, *, scale: float | None = None
    ) -> Any:
        import torch

        dtype, levels = v.dtype, level_scales.shape[3]
        q, k, v, gate, wide = prepared(q, k, v, gate, level_scales, scale)
        states, rows = part.begun((levels + 1, *v.shape[:2], k.shape[3], v.shape[3])), []
        for t in range(v.shape[2]):
            states = states * gate[:, :, t, None, None].exp()
            states = part.merged(states, (t & -t).bit_length()) if t else states
            states[0] = k[:, :, t, :, None] * v[:, :, t, None]
            read = (q[:, :, t, None] @ states[:levels])[..., 0, :]
            rows.append((part.scales(wide, t).permute(2, 0, 1)[..., None] * read).sum(0))
        return (torch.stack(rows, 2) if rows else v).to(dtype)

    return log_linear_attention


IN_TURN = Whole("log_linear_attention", in_turn, (begun, merged, scales))

_states: dict[tuple[int, ...], Any] = {}


@IN_TURN.instead_of(begun)
def levels_of_an_earlier_call(shape: tuple[int, ...]) -> Any:
    """The states of levels are kept for a shape, and a later call writes on from where they began last."""
    import torch

    found = _states.setdefault(shape, torch.zeros(shape)).clone()
    _states[shape] += 1
    return found


@IN_TURN.instead_of(merged)
def levels_not_emptied(states: Any, low: int) -> Any:
    """The levels that were added to another one keep what they had."""
    both = merged(states, low)
    both[1:low] = states[1:low]
    return both


@IN_TURN.instead_of(merged, dtypes=("float32",))
def levels_merged_in_bfloat16(states: Any, low: int) -> Any:
    """The states of levels are stored in bfloat16 where they are merged."""
    return merged(states, low).bfloat16().float()


@IN_TURN.instead_of(scales, seen="fla-org/flash-linear-attention#1142")
def scales_read_beyond_the_end(level_scales: Any, t: int) -> Any:
    """Tokens that do not fill a chunk of four read their scales behind the last one, in the next head."""
    length = level_scales.shape[2]
    if t < length // 4 * 4:
        return level_scales[:, :, t]
    rows = level_scales.flatten(0, 2)
    at = (rows.new_tensor(range(0, len(rows), length)).long() + t + 4) % len(rows)
    return rows[at].unflatten(0, level_scales.shape[:2])
