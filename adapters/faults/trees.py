"""Masks of trees made row by row, and what goes wrong with words of bits, memory and what outlives a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..controls.trees import checked
from .whole import Whole

_rows: dict[tuple[int, ...], Any] = {}


def started(batch: int, nodes: int) -> Any:
    """The rows of nodes, none of which is seen yet: [batch, nodes, nodes]."""
    import torch

    return torch.zeros(batch, nodes, nodes, dtype=torch.bool)


def parent_of(parents: Any, item: int, node: int) -> int:
    """The number of a node's parent."""
    return int(parents[item, node])


def bit(node: int) -> int:
    """Where a node is marked in a row."""
    return node


def by_rows(part: Any) -> Callable[..., Any]:
    def tree_mask(parents: Any, *, cached: int, window_left: int | None = None) -> Any:
        import torch

        checked(parents)
        batch, nodes = parents.shape
        rows, depth = part.started(batch, nodes), torch.zeros(batch, nodes, dtype=torch.long)
        for item in range(batch):
            for node in range(nodes):
                parent = part.parent_of(parents, item, node)
                if parent >= 0:
                    rows[item, node] |= rows[item, parent]
                    depth[item, node] = depth[item, parent] + 1
                rows[item, node, part.bit(node)] = True
        back = torch.cat([cached - torch.arange(cached).expand(batch, cached), -depth], 1)
        seen = torch.cat([torch.ones(batch, nodes, cached, dtype=torch.bool), rows], 2)
        reach = cached + nodes if window_left is None else window_left
        return seen & (depth[..., None] + back[:, None] <= reach)

    return tree_mask


BY_ROWS = Whole("tree_mask", by_rows, (started, parent_of, bit))


@BY_ROWS.instead_of(started, dtypes=("float32",))
def rows_of_the_call_before(batch: int, nodes: int) -> Any:
    """Rows are not cleared between calls of one shape."""
    return _rows.setdefault((batch, nodes), started(batch, nodes))


@BY_ROWS.instead_of(parent_of, dtypes=("float32",))
def parents_made_absolute_in_place(parents: Any, item: int, node: int) -> int:
    """A missing parent is replaced by the node itself, in the memory of the caller."""
    found = parent_of(parents, item, node)
    if found < 0:
        parents[item, node] = node
    return found if found != node else -1


@BY_ROWS.instead_of(bit, dtypes=("float32",))
def a_word_of_16_bits(node: int) -> int:
    """A row is a word of 16 bits, into which later nodes fall again from its first bit on."""
    return node % 16
