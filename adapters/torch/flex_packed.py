"""FlexAttention of PyTorch over packed items, with padding behind them and linear biases, and its gradients.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
and https://pytorch.org/blog/flexattention/, sections "Document Masking/Jagged Sequences" and "Alibi Bias".
The pack is one item, whose `mask_mod` looks up the items of a query and a key by their positions in the pack; the
causal mask, the window and the distance of a linear bias are those of the positions within items, aligned at their last
tokens. Padding belongs to no item, and the weights of its queries are zeros: their output is zero, or NaN with a NaN.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from .. import Unsupported, adapter
from .flex_attention import CONVENTIONS, DTYPES, Modifier
from .gradients import differentiated

WORDS = {**CONVENTIONS, "padded_queries": "left_open"}
GRADE = {"bfloat16": "bf16_naive", "float16": "fp16_naive"}


class Places(NamedTuple):
    """Where the tokens of a pack belong: [tokens] each."""

    item: Any
    """The number of the item."""
    place: Any
    """The position within the item."""
    used: Any
    """Whether it is a token, and not padding."""

    @classmethod
    def of(cls, lens: Any, slots: Any, tokens: int) -> Places:
        """Items of `lens` tokens each in slots of their own, or one right behind the other."""
        import torch

        room = lens if slots is None else slots
        if int(room.sum()) != tokens or bool((lens < 0).any()) or bool((lens > room).any()):
            raise ValueError("items fit into their slots, which make up the pack")
        item = torch.repeat_interleave(torch.arange(len(lens), device=lens.device), room)
        place = torch.arange(tokens, device=lens.device) - (room.cumsum(0) - room)[item]
        return cls(item, place, place < lens[item])


def attended(
    q: Any,
    k: Any,
    v: Any,
    queries: Places,
    keys: Places,
    ahead: Any,
    slopes: Any,
    causal: bool,
    scale: float | None,
    window: tuple[int | None, int | None],
    softcap: float | None,
) -> Any:
    """One call for the whole pack, with the logsumexps."""
    import torch
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

    left, right = window
    if not len(q) or not len(k):
        raise Unsupported("a pack has tokens")
    row = queries.place + ahead[queries.item]

    def seen(b: Any, h: Any, i: Any, j: Any) -> Any:
        distance = row[i] - keys.place[j]
        found = (queries.item[i] == keys.item[j]) & queries.used[i] & keys.used[j]
        found = found & (distance >= 0) if causal else found
        found = found if left is None else found & (distance <= left)
        return found if right is None else found & (distance >= -right)

    def scored(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        capped = score if softcap is None else softcap * torch.tanh(score / softcap)
        return capped if slopes is None else capped - slopes[h] * (row[i] - keys.place[j]).abs()

    score: Modifier | None = None if slopes is None and softcap is None else scored
    blocks = create_block_mask(seen, 1, None, len(q), len(k), device=str(q.device))
    attend: Any = flex_attention
    states = (x.transpose(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out, aux = attend(*states, score, blocks, scale, grouped, return_aux=AuxRequest(lse=True))
    return {"out": out[0].transpose(0, 1), "lse": aux.lse[0]}


def _placed(q: Any, k: Any, q_lens: Any, k_lens: Any, q_slots: Any, k_slots: Any) -> tuple[Places, Places, Any]:
    """The places of queries and keys, and how far the first query of each item is behind its first key."""
    return Places.of(q_lens, q_slots, len(q)), Places.of(k_lens, k_slots, len(k)), k_lens - q_lens


@adapter("packed_attention", dtypes=DTYPES, conventions=WORDS, grade=GRADE, compiled=True, slow=True, package="torch")
def torch_flex_packed(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    *,
    q_slots: Any = None,
    k_slots: Any = None,
    slopes: Any = None,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """torch.nn.attention.flex_attention with the items of a pack in its mask_mod, not compiled."""
    places = _placed(q, k, q_lens, k_lens, q_slots, k_slots)
    return attended(q, k, v, *places, slopes, causal, scale, (window_left, window_right), softcap)


@adapter(
    "packed_attention_gradient",
    dtypes=DTYPES,
    conventions={**CONVENTIONS, "padded_gradients": "left_open"},
    grade=GRADE,
    compiled=True,
    slow=True,
    package="torch",
)
def torch_flex_packed_gradient(
    q: Any,
    k: Any,
    v: Any,
    q_lens: Any,
    k_lens: Any,
    d_out: Any,
    *,
    q_slots: Any = None,
    k_slots: Any = None,
    causal: bool = False,
    scale: float | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    softcap: float | None = None,
) -> Any:
    """Gradients of the same call."""
    queries, keys, ahead = _placed(q, k, q_lens, k_lens, q_slots, k_slots)
    window = (window_left, window_right)
    attend = partial(
        attended,
        queries=queries,
        keys=keys,
        ahead=ahead,
        slopes=None,
        causal=causal,
        scale=scale,
        window=window,
        softcap=softcap,
    )
    return differentiated(attend, d_out, q=q, k=k, v=v)
