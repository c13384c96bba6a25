"""A looser grade explains what it could have refuted, and nothing else."""

from importlib import import_module

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.adapters.controls import codings
from attnspec.cases.profiles import PROFILES
from attnspec.judging import engine
from attnspec.judging.cells import Request
from attnspec.judging.coverage import beside
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, Outcome
from attnspec.mechanisms.loader import library
from attnspec.numerics.formats import FLOAT16, rounded
from attnspec.subjects.targets import mistake, subject

from .test_engine import adapted, bad, cell_of, eager, result_of, softmax

blocks = import_module("attnspec.reference.decoder")  # the package has a function of that name
LAWS = frozenset({"definition", "contract.precision"})


def verdicts(block):
    """Those on a model whose layers are made by a block, which is told whether it is the first one."""

    def model(tokens, embedding, *weights, heads, kv_heads=None, eps=1e-5, base=10000.0):
        with np.errstate(all="ignore"):
            *stacked, final_norm = (np.asarray(x, float) for x in weights)
            table = np.asarray(embedding, float)
            x = table[tokens]
            for number, layer in enumerate(zip(*stacked, strict=True)):
                x = block(number == 0, x, *layer, heads=heads, kv_heads=kv_heads, eps=eps, base=base)
            return (blocks.rms_norm(x, final_norm, eps=eps) @ table.T).astype(np.float32)

    adapter = Adapter("model", "decoder", model, "numpy", conventions={"pairing": "halves"})
    request = Request(subject(adapter), library()["decoder"], "float32", PROFILES["smoke"], laws=LAWS)
    return {cell.law: (cell.verdict, cell.says) for cell in run(request).cells if cell.law in LAWS}


def causal_in_first(first, *arrays, **options):
    attention = blocks.attention
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "attention", lambda q, k, v, causal: attention(q, k, v, causal=first))
        return blocks.transformer_block(*arrays, **options)


def in_eleven_bits(first, *arrays, **options):
    return blocks.transformer_block(*(rounded(x, FLOAT16) for x in arrays), **options)


def test_a_mask_that_one_layer_lacks_is_not_taken_for_a_lack_of_precision():
    found = verdicts(causal_in_first)
    assert "fail" == found["definition"][0]
    assert ("not_tested", "no grade explains what was returned") == found["contract.precision"]


def test_factors_that_are_rounded_are():
    assert {"definition": ("pass", ""), "contract.precision": ("fail", "behaves as tf32, claims fp32")} == verdicts(
        in_eleven_bits
    )


def test_an_eager_kernel_in_bfloat16_is_accused_of_its_precision_alone():
    result = result_of(adapted(eager, "attention", dtypes=("bfloat16",)), "attention", "bfloat16")
    assert {"contract.precision"} == bad(result)
    assert "bf16_naive" == result.grade.name
    assert "behaves as bf16_naive, claims bf16" == cell_of(result, "contract.precision").says
    assert cell_of(result, "contract.precision").worst > 1


def test_who_claims_that_precision_is_right():
    one = adapted(eager, "attention", dtypes=("bfloat16",), grade="bf16_naive")
    assert set() == bad(result_of(one, "attention", "bfloat16"))


def test_who_is_wrong_is_not_accused_of_its_precision():
    cell = cell_of(result_of(mistake("softmax.base_two")), "contract.precision")
    assert ("not_tested", "no grade explains what was returned") == (cell.verdict, cell.says)


@pytest.mark.parametrize(("again", "verdict"), [(Kind.HELD, "pass"), (Kind.REFUTED, "fail")])
def test_a_looser_grade_counts_if_chance_does_not_explain_it(monkeypatch, again, verdict):
    doubtful, judged = [], engine.judged

    def judging(trial, law, grades, **more):
        if law.name != "sums_to_one":
            return judged(trial, law, grades, **more)
        doubtful.append(trial.sample.case.seed)
        kind = Kind.REFUTED if trial.sample.case.seed == doubtful[0] else again
        return Outcome(Kind.HELD, grade=grades[1]) if len(grades) > 1 else Outcome(kind, grade=grades[0], certain=False)

    monkeypatch.setattr(engine, "judged", judging)
    wanted = frozenset({"sums_to_one", "contract.precision"})
    assert verdict == cell_of(result_of(adapted(softmax), laws=wanted), "contract.precision").verdict


