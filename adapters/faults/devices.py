"""What was reported of kernels of devices and of other languages, as far as it is not a changed line, done again here.

`SHOWN` names the case of the profile `serving` that shows those which no small case has.
"""

from __future__ import annotations

from typing import Any

from .attention import COMPOSED, reached
from .cache import SLOTTED, written
from .paged import STRETCHED, numbers, read
from .positions import ROTARY, turned

FLOAT32 = ("float32",)
SHOWN = {
    "partial_blocks_taken_for_whole": "prefill_causal",
    "half_of_the_channels_at_one_tiling": "pair_1",
    "pages_at_a_few_lengths": "split_keys",
}


@ROTARY.instead_of(turned, seen="ml-explore/mlx#3494")
def later_items_of_one_token_are_zeros(first: Any, second: Any, angle: Any) -> tuple[Any, Any]:
    """Where items have one token, those after the first are zeros."""
    a, b = turned(first, second, angle)
    if a.shape[2] == 1 and len(a) > 1:
        a, b = a.clone(), b.clone()
        a[1:], b[1:] = 0, 0
    return a, b


@COMPOSED.instead_of(reached, dtypes=("bfloat16", "float16"), seen="pytorch/pytorch#195910")
def diagonal_of_wider_tiles(q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None) -> Any:
    """In half precision, whose tiles have eight rows, all rows of a tile see what its last row sees."""
    own = reached(q, k, causal, window_left, window_right)
    if not causal or window_left is not None or window_right is not None:
        return own
    own = own.clone()
    for start in range(0, len(own), 8):
        own[start : start + 8] = own[start : start + 8].any(0)
    return own


@COMPOSED.instead_of(reached, dtypes=FLOAT32, seen="pytorch/pytorch#165838")
def partial_blocks_taken_for_whole(
    q: Any, k: Any, causal: bool, window_left: int | None, window_right: int | None
) -> Any:
    """From 1024 keys on, the last block of 128 by 128 that a mask crosses is seen as a whole."""
    own = reached(q, k, causal, window_left, window_right)
    if own.shape[1] < 1024 or len(own) < 128:
        return own
    own = own.clone()
    start = own.shape[1] // 128 * 128 - 128
    block = own[max(len(own) - own.shape[1] + start, 0) :, start : start + 128]
    block[:128] = block[:128].any() | block[:128]
    return own


@SLOTTED.instead_of(written, seen="microsoft/onnxruntime#32716")
def past_copied_onto_itself(cache: Any, place: Any, x: Any) -> Any:
    """What a growing cache held is copied to where it goes in the same memory, from the front."""
    if int(place[0]) > 1:
        cache[:, :, 1 : int(place[0])] = cache[:, :, : int(place[0]) - 1].clone()
    return written(cache, place, x)


@STRETCHED.instead_of(read, dtypes=FLOAT32, seen="intel/intel-xpu-backend-for-triton#5581, tenstorrent/tt-metal#37927")
def half_of_the_channels_at_one_tiling(pool: Any, numbers: Any, count: int) -> Any:
    """With pages of 16 tokens and 64 channels, the second half of the channels is that of the next token."""
    import torch

    found = read(pool, numbers, count)
    if pool.shape[1] == 16 and pool.shape[-1] == 64:
        found = torch.cat([found[..., :32], found.roll(-1, 0)[..., 32:]], -1)
    return found


@STRETCHED.instead_of(numbers, dtypes=FLOAT32, seen="tenstorrent/tt-metal#30362")
def pages_at_a_few_lengths(table: Any, item: int) -> Any:
    """Of an item of 129 pages, the last one is read where the one before it lies."""
    own = numbers(table, item)
    if len(own) == 129:
        own = own.clone()
        own[128] = own[127]
    return own
