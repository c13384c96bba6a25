"""Conventions: a declared word is taken at its word, and an undeclared one is found by what the subject does."""

import re
from dataclasses import replace

import pytest
import torch

from attnspec.adapters import Adapter, Unsupported
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES, Profile
from attnspec.judging import conventions
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.conventions import Finding, identify
from attnspec.judging.engine import run
from attnspec.judging.frames import Frames
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.runs.opening import again
from attnspec.subjects.registered import find
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import subject

SCENARIOS = Profile("scenarios", covering=0, draws=0, admitted=1)
OPERATORS = ("alibi_bias", "alibi_slopes", "attention", "softmax")
OTHERS = [
    (operator, convention, word)
    for operator in OPERATORS
    for convention, words in library()[operator].conventions.items()
    for word in list(words)[1:]
]


def silent(operator, **words):
    """The definition by these words, of which it says nothing."""
    one = DefinitionSubject(library()[operator], "silent", conventions=words, dtypes=("float32",))
    one.claims = replace(one.claims, conventions={})
    return one


def cells_of(one, mechanism, dtype="float32", profile=SCENARIOS):
    return run(Request(one, library()[mechanism], dtype, profile)).cells


def cell_of(cells, law):
    return next(cell for cell in cells if cell.law == law)


@pytest.mark.parametrize(("operator", "convention", "word"), OTHERS)
def test_an_undeclared_word_is_found(operator, convention, word):
    found = identify(silent(operator, **{convention: word}), library()[operator], "float32", "cpu")
    assert (word, "observed") == (found[convention].word, found[convention].how)
    assert found[convention].agreed == found[convention].cases > 0


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_first_words_are_found(operator):
    found = identify(silent(operator), library()[operator], "float32", "cpu")
    assert library()[operator].words == {name: finding.word for name, finding in found.items()}
    assert {"observed"} == {finding.how for finding in found.values()}


def test_of_several_words_that_explain_a_case_the_closest_is_found():
    one = silent("multi_head", empty_row="mean_value")
    one.claims = replace(subject(find("diffusers_multi_head_eager")).claims, conventions={})
    found = identify(one, library()["multi_head"], "float32", "cpu")["empty_row"]
    assert ("mean_value", "observed") == (found.word, found.how)


def test_several_words_are_found_together():
    words = {
        "causal_alignment": "top_left",
        "empty_row": "nans",
        "empty_bias_row": "mean_row",
        "masked_nonfinite": "propagates",
        "grouping": "tiled",
        "lse_base": "two",
    }
    found = identify(silent("attention", **words), library()["attention"], "float32", "cpu")
    assert words == {name: finding.word for name, finding in found.items()}
    assert {"observed"} == {finding.how for finding in found.values()}


def attention_of(top_left=lambda q: False, empty=0.0):
    def attention(q, k, v, *, mask=None, causal=False, scale=None):
        s = q.float() @ k.float().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        row = torch.arange(q.shape[2])[:, None] + (0 if top_left(q) else k.shape[2] - q.shape[2])
        seen = (torch.arange(k.shape[2]) <= row) | (not causal)
        s = s.masked_fill(~(seen if mask is None else seen & mask), -torch.inf)
        return torch.softmax(s, -1).nan_to_num(empty).to(q.dtype) @ v

    return attention


def adapted(function, operator="attention", **declared):
    return subject(Adapter("function", operator, function, "torch", **declared))


def test_who_follows_an_undeclared_word_keeps_the_laws_by_it():
    cells = cells_of(adapted(attention_of(top_left=lambda q: True)), "causal_mask")
    assert [] == [cell.law for cell in cells if cell.bad]


def test_the_word_found_is_shown():
    cell = cell_of(cells_of(adapted(attention_of()), "attention"), "convention.causal_alignment")
    assert ("pass", "observed: bottom_right") == (cell.verdict, cell.says)


def test_who_declares_one_word_and_follows_another_is_wrong():
    one = adapted(attention_of(top_left=lambda q: True), conventions={"causal_alignment": "bottom_right"})
    assert "fail" == cell_of(cells_of(one, "causal_mask"), "definition").verdict
    convention = cell_of(cells_of(one, "attention"), "convention.causal_alignment")
    assert ("pass", "declared: bottom_right") == (convention.verdict, convention.says)


