"""FlexAttention of PyTorch over packed items, with padding behind them and linear biases, and its gradients.

Documentation: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
and https://pytorch.org/blog/flexattention/, sections "Document Masking/Jagged Sequences" and "Alibi Bias".
Gradients are those of the operator beneath, as in `flex_blocks_gradient`.
The pack is one item, whose `mask_mod` looks up the items of a query and a key by their positions in the pack; the
causal mask, the window and the distance of a linear bias are those of the positions within items, aligned at their last
tokens. Padding belongs to no item, and the weights of its queries are zeros: their output is zero, or NaN with a NaN.
"""

from __future__ import annotations

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


def modifiers(
    q: Any,
    k: Any,
    places: tuple[Places, Places, Any],
    slopes: Any,
    causal: bool,
    window: tuple[int | None, int | None],
    softcap: float | None,
) -> tuple[Modifier | None, Any]:
    """The `score_mod`, or none, and the blocks of the `mask_mod`."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    left, right = window
    if not len(q) or not len(k):
        raise Unsupported("a pack has tokens")
    queries, keys, ahead = places
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

    blocks = create_block_mask(seen, 1, None, len(q), len(k), device=str(q.device))
    return None if slopes is None and softcap is None else scored, blocks


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
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    places, window = _placed(q, k, q_lens, k_lens, q_slots, k_slots), (window_left, window_right)
    score, blocks = modifiers(q, k, places, slopes, causal, window, softcap)
    attend: Any = flex_attention
    states = (x.transpose(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out, aux = attend(*states, score, blocks, scale, grouped, return_aux=AuxRequest(lse=True))
    return {"out": out[0].transpose(0, 1), "lse": aux.lse[0]}


@adapter(
    "packed_attention_gradient",
    requires="all(finite(q)) and all(finite(k)) and all(finite(v)) and all(finite(d_out))",  # zero weights keep NaN
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
    """Gradients of torch.ops.higher_order.flex_attention with the same modifiers, not compiled."""
    from torch._higher_order_ops.flex_attention import flex_attention

    operator: Any = flex_attention
    places, window = _placed(q, k, q_lens, k_lens, q_slots, k_slots), (window_left, window_right)
    score, blocks = modifiers(q, k, places, None, causal, window, softcap)
    score = score or (lambda score, b, h, i, j: score)
    factor = q.shape[2] ** -0.5 if scale is None else scale

    def attend(q: Any, k: Any, v: Any) -> Any:
        states = (x.transpose(0, 1)[None] for x in (q, k, v))
        return operator(*states, score, blocks.as_tuple(), factor, {})[0][0].transpose(0, 1)

    return differentiated(attend, d_out, q=q, k=k, v=v)
