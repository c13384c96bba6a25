"""Cases for the property-based tests of a project."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

import attnspec
from attnspec.strategies import cases

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
PLAIN = settings(deadline=None, database=None, max_examples=15, derandomize=True)


def softmax(x):
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf, where=x > -np.inf))
    return np.where(np.isneginf(x).all(-1, keepdims=True), 0, shifted / shifted.sum(-1, keepdims=True)).astype(x.dtype)


def attention(q, k, v, *, causal=False, scale=None, hidden=0):
    scores = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
        scores = np.where(columns <= rows + scores.shape[-1] - scores.shape[-2] + hidden, scores, -np.inf)
    with np.errstate(all="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.where(np.isneginf(scores).all(-1, keepdims=True), 0, weights / weights.sum(-1, keepdims=True))
    return (weights @ v).astype(q.dtype)


def first(strategy, wanted=lambda case: True):
    """The first case that Hypothesis draws of which something is true."""
    found = []

    @seed(1)
    @settings(PLAIN, max_examples=200, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(case):
        if not found and wanted(case):
            found.append(case)

    draw()
    return found[0]


def refused(case, output):
    with pytest.raises(AssertionError) as caught:
        case.check(output)
    return str(caught.value).partition(">: ")[2]


@PLAIN
@given(cases("attention", takes=("causal", "scale"), conventions={"causal_alignment": "bottom_right"}))
def test_a_right_kernel_passes_and_its_error_is_at_most_one_bound(case):
    assert 0 <= case.check(case.call(attention)) <= 1


@PLAIN
@given(cases("softmax", dtype="bfloat16", framework="torch"))
def test_arrays_are_those_of_the_framework_in_the_dtype(case):
    assert "torch.bfloat16" == str(case.inputs["x"].dtype)
    assert case.check(case.inputs["x"].float().softmax(-1).nan_to_num(0).bfloat16()) <= 1


@PLAIN
@given(cases("scaled_matmul", framework="torch", limits={"a_dtype": ("a_e5m2",)}))
def test_codes_are_in_the_dtype_that_an_option_says(case):
    assert ["torch.float8_e5m2", "torch.float32"] == [str(case.inputs[name].dtype) for name in ("a", "a_scale")]


def test_a_wrong_kernel_fails_on_the_smallest_sizes_and_the_plainest_options():
    smallest = []

    @settings(PLAIN, max_examples=100)
    @given(cases("attention", takes=("causal", "scale")))
    def kernel(case):
        smallest.append(case)
        case.check(attention(**case.inputs, **case.options, hidden=1))

    with pytest.raises(AssertionError):
        kernel()
    assert "<attention batch=1 kv_heads=1 heads=1 q_len=2 k_len=1 head_dim=1 value_dim=1 causal=True seed=0>" == repr(
        smallest[-1]
    )


def test_a_failure_has_the_entry_what_is_expected_and_the_error_in_units_of_its_bound():
    case = first(cases("softmax"), lambda case: case.expected["p"].size > 1)
    wrong = case.expected["p"].astype(np.float32)
    wrong.flat[1] += 100 * case.bounds["p"].flat[1]
    place = [int(i) for i in np.unravel_index(1, wrong.shape)]
    says = refused(case, wrong)
    assert says.startswith(f"p{place} is {wrong.flat[1]:.6g}, expected {case.expected['p'].flat[1]:.6g}: the error is ")
    assert says.endswith(f" (fp32); 1 of {wrong.size} entries are beyond their bound")
    assert 90 < float(says.partition("the error is ")[2].partition(" x the bound")[0]) < 110


@pytest.mark.parametrize(("share", "passes"), [(0.9, True), (1.1, False)])
def test_the_bound_of_an_entry_is_what_decides(share, passes):
    case = first(cases("softmax", dtype="float64", grade="fp32"), lambda case: case.expected["p"].size > 1)
    moved = case.expected["p"] + share * case.bounds["p"]
    assert passes or refused(case, moved)
    assert not passes or case.check(moved) == pytest.approx(share)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda p: p[..., :0], "p has the shape"),
        (lambda p: p.astype(np.float64), "the output 'p' is float64, not float32"),
        (lambda p: {"q": p}, "returned an output 'q'"),
        (lambda p: np.full_like(p, np.nan), "is nan, expected"),
        (lambda p: None, "returned None, and no 'p'"),
    ],
)
def test_what_is_no_output_fails(spoil, says):
    case = first(cases("softmax"), lambda case: np.isfinite(case.expected["p"]).all() and case.expected["p"].size)
    assert says in refused(case, spoil(case.expected["p"].astype(np.float32)))


def test_integers_are_compared_exactly():
    case = first(cases("broadcast_shapes"), lambda case: case.expected["shape"].size)
    assert 0 == case.check(case.expected["shape"].astype(np.int64))
    assert "expected" in refused(case, case.expected["shape"].astype(np.int64) + 1)


def test_what_the_definition_leaves_open_has_an_infinite_bound():
    strategy = cases("attention", takes=("causal",), conventions={"empty_row": "mean_value"})
    case = first(strategy, lambda case: np.isinf(case.bounds["lse"]).any())
    outputs = {name: x.astype(np.float32) for name, x in case.expected.items()}
    assert case.check(outputs) <= 1
    assert case.check({**outputs, "lse": np.where(np.isinf(case.bounds["lse"]), 7, outputs["lse"])}) <= 1


def test_limits_and_conditions_hold_of_every_case():
    strategy = cases("attention", takes=(), limits={"head_dim": (64,)}, requires="value_dim == head_dim")

    @settings(PLAIN, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def kernel(case):
        assert case.inputs["q"].shape[-1] == case.inputs["v"].shape[-1] == 64

    kernel()


def test_mechanisms_draw_in_their_own_way():
    case = first(cases("attention", mechanisms=["causal_mask"], takes=("causal",)))
    assert ("causal_mask", {"causal": True}) == (case.mechanism, case.options)


def test_a_function_says_by_its_signature_what_it_takes():
    drawn = first(cases("attention", takes=attention), lambda case: len(case.options) == 2)
    assert {"causal", "scale"} == set(drawn.options)


@pytest.mark.parametrize(
    ("operator", "more", "says"),
    [
        ("atention", {}, "unknown mechanism 'atention'; did you mean 'attention'?"),
        ("alibi", {}, "'alibi' is a mechanism of 'attention': write cases('attention', mechanisms=['alibi'])"),
        ("attention", {"mechanisms": ["softmax"]}, "'softmax' is not a mechanism of 'attention'"),
        (
            "attention",
            {"takes": ["casual"]},
            "attention has no option or optional input 'casual'; did you mean 'causal'?",
        ),
        (
            "attention",
            {"takes": [], "mechanisms": ["alibi"]},
            "no case of alibi can be drawn: the function does not take bias",
        ),
        ("dropout", {}, "every output of dropout is random, and judged by its laws alone: use attnspec.check"),
        ("softmax", {"dtype": "float31"}, "unknown dtype 'float31'"),
        ("softmax", {"framework": "pandas"}, "unknown framework 'pandas'"),
        ("softmax", {"grade": "fp31"}, "unknown grade 'fp31'"),
        ("softmax", {"limits": {"m": (1,)}}, "limits and fixed take sizes and options, not 'm'"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_drawn(operator, more, says):
    with pytest.raises(attnspec.UsageError) as caught:
        cases(operator, **more)
    assert says in str(caught.value)


def test_the_block_of_the_page_finds_a_kernel_right_and_another_wrong():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    block = next(block for block in blocks if "attnspec.strategies" in block)

    def right(q, k, v, *, scale=None):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)

    def wrong(q, k, v, *, scale=None):
        return right(q, k, v, scale=scale if scale is None else 2 * scale)

    tests = []
    for kernel in (right, wrong):
        names = {"my_kernel": kernel}
        exec(block, names)
        tests.append(names["test_my_kernel"])
    tests[0]()
    with pytest.raises(AssertionError):
        tests[1]()


def test_the_strategies_are_found_by_their_public_name():
    assert cases is attnspec.strategies.cases