def test_who_declares_the_word_that_it_follows_is_right():
    one = adapted(attention_of(top_left=lambda q: True), conventions={"causal_alignment": "top_left"})
    assert [] == [cell.law for cell in cells_of(one, "causal_mask") if cell.bad]


def test_a_declared_word_takes_others_with_it():
    one = adapted(attention_of(), conventions={"empty_row": "nans"})
    found = identify(one, library()["attention"], "float32", "cpu")
    assert Finding("empty_bias_row", "nan_row", "declared") == found["empty_bias_row"]


def test_what_no_word_explains_follows_from_a_law_that_is_refuted_along_with_it():
    cell = cell_of(cells_of(adapted(attention_of(empty=0.7)), "attention"), "convention.empty_row")
    assert ("not_tested", None) == (cell.verdict, cell.failure)
    assert re.match(r"follows from \w+: no convention explains all outputs; \w+ explains 0 of \d+ cases", cell.says)


def test_what_no_word_explains_is_a_failure_with_a_case_where_nothing_else_is_wrong():
    one = adapted(attention_of(empty=0.7))
    request = Request(one, library()["attention"], "float32", SCENARIOS, laws={"convention.empty_row"})
    (cell,) = run(request).cells
    assert ("fail", "must") == (cell.verdict, cell.level)
    assert cell.says.startswith("no convention explains all outputs; ")
    assert cell.says.endswith(f"explains 0 of {cell.cases} cases")
    assert cell.failure is not None
    bench = Bench(one, library()["attention"], "float32", "cpu", {"empty_row": "zeros", "causal_alignment": "top_left"})
    found, verdict, _ = again(bench, cell.failure.sample, cell.law)
    assert ("fail", cell.law) == (verdict, found.law)


def test_a_word_that_changes_from_case_to_case_is_none():
    def attention(q, k, v, *, mask=None):
        return attention_of(empty=torch.nan if mask is not None and mask.shape[-2] == 1 else 0.0)(q, k, v, mask=mask)

    finding = identify(adapted(attention), library()["attention"], "float32", "cpu")["empty_row"]
    assert "unexplained" == finding.how
    assert {"nans", "zeros"} == dict(finding.followed).keys()
    says = cell_of(cells_of(adapted(attention), "attention"), "convention.empty_row").says
    assert says.endswith("; ".join(f"{word} on {', '.join(labels)}" for word, labels in finding.followed))
    assert 0 < finding.agreed < finding.cases


def test_entries_that_a_word_explains_by_chance_tell_nothing():
    def layer_norm(x, weight, bias, *, eps=1e-5):
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() * weight

    found = identify(adapted(layer_norm, "layer_norm", dtypes=("float32",)), library()["layer_norm"], "float32", "cpu")
    assert ("biased", "unexplained", 0) == (found["variance"].word, found["variance"].how, found["variance"].agreed)


def test_a_word_found_at_first_is_confirmed_on_further_cases():
    one = adapted(attention_of(top_left=lambda q: q.shape[2] == 17))
    finding = identify(one, library()["attention"], "float32", "cpu")["causal_alignment"]
    told_by = {"decode", "decode_far", "chunk", "chunk_of_tiles", "more_queries"}
    assert told_by == set(finding.told_by)
    assert Finding("causal_alignment", "bottom_right", "unexplained", 4, 5) == replace(finding, told_by=())


def test_what_no_word_explains_may_have_an_output_of_another_shape():
    def residual_rms_norm_gradient(x, residual, weight, d_out, *, d_summed=0.0, eps=1e-5):
        root = ((x + residual).square().mean(-1, keepdim=True) + eps).sqrt()
        y, v = (x + residual) / root, d_out * weight
        d_x = (v - y * (v * y).mean(-1, keepdim=True)) / root + d_summed
        return d_x, d_x[..., :1], (d_x + 1).reshape(-1, len(weight)).sum(0)

    function, m = residual_rms_norm_gradient, library()["residual_rms_norm_gradient"]
    one = subject(Adapter("norm", function.__name__, function, "torch", dtypes=("float32",)))
    assert identify(one, m, "float32", "cpu")["eps_place"].how == "unexplained"