def in_codes(claim, keys=codings.smoothed):
    """Attention with queries and keys in int8, and the claim that it makes."""

    def attention(q, k, v, *, causal=False, scale=None):
        left = codings.in_int8(q, 1), codings.in_int8(keys(k), 1)
        return codings.attended(*left, v.float(), scale, causal, codings.half)[0].to(q.dtype)

    return adapted(attention, "attention", dtypes=("float16",), grade=claim, conventions=codings.CONVENTIONS)


@pytest.mark.parametrize(
    ("subject", "broken"),
    [
        (in_codes("int8_smoothed"), set()),
        (in_codes("int8_smoothed", keys=lambda k: k.float() + 60), {"definition"}),
        (in_codes("fp16"), {"definition"}),
    ],
    ids=["smoothed", "far_from_zero", "unclaimed"],
)
def test_what_codes_cost_is_within_the_claim_that_says_so(subject, broken):
    assert broken == bad(result_of(subject, "attention", "float16", laws=frozenset({"definition"})))


def test_a_claim_that_nothing_needs_is_told():
    exact = adapted(upcast, "attention", dtypes=("float16",), grade="int8_scores", conventions=codings.CONVENTIONS)
    told = [
        result_of(x, "attention", "float16", laws=frozenset({"definition"})).observed
        for x in (exact, in_codes("int8_smoothed"))
    ]
    assert [("attention in float16: int8_scores is claimed, and fp16 explains all that was returned",), ()] == told


def test_a_claim_for_which_a_tighter_one_would_do_is_told():
    told = [
        result_of(in_codes(x), "attention", "float16", laws=frozenset({"definition"})) for x in ("fp8", "int8_half")
    ]
    says = "attention in float16: {} is claimed, and int8_smoothed explains all that was returned"
    assert [(says.format("fp8"),), (says.format("int8_half"),)] == [found.observed for found in told]


def upcast(q, k, v, *, causal=False, scale=None):
    return codings.attended(q.float(), k.float(), v.float(), scale, causal, lambda weights: weights)[0].to(q.dtype)


def cut(x):
    """The leading 11 bits of numbers in float32, the rest being cut off, as tensor cores do."""
    return (np.asarray(x, np.float32).view(np.int32) & -(1 << 13)).view(np.float32)


def on_tensor_cores(q, k, v, *, causal=False, scale=None):
    scores = cut(q) @ np.swapaxes(cut(k), -1, -2) * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    return cut(weights) @ cut(v) / weights.sum(-1, keepdims=True).astype(np.float32)


@pytest.mark.parametrize(
    ("device", "more", "level"), [("cpu", {}, "must"), ("cuda:0", {}, "should"), ("cuda", {"grade": "fp32"}, "must")]
)
def test_products_of_float32_on_tensor_cores_are_usual_on_a_device_alone(device, more, level):
    one = adapted(on_tensor_cores, "attention", framework="numpy", dtypes=("float32",), **more)
    request = Request(one, library()["causal_mask"], "float32", PROFILES["quick"], device=device)
    found = cell_of(run(request), "contract.precision")
    assert ("fail", "behaves as tf32, claims fp32", level) == (found.verdict, found.says, found.level)


def test_that_precision_is_told_beside_the_verdict():
    cell = {"law": "contract.precision", "verdict": "fail", "dtype": "float32", "device": "cuda"}
    cell["says"] = "behaves as tf32, claims fp32"
    usual = ["float32 behaves as tf32, as is usual on cuda: if intended, declare the grade"]
    assert (usual, []) == (beside([{**cell, "level": "should"}]), beside([{**cell, "level": "must"}]))
