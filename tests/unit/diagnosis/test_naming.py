"""A failure is named after the known mistakes that the subject behaves like on every case, or not at all."""

import functools
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.profiles import Profile
from attnspec.diagnosis import fitting, naming
from attnspec.diagnosis.asking import Asking
from attnspec.diagnosis.candidates import Candidate, Changed, anywhere
from attnspec.diagnosis.likeness import Cause, Likeness, Nearest
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.registered import fault
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake, subject

_SPEC = importlib.util.spec_from_file_location(
    "benchmark_of_diagnosis", Path(__file__).parents[3] / "benchmarks" / "diagnosis.py"
)

pytestmark = pytest.mark.usefixtures("steady")
_BENCHMARK = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_BENCHMARK)
measured = _BENCHMARK.measured

RATE = ("never", "half")
SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
SMALL = [(m, name) for m in ("softmax", "alibi_slopes", "alibi_bias") for name in library()[m].mistakes]
ATTENTION = [
    ("attention", "no_scale"),
    ("attention", "head_count_scale"),
    ("attention", "late_mask"),
    ("attention", "bias_scaled"),
    ("attention", "cap_after_mask"),
    ("attention", "key_tail"),
    ("attention", "mixed_pairs"),
    ("attention", "maximum_of_last_tile"),
    ("attention", "lse_without_maximum"),
    ("causal_mask", "sees_next"),
    ("grouped_query", "mixed_maps"),
    ("sliding_window", "one_more"),
    ("padding_mask", "suffix_only"),
]


PAIRS = [
    ("softmax.base_two", "softmax.last_lost"),
    ("causal_mask.centred", "causal_mask.replaces_mask"),
    ("layer_norm.not_centred", "layer_norm.fixed_epsilon"),
    ("rotary.from_one", "rotary.rising"),
]


def failing(one, mechanism, dtype="float32", law="definition"):
    result = run(Request(one, library()[mechanism], dtype, SCENARIOS, laws=frozenset({law})))
    return result.bench, next(cell.failure for cell in result.cells if cell.bad)


def likeness_of(one, mechanism, dtype="float32", **more):
    found = found_of(one, mechanism, dtype, **more)
    return None if isinstance(found, Nearest) else found


def found_of(one, mechanism, dtype="float32", **more):
    bench, failure = failing(one, mechanism, dtype)
    return diagnose(bench, failure, 0, **more)


@functools.cache
def likeness_of_mistake(address):
    """What a known mistake is called, found once for all tests that read it."""
    return likeness_of(mistake(address), address.partition(".")[0])


def planted(*addresses):
    """A subject with several mistakes of one mechanism."""
    m = library()[addresses[0].partition(".")[0]]
    changes = [m.mistakes[address.partition(".")[2]].change for address in addresses]
    return DefinitionSubject(m, "planted", {line: x for change in changes for line, x in change.items()})


@pytest.mark.parametrize(("mechanism", "name"), [*SMALL, *ATTENTION])
def test_the_mistake_that_was_planted_is_named(mechanism, name):
    likeness = likeness_of_mistake(f"{mechanism}.{name}")
    assert f"{mechanism}.{name}" in (likeness.name, *likeness.others)
    assert [""] == [cause.convention for cause in likeness.causes]
    assert likeness.agreed >= 1


def test_a_name_comes_with_its_sentence_and_the_cases_that_tell():
    likeness = likeness_of_mistake("attention.no_scale")
    assert [library()["attention"].mistakes["no_scale"].says] == [cause.says for cause in likeness.causes]
    assert likeness.agreed > 50


def test_what_gives_the_same_on_all_cases_is_said_to():
    likeness = likeness_of_mistake("softmax.maximum_of_all")
    assert ("softmax.floored_maximum", ("softmax.maximum_of_all",)) == (likeness.name, likeness.others)


def test_what_comes_next_is_said_with_the_cases_on_which_it_differs():
    likeness = likeness_of_mistake("softmax.maximum_of_all")
    assert ("softmax.clipped_maximum", 2) == (likeness.runner_up, likeness.differs)


def test_a_mistake_that_hardly_shows_is_named():
    assert "layer_norm.squared_epsilon" == likeness_of(mistake("layer_norm.squared_epsilon"), "layer_norm").name


def test_a_law_whose_case_is_right_by_itself_is_explained_by_what_else_it_calls_for():
    bench, failure = failing(mistake("multi_head.no_query_bias"), "multi_head", law="bias_of_queries")
    assert "multi_head.no_query_bias" == diagnose(bench, failure, 0).name