def test_cases_that_are_not_taken_do_not_keep_a_word_from_being_found():
    def kernel(q, k, v, *, mask=None):
        if mask is not None and q.shape[2] != k.shape[2]:
            raise Unsupported("there are as many keys as queries")
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    words = {"empty_row": "zeros", "grouping": "block"}
    one = subject(Adapter("kernel", "attention", kernel, "torch", conventions=words))
    assert "propagates" == identify(one, library()["attention"], "float32", "cpu")["masked_nonfinite"].word


def test_refused_cases_do_not_ground_what_no_word_explains():
    def attention(q, k, v, *, mask=None):
        if mask is not None and mask.shape != (len(q), 1, q.shape[2], k.shape[2]):
            raise Unsupported("a mask for all heads")
        return attention_of(empty=torch.nan)(q, k, v, mask=None if mask is None else mask[:1])

    finding = identify(adapted(attention), library()["attention"], "float32", "cpu")["empty_row"]
    assert "unexplained" == finding.how


def test_what_no_case_tells_is_not_tested():
    def plain(q, k, v):
        return attention_of()(q, k, v)

    cell = cell_of(cells_of(adapted(plain), "attention"), "convention.causal_alignment")
    assert ("not_tested", "no case distinguishes its words") == (cell.verdict, cell.says)


@pytest.mark.parametrize("answer", [Unsupported, ValueError, None])
def test_who_does_not_answer_the_telling_cases_is_not_told(answer):
    def softmax(x):
        if torch.isinf(x).any():
            if answer:
                raise answer
            return x[:0]
        return torch.softmax(x, -1)

    found = identify(adapted(softmax, "softmax"), library()["softmax"], "float32", "cpu")
    assert Finding("empty_row", "zeros", "untold") == found["empty_row"]


def test_every_dtype_follows_the_same_word():
    one = adapted(attention_of(top_left=lambda q: q.dtype is torch.bfloat16), dtypes=("float32", "bfloat16"))
    cell = cell_of(cells_of(one, "attention", "bfloat16"), "convention.causal_alignment")
    assert "fail" == cell.verdict
    assert "follows bottom_right in float32, but top_left in bfloat16" == cell.says


def test_a_word_that_leaves_something_open_explains_what_a_stricter_one_does():
    """Of equal logits the first ones stay, but in float32 the last ones of every second row."""

    def top_k_filter(logits, *, k):
        rows = logits.reshape(-1, logits.shape[-1])
        turned = (torch.arange(len(rows))[:, None] % 2 == 1) & (logits.dtype is torch.float32)
        moved = torch.where(turned, rows.flip(-1), rows)
        kept = moved.sort(dim=-1, descending=True, stable=True).indices[:, :k]
        found = torch.full_like(moved, -torch.inf).scatter(-1, kept, moved.gather(-1, kept))
        return torch.where(turned, found.flip(-1), found).reshape(logits.shape)

    one = adapted(top_k_filter, "top_k_filter", dtypes=("float32", "bfloat16"))
    words = [identify(one, library()["top_k_filter"], dtype, "cpu")["ties"].word for dtype in one.claims.dtypes]
    assert ["open", "first"] == words
    cell = cell_of(cells_of(one, "top_k_filter", "bfloat16"), "convention.ties")
    assert ("pass", "observed: first") == (cell.verdict, cell.says)


@pytest.mark.parametrize(("strict", "verdict"), [(False, "pass"), (True, "fail")])
def test_a_gate_asks_for_a_declaration(strict, verdict):
    profile = replace(SCENARIOS, strict=strict)
    cell = cell_of(cells_of(silent("softmax", empty_row="nans"), "softmax", profile=profile), "convention.empty_row")
    says = "observed: nans" + ("; a gate declares it" if strict else "")
    assert (verdict, says) == (cell.verdict, cell.says)


