"""What fits on all of some calls: mistakes of other definitions, edits, one for each output, or at some positions."""

from types import SimpleNamespace

import pytest
import torch

from attnspec.diagnosis import fitting
from attnspec.diagnosis.likeness import Likeness
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject

from .test_naming import adapted, found_of, likeness_of


def lse_of_two_states(outs, lses):
    out = (torch.softmax(lses, 0).nan_to_num()[..., None] * outs).sum(0)
    return {"out": out, "lse": lses[:2].logsumexp(0)}


def test_a_mistake_in_one_output_alone_is_named_with_it():
    likeness = likeness_of(
        adapted(lse_of_two_states, "merge_states", conventions={"lse_base": "natural"}), "merge_states"
    )
    assert "merge_states.two_alone in lse" == likeness.name


def test_a_fault_in_each_of_two_outputs_is_shown_as_a_changed_line_for_each():
    m = library()["rotary_pair"]
    scope = m.definition["q_out"].scope
    each = {"q_right": Expression("k_right", scope), "k_left": Expression("q_left", scope)}
    likeness = found_of(DefinitionSubject(m, "planted", each), "rotary_pair")
    assert {"q_out", "k_out"} == {one.line.rpartition(" in ")[2] for one in likeness.changed}
    assert all(cause.name.endswith((" in q_out", " in k_out")) for cause in likeness.causes)


def test_an_edit_that_agrees_exactly_comes_before_a_mistake_that_agrees_roughly():
    m = library()["transformer_block"]
    angle = m.definition["angle"]
    squared = Expression(angle.text.replace("log(base)", "log(base) * log(base)"), angle.scope)
    likeness = found_of(DefinitionSubject(m, "planted", {"angle": squared}), "transformer_block")
    assert [one.line for one in likeness.changed] == ["angle"]


@pytest.mark.parametrize(("agreed", "named"), [(1, False), (2, True)])
def test_a_mistake_of_another_definition_is_named_by_more_than_one_case(monkeypatch, agreed, named):
    monkeypatch.setattr(fitting, "resembling", lambda *_, **__: ["of another definition"])
    monkeypatch.setattr(fitting, "varied", lambda _: [])
    monkeypatch.setattr(fitting, "Search", lambda *_, **__: SimpleNamespace(likeness=lambda: Likeness((), agreed)))
    search = SimpleNamespace(asking=SimpleNamespace(wrong=[], grade=None, seed=0), within=None, until=0.0)
    found = fitting._from_elsewhere(SimpleNamespace(mechanism=None), [], search, ())
    assert named is (found is not None)


def always_causal(q, k, v):
    """Attention that is causal without being asked for it, its first query seeing the first key alone."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ v


def causal_in_long_calls(q, k, v):
    return always_causal(q, k, v) if k.shape[2] > 9 else always_causal(q, k[:, :, :1], v[:, :, :1])


def test_a_mistake_is_named_by_another_word_of_a_convention_that_no_call_tells_without_it():
    found = likeness_of(adapted(always_causal, conventions={"grouping": "block"}), "attention")
    assert "attention.always_causal and causal_alignment = top_left" == found.name
    other = likeness_of(adapted(causal_in_long_calls, conventions={"grouping": "block"}), "attention")
    assert other is None or "always_causal" not in other.name or " where " in other.name


def test_edits_that_are_shown_alike_are_told_once():
    def attention(q, k, v, *, softcap=None):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        return torch.softmax(scores if softcap is None else softcap * torch.sigmoid(scores / softcap), -1) @ v

    found = likeness_of(adapted(attention, conventions={"grouping": "block"}), "attention")
    assert "capped: softcap * tanh(scaled / softcap) -> softcap * sigmoid(scaled / softcap)" == found.name
    assert found.name not in found.others
