"""Conditions that merely save work."""

from __future__ import annotations

import ast

import pytest

from attnspec.language.shortcuts import is_shortcut

LINES = {"odd": "not finite(x)", "hit": "odd and any(seen, -2)", "lost": "any(hit, -1) if any(odd) else false"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where(any(hit, -1)[..., none], 0, x) if any(odd) else x", True),
        ("permute(where(lost, 0, x), 1, 0) if any(odd) else permute(x, 1, 0)", True),
        ("any(hit, -1) if any(odd) else false", True),
        ("where(any(seen, -1), 0, x) if any(odd) else x", False),
        ("2 * x if any(odd) else x", False),
        ("where(odd, 0, x) if any(seen) else x", False),
        ("where(hit, 0, x) if all(odd) else x", False),
    ],
)
def test_both_branches_are_the_same_where_nothing_is(text, expected):
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.IfExp)
    assert expected == is_shortcut(node, LINES)