def test_noise_of_a_narrow_dtype_hides_no_word():
    def softmax(x):
        noise = 1 + 0.02 * torch.rand(x.shape, generator=torch.Generator().manual_seed(1))
        return (torch.softmax(x.float(), -1) * noise).nan_to_num(1 / x.shape[-1]).to(x.dtype)

    one = adapted(softmax, "softmax", dtypes=("bfloat16",))
    assert "mean_value" == identify(one, library()["softmax"], "bfloat16", "cpu")["empty_row"].word


def test_a_finding_is_shown_unless_it_was_declared_or_untold():
    shown = {how: Finding("empty_row", "zeros", how).shown for how in ("declared", "observed", "unexplained", "untold")}
    assert {"declared": False, "observed": True, "unexplained": True, "untold": False} == shown


def test_words_that_are_not_asked_for_evaluate_nothing_anew(monkeypatch):
    softmax = library()["softmax"]
    sample = plan(softmax, silent("softmax").claims, PROFILES["smoke"], 3, "float32").scenarios[0]
    trial = Trial(Bench(silent("softmax"), softmax, "float32", "cpu", {"empty_row": "nans"}), sample)
    known = trial.frames.version({"empty_row": "nans"})
    monkeypatch.setattr(Frames, "_worded", None)
    monkeypatch.setattr(Frames, "_exact", None)
    [output] = softmax.outputs
    assert known[output] is trial.frames.version({"empty_row": "nans", "another": "word"})[output]
    assert known[output] is trial.frames.exact(output, trial.frames.base)


def test_a_choice_between_equals_tells_no_words_apart():
    def moe_routing(logits, *, k=2, groups=1, kept_groups=1, scoring="softmax"):
        scores = torch.sigmoid(logits.float()) if scoring == "sigmoid" else torch.softmax(logits.float(), -1)
        grouped = scores.flip(-1).view(len(scores), groups, -1)  # of equal experts the last one is chosen
        best = grouped.topk(min(2, grouped.shape[-1]), -1).values.sum(-1)
        kept = torch.zeros_like(best).scatter(1, best.topk(kept_groups, -1).indices, 1.0) > 0
        chosen = torch.where(kept[..., None], grouped, -torch.inf).flatten(1).topk(k, -1)
        return torch.zeros_like(scores).scatter(1, chosen.indices, chosen.values).flip(-1).to(logits.dtype)

    found = identify(
        adapted(moe_routing, "moe_routing", dtypes=("bfloat16",)), library()["moe_routing"], "bfloat16", "cpu"
    )
    assert ("top_two", "observed") == (found["group_score"].word, found["group_score"].how)


def test_the_search_for_telling_cases_ends_with_the_first_convention_that_has_enough(monkeypatch):
    asked = []
    telling = conventions._telling

    def noted(trials, name, open_, known):
        asked.append(name)
        return telling(trials, name, open_, known)

    monkeypatch.setattr(conventions, "_telling", noted)
    identify(silent("attention"), library()["attention"], "float32", "cpu")
    opened = len(set(asked))
    assert opened * (opened + 1) // 2 > len(asked)


def of_long_rows(x, p, order):
    """The filter by p, of which equal entries stay in one order in short rows, and in another one in long ones."""
    places = x.argsort(dim=-1, stable=True, descending=True)
    places = places if x.shape[-1] < 17 else order(x)
    ordered = x.gather(-1, places)
    chances = ordered.softmax(-1)
    behind = chances.cumsum(-1) - chances > p
    return x.masked_fill(torch.zeros_like(behind).scatter(-1, places, behind), -torch.inf)


@pytest.mark.parametrize(
    ("order", "word"),
    [
        (lambda x: x.argsort(dim=-1, stable=True, descending=True), "first"),
        (lambda x: x.shape[-1] - 1 - x.flip(-1).argsort(dim=-1, stable=True, descending=True), "open"),
    ],
    ids=["first", "open"],
)
def test_an_order_that_holds_in_short_rows_alone_is_left_open(order, word, monkeypatch):
    """Where few cases are looked at before."""
    monkeypatch.setattr(conventions, "ENOUGH", 1)
    one = subject(
        Adapter("filtered", "top_p_filter", lambda logits, p: of_long_rows(logits, p, order), "torch"), declared=False
    )
    assert word == identify(one, library()["top_p_filter"], "float32", "cpu")["ties"].word
