"""Calls of outputs, operators and draws, and what an expression knows of them."""

import numpy as np

from attnspec.language.expressions import Expression
from attnspec.language.scopes import CallSite, Scope

from .test_compiler import SCOPE, World


def test_an_output_is_called_with_what_is_replaced() -> None:
    world = World()
    result = Expression("out(k = 2 * x, scale = none) - out", SCOPE)(world)
    (first, replaced), (second, nothing) = world.called
    assert ("out", {"k", "scale"}, "out", None) == (first, set(replaced), second, nothing)
    assert ([2, 4, 6], None, [0, 0]) == (replaced["k"].tolist(), replaced["scale"], result.tolist())


def test_a_call_site_tells_its_text_and_what_its_replacements_read() -> None:
    sites: list[CallSite | None] = []
    world = World()
    world.output = lambda name, site: sites.append(site) or np.zeros(2)  # type: ignore[method-assign]
    Expression("n + out(k = x, q = near)", SCOPE)(world)
    assert [("out(k = x, q = near)", {"x", "near"})] == [(s.text, s.uses) for s in sites if s]


def test_a_call_within_a_call_is_evaluated_within() -> None:
    world = World()
    Expression("out(k = lse(q = x))", SCOPE)(world)
    assert ["lse", "out"] == [name for name, _ in world.called]


def test_an_operator_takes_inputs_by_position_and_anything_by_name() -> None:
    world = World()
    assert [0.5] == Expression("softmax(n, base = 2)", SCOPE)(world).tolist()
    assert [("softmax", {"x": 3, "base": 2})] == world.called


def test_draws_are_numbered_and_know_how_many_choices_they_have() -> None:
    text = "between(1, 4) + choice(1, 2, 3) + maybe(1, 0) + between(1, n) + sum(normal(2))"
    draws = Expression(text, Scope(frozenset({"n"}), draws=True)).draws
    expected = [("between", 4), ("choice", 3), ("maybe", 2), ("between", None), ("normal", None)]
    assert expected == [(site.name, site.count) for site in draws]
    assert list(range(5)) == [site.ordinal for site in draws]