@pytest.mark.parametrize("pair", PAIRS)
def test_two_mistakes_at_once_are_both_named(pair):
    likeness = likeness_of(planted(*pair), pair[0].partition(".")[0])
    assert set(pair) == {cause.name for cause in likeness.causes}


APART = {
    "causal_mask.replaces_mask": "causal_mask.centred where no mask is given",
    "layer_norm.fixed_epsilon": "layer_norm.not_centred where eps is not given",
}
"""By the one of two mistakes that is not known, what the other is called, where it is alone on some cases."""


@pytest.mark.parametrize("pair", PAIRS)
def test_of_two_mistakes_one_of_which_is_unknown_the_other_is_named_where_it_is_alone(pair):
    one = planted(*pair)
    for unknown in pair:
        likeness = likeness_of(one, pair[0].partition(".")[0], without={unknown})
        assert APART.get(unknown) == (likeness and likeness.name)


ONE_REPORT = ("softmax.last_tile_maximum is called fault:greatest_of_the_block",)
"""What is one fault, tile-ai/tilelang#1148, in a line and as a function, which differ where exponentials overflow."""


@pytest.mark.parametrize("mechanism", ["softmax", "alibi_slopes"])
def test_a_mistake_that_is_not_known_has_no_name_but_of_what_has_the_same_effect(mechanism):
    tally = measured(library()[mechanism], 2)
    assert [] == [wrong for wrong in tally.wrong if not wrong.startswith(ONE_REPORT)]
    assert 0 == tally.known["silent"]


def test_where_outputs_are_random_a_mistake_is_known_by_the_calls_that_are_determined():
    m = library()["attention_dropout"]
    changed = Expression("1 if scale == none else scale", m.definition["factor"].scope)
    bench, failure = failing(DefinitionSubject(m, "one", {"factor": changed}), m.name, law="nothing_to_drop")
    likeness = diagnose(bench, failure, 0)
    assert ("attention.no_scale", False) == (likeness.name, likeness.by_laws)


def test_where_outputs_are_choices_among_equals_they_are_compared_as_others_are():
    m = library()["lightning_indexer"]
    behind = Expression("gather(q, max(range(q_len) - 1, 0), 1)", m.definition["scores"].scope)
    bench, failure = failing(DefinitionSubject(m, "one_behind", {"q": behind}), m.name, law="determined")
    likeness = diagnose(bench, failure, 0)
    assert ("q: q -> q at the one before of q_len", False) == (likeness.name, likeness.by_laws)


@pytest.mark.parametrize("name", ["never", "half", "fixed_seed", "one_row_for_all"])
def test_where_outputs_are_random_a_mistake_is_known_by_the_laws_that_it_breaks(name):
    bench, failure = failing(mistake(f"dropout.{name}"), "dropout", law="rate" if name in RATE else "other_seed")
    likeness = diagnose(bench, failure, 0)
    assert f"dropout.{name}" in (likeness.name, *likeness.others)
    assert likeness.by_laws is (name not in RATE)  # with p = 1 or p = 0 the result is determined


@pytest.mark.parametrize(
    ("mechanism", "line", "before", "after", "law"),
    [
        ("sample", "tokens", "cumsum(chances)[:, none]", "chances[:, none]", "frequencies"),
        (
            "speculative_sampling",
            "token_chance",
            "max(where(is_draft, draft_probs, 0))",
            "max(draft_probs)",
            "accepted_as_often",
        ),
    ],
)
def test_where_outputs_are_random_a_changed_line_is_known_by_determined_calls_and_laws(
    mechanism, line, before, after, law
):
    m = library()[mechanism]
    changed = Expression(m.definition[line].text.replace(before, after), m.definition[line].scope)
    bench, failure = failing(DefinitionSubject(m, "one", {line: changed}), m.name, law=law)
    likeness = diagnose(bench, failure, 0)
    assert any(name.startswith(f"{line}: ") and after in name for name in (likeness.name, *likeness.others))


def adapted(function, operator="attention", dtypes=("float32",), **declared):
    return subject(Adapter("function", operator, function, "torch", dtypes=dtypes, **declared))


