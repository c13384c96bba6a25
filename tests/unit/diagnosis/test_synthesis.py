"""A mistake that nobody has named is told as the line of the definition that it changes."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis.answered import observed
from attnspec.diagnosis.candidates import stock
from attnspec.diagnosis.likeness import Likeness
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.search import Search
from attnspec.diagnosis.synthesis import close_by, edited, shown_as
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject

pytestmark = pytest.mark.usefixtures("steady")

SCENARIOS = Profile("scenarios", covering=8, draws=0, admitted=1)
WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros"}


def attention(*, factor=None, cap=None, add=None, norm=None):
    """An attention that is right but for the steps that are given, in NumPy and in float64 inside."""

    def kernel(q, k, v, *, bias=None, scale=None, causal=False, softcap=None):
        heads, (n, m), d = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2]), q.shape[3]
        k, v = (np.repeat(x.astype(float), heads, 1) for x in (k, v))
        usual = factor(d, m) if factor else d**-0.5
        s = q.astype(float) @ k.swapaxes(-1, -2) * (usual if scale is None else scale)
        if softcap is not None:
            s = (cap or (lambda s, c: c * np.tanh(s / c)))(s, softcap)
        if bias is not None:
            s = (add or np.add)(s, bias)
        s = np.where(np.tril(np.ones((n, m), bool), m - n) | (not causal), s, -np.inf)
        top = s.max(-1, keepdims=True)
        e = np.exp(s - np.where(np.isfinite(top), top, 0))
        total = (norm or (lambda e: e.sum(-1, keepdims=True)))(e)
        return (np.divide(e, total, out=np.zeros_like(e), where=total > 0) @ v).astype(q.dtype)

    return subject(Adapter("kernel", "attention", kernel, "numpy", conventions=WORDS))


def named(one, operator="attention", **more):
    result = run(Request(one, library()[operator], "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    return diagnose(result.bench, failure, 0, **more)


UNNAMED = {
    "the length of keys in place of the head size": (
        attention(factor=lambda d, m: m**-0.5),
        ("factor", "head_dim ** -0.5 if scale == none else scale", "k_len ** -0.5 if scale == none else scale"),
    ),
    "a cap that is not multiplied back": (
        attention(cap=lambda s, c: np.tanh(s / c)),
        ("capped", "softcap * tanh(scaled / softcap)", "tanh(scaled / softcap)"),
    ),
    "weights that sum to one over queries": (
        attention(norm=lambda e: e.sum(-2, keepdims=True)),
        ("attended", "average(terms, values)", "terms / sum(terms, -2, keep = true) @ values"),
    ),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_the_changed_line_is_found(name):
    one, (line, before, after) = UNNAMED[name]
    found = named(one)
    assert isinstance(found, Likeness)
    (changed,) = found.changed
    assert (changed.line, changed.before, changed.after) == (line, before, after)
    assert found.agreed >= 4


def normalised(x, weight, *, eps=1e-5):
    """It takes the memory of its input for that of a contiguous array."""
    y = (x if x.flags.c_contiguous or x.base is None else np.resize(x.base.ravel(), x.shape)).astype(float)
    return (y / np.sqrt((y * y).mean(-1, keepdims=True) + eps) * weight).astype(x.dtype)


def masked(q, k, v, *, mask=None):
    """It reads the first 64 columns of a mask."""
    s = q.astype(float) @ np.repeat(k, q.shape[1] // k.shape[1], 1).swapaxes(-1, -2) * q.shape[3] ** -0.5
    if mask is not None:
        seen = np.broadcast_to(mask, s.shape).copy()
        seen[..., 64:] = True
        s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    p = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return (p @ np.repeat(v, q.shape[1] // v.shape[1], 1)).astype(q.dtype)


def turned(q, k, positions):
    """It turns each item by the positions of the next one."""
    pairs = q.shape[-1] // 2
    angle = np.roll(positions, -1, 0)[:, None, :, None] * 10000.0 ** (-np.arange(pairs) / pairs)
    cos, sin = np.cos(angle), np.sin(angle)

    def one(x):
        a, b = x[..., :pairs], x[..., pairs:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)

    return {"q_out": one(q), "k_out": one(k)}


@pytest.mark.parametrize(
    ("operator", "kernel", "words", "name"),
    [
        ("rotary_pair", turned, {}, "positions: positions -> positions at the next of batch"),
        ("rms_norm", normalised, {}, "x read as if contiguous"),
        ("attention", masked, WORDS, "mask: mask -> mask up to 64 of k_len"),
    ],
)
def test_an_input_that_is_read_otherwise_is_told(operator, kernel, words, name):
    one = subject(Adapter("kernel", operator, kernel, "numpy", conventions=words))
    found = named(one, operator)
    assert isinstance(found, Likeness)
    assert name == found.name


def test_a_known_mistake_keeps_its_name():
    found = named(attention(factor=lambda d, m: 1.0))
    assert (found.name, found.changed) == ("attention.no_scale", ())


def test_what_no_single_line_explains_has_no_name():
    found = named(attention(add=lambda s, b: s + np.sin(3.0 * b), cap=lambda s, c: c * np.cos(s / c)))
    assert not isinstance(found, Likeness)


def test_a_reader_may_have_a_line_as_it_is_without_a_step_far_back():
    m = library()["cross_entropy"]
    one = subject(Adapter("kernel", "cross_entropy", lambda logits, targets, *, softcap=None, z_loss=0.0: 0, "numpy"))
    names = {candidate.told().name for candidate in edited(Bench(one, m, "float32", "cpu", m.words))}
    assert "penalty: total -> max(logits) + log(sum(exp(shift(logits))))" in names


def test_of_what_is_known_that_comes_first_which_is_near_on_one_of_the_smallest_cases():
    one = attention(factor=lambda d, m: 1.0)
    result = run(Request(one, library()["attention"], "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad)
    wrong = [o for o in observed(result.bench, failure, 0) if not o.right]
    known = [*stock(result.bench)]
    found = close_by(known, wrong)
    assert [c for c in known if c.words] == [c for c in found if c.words]
    names = {c.name for c in found}
    assert "attention.no_scale" in names
    assert "attention.bias_scaled" not in names
    assert 2 * len(found) < len(known)


def test_an_edit_that_is_made_everywhere_is_told_before_conditions_are_looked_for(monkeypatch):
    tried = []
    monkeypatch.setattr(Search, "conditional", lambda self: tried.append(self) or iter(()))
    one, (line, _, after) = UNNAMED["the length of keys in place of the head size"]
    (changed,) = named(one).changed
    assert (line, after) == (changed.line, changed.after)
    assert not [search for search in tried if any(c.changed for c in search.candidates)]


def test_edits_are_found_by_the_names_that_they_are_shown_with():
    one = attention(norm=lambda e: e.max(-1, keepdims=True))
    result = run(Request(one, library()["attention"], "float32", SCENARIOS, laws=frozenset({"definition"})))
    names = {"q read as if contiguous", "scores: q @ k.mT -> q @ k"}
    names.add(next(c.told().name for c in edited(result.bench) if c.shown is not None))
    assert names - {"scores: q @ k.mT -> q @ k"} == {c.name for c in shown_as(result.bench, names)}


def test_what_is_wrong_on_large_cases_alone_is_tried_with_the_edits_that_end_at_a_limit():
    m = library()["neighborhood_attention_gradient"]
    scope = m.definition["d_q"].scope
    text = f"where(range(height)[:, none, none, none] < 64, {m.definition['d_q'].text}, 0)"
    assert (
        "d_q: d_q -> d_q up to 64 of height"
        == named(DefinitionSubject(m, "ends", {"d_q": Expression(text, scope)}), m.name).name
    )