def attention_of(
    factor=lambda q, v: q.shape[-1] ** -0.5, first=lambda q_len, k_len: k_len - q_len, over=1.0, cut=lambda p: p
):
    def attention(q, k, v, *, causal=False):
        k, v = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        s = q.float() @ k.mT * factor(q, v)
        row = torch.arange(q.shape[2])[:, None] + first(q.shape[2], k.shape[2])
        p = torch.softmax(s.masked_fill((torch.arange(k.shape[2]) > row) & causal, -torch.inf), -1)
        return (over * cut(p.nan_to_num(0.0)) @ v).to(q.dtype)

    return attention


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ({"factor": lambda q, v: 1.0}, "attention.no_scale"),
        ({"factor": lambda q, v: v.shape[-1] ** -0.5}, "attention.value_scale"),
        ({"factor": lambda q, v: (q.shape[1] * q.shape[3]) ** -0.5}, "attention.model_scale"),
        ({"factor": lambda q, v: 1 / q.shape[3]}, "attention.scaled_twice"),
    ],
)
def test_a_mistake_is_known_in_the_code_of_others(fault, name, dtype):
    assert name == likeness_of(adapted(attention_of(**fault), dtypes=(dtype,)), "attention", dtype).name


def test_codes_that_are_cut_off_are_named_though_an_error_of_rounding_costs_a_step():
    """Where x / scale is 127, a division that gives a little less has the code 126, which no exact one has."""

    def cut_off(x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / torch.where(scale == 0, 1.0, scale)).to(torch.int8), scale

    found = likeness_of(adapted(cut_off, "quantize_blocks"), "quantize_blocks")
    assert "quantize_blocks.towards_zero" == found.name


@pytest.mark.parametrize(
    ("cut", "line"),
    [
        (lambda p: p * p, "(terms / sum(terms, keep = true)) ** 2 @ values"),
        (
            lambda p: torch.where(p < 0.01, 0.0, p),
            "where(terms / sum(terms, keep = true) < 0.01, 0, terms / sum(terms, keep = true)) @ values",
        ),
    ],
)
def test_weights_that_are_squared_or_cut_where_they_are_small_are_shown_as_a_changed_line(cut, line):
    (changed,) = likeness_of(adapted(attention_of(cut=cut)), "attention").changed
    assert ("attended", line) == (changed.line, changed.after)


def test_the_mistake_of_another_mechanism_is_known_too():
    words = {"causal_alignment": "bottom_right", "empty_row": "zeros"}
    one = adapted(attention_of(factor=lambda q, v: 1.0), conventions=words)
    assert "attention.no_scale" == likeness_of(one, "causal_mask").name


def test_a_convention_and_a_mistake_at_once_are_both_named_the_mistake_first():
    fault = {"factor": lambda q, v: 1.0, "first": lambda q_len, k_len: 0}
    one = adapted(attention_of(**fault), conventions={"causal_alignment": "bottom_right", "empty_row": "zeros"})
    likeness = likeness_of(one, "attention")
    assert ["attention.no_scale", "causal_alignment = top_left"] == [cause.name for cause in likeness.causes]
    assert ("causal_alignment", "top_left") == (likeness.causes[1].convention, likeness.causes[1].word)


def test_another_word_than_the_declared_one_is_named_first():
    one = adapted(attention_of(first=lambda q_len, k_len: 0), conventions={"causal_alignment": "bottom_right"})
    likeness = likeness_of(one, "causal_mask")
    assert "causal_alignment = top_left" == likeness.name
    (cause,) = likeness.causes
    assert ("causal_alignment", "top_left") == (cause.convention, cause.word)
    assert library()["attention"].conventions["causal_alignment"]["top_left"] == cause.says


@torch.enable_grad()
def gradients_capped_after_the_bias(q, k, v, d_out, *, bias=None, softcap=None):
    heads = q.shape[1]
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    q, k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in inputs)
    s = q @ k.mT * q.shape[-1] ** -0.5 + (0 if bias is None else bias)
    s = s if softcap is None else softcap * torch.tanh(s / softcap)
    (torch.softmax(s, -1) @ v).backward(d_out)
    return dict(zip(("d_q", "d_k", "d_v"), (x.grad for x in inputs), strict=True))


def test_gradients_that_cancel_within_their_bounds_need_no_mistake_of_their_own():
    """Far from their size they are off by the tolerance, as where all keys are nearly alike."""
    one = adapted(gradients_capped_after_the_bias, "attention_gradient")
    assert likeness_of(one, "attention_gradient").name == "attention_gradient.cap_after_bias"


def test_a_faulty_function_of_the_suite_is_a_name():
    known = fault("fault:lanes_of_zeros")
    one = adapted(known.function, "softmax", conventions=known.conventions)
    likeness = likeness_of(one, "softmax")
    assert ("fault:lanes_of_zeros", known.summary) == (likeness.name, likeness.causes[0].says)


def capped_after_the_bias(q, k, v, *, bias=None, softcap=None):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.mT * q.shape[-1] ** -0.5 + (0 if bias is None else bias)
    return torch.softmax(s if softcap is None else softcap * torch.tanh(s / softcap), -1) @ v


def test_a_cap_after_the_bias_is_known_in_the_code_of_others():
    """Where there is no cap, it is right, with a bias as well."""
    assert "attention.cap_after_bias" == likeness_of(adapted(capped_after_the_bias), "attention").name


@pytest.mark.parametrize("likely", [(), ("sees_next",), ("strict",)])
def test_what_was_named_elsewhere_is_tried_first_and_told_if_it_agrees(likely, monkeypatch):
    tried, search = [], naming.Search

    def searching(bench, found, *rest, **more):
        tried.append(len(found))
        return search(bench, found, *rest, **more)

    for module in (naming, fitting):
        monkeypatch.setattr(module, "Search", searching)
    one = mistake("causal_mask.sees_next")
    request = Request(one, library()["causal_mask"], "float32", SCENARIOS, laws=frozenset({"definition"}))
    result = run(request)
    failure = next(cell.failure for cell in result.cells if cell.bad)
    found = diagnose(result.bench, failure, 0, likely=likely)
    assert "causal_mask.sees_next" == found.name
    assert (tried == [1]) is (likely == ("sees_next",))


def test_a_changed_line_that_was_shown_elsewhere_is_tried_before_all_other_edits(monkeypatch):
    one = adapted(attention_of(cut=lambda p: p * p))
    shown = "attended: average(terms, values) -> (terms / sum(terms, keep = true)) ** 2 @ values"
    monkeypatch.setattr(naming, "_among_all", lambda *_, **__: None)
    assert shown == likeness_of(one, "grouped_query", likely=(shown,)).name
    assert likeness_of(one, "grouped_query", likely=("strict",)) is None


def test_a_pair_that_was_named_elsewhere_is_tried_before_all_others(monkeypatch):
    one, pair = planted("softmax.base_two", "softmax.last_lost"), "base_two and last_lost"
    monkeypatch.setattr(naming, "_among_all", lambda *_, **__: None)
    found = likeness_of(one, "softmax", likely=(pair,))
    assert pair == anywhere(found.name)
    assert likeness_of(one, "softmax", likely=pair.split(" and ")) is None


def test_where_what_was_named_elsewhere_may_not_hold_was_looked_at_there(monkeypatch):
    drawn = []
    monkeypatch.setattr(Asking, "outside", lambda *_: iter(drawn.append(1) or ()))
    one = mistake("causal_mask.sees_next")
    names = [likeness_of(one, "causal_mask", likely=likely).name for likely in (("sees_next",), ())]
    assert (["causal_mask.sees_next"] * 2, 1) == (names, len(drawn))


def zeros_for_what_is_removed(logits, *, k):
    """Top-k whose removed entries are zero times what they were, which is NaN for minus infinity."""
    kept = np.argsort(np.argsort(-logits, -1, kind="stable"), -1, kind="stable") < k
    with np.errstate(invalid="ignore"):
        return np.where(kept, logits, 0 * logits).astype(logits.dtype)


def test_where_entries_are_finite_what_is_known_is_named_however_little_time_is_left():
    one = subject(Adapter("zeros", "top_k_filter", zeros_for_what_is_removed, "numpy"))
    assert "top_k_filter.zeros where all entries are finite" == likeness_of(one, "top_k_filter", times=0.0).name


def test_a_mistake_of_another_operator_is_no_name_on_few_cases_on_which_edits_agree_as_well():
    bench = SimpleNamespace(mechanism=library()["speculative_sampling"])
    edit = Candidate("residual: a -> b", "", changed=(Changed("residual", "a", "b"),))

    def many(name, agreed, *alike):
        return naming._is_one_of_many(bench, Likeness((Cause(name, ""),), agreed, alike=alike))

    assert many("residual_layer_norm.stream_of_first_row", 2, edit)
    assert not many("residual_layer_norm.stream_of_first_row", 4, edit)
    assert not many("residual_layer_norm.stream_of_first_row", 2)
    assert not many(f"speculative_sampling.{next(iter(bench.mechanism.mistakes))}", 2, edit)
