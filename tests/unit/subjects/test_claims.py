"""What an implementation claims: its declaration, read together with the signature of its function."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.errors import Exit, TargetError, UsageError
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import BF16, FP16, FP32, FP64, TF32
from attnspec.subjects.claims import Claims, claims_of
from attnspec.subjects.subject import AdapterSubject
from attnspec.subjects.targets import undecorated

ATTENTION = library()["attention"]


def claims(function, mechanism="attention", *, declared=True, **declaration):
    return claims_of(Adapter("mine", mechanism, function, "numpy", **declaration), library()[mechanism], declared)


def plain(q, k, v): ...


def refusal(function=plain, mechanism="attention", **declaration):
    with pytest.raises((TargetError, UsageError)) as caught:
        claims(function, mechanism, **declaration)
    return str(caught.value)


def test_a_function_claims_the_optional_inputs_and_options_of_its_signature():
    def mine(q, k, v, *, mask=None, causal=False, scale=None): ...

    assert frozenset({"mask", "causal", "scale"}) == claims(mine).names


def test_inputs_are_bound_by_position_whatever_they_are_called():
    def mine(query, keys, values, /, mask=None): ...

    assert frozenset({"mask"}) == claims(mine).names
    assert () == claims(mine).unknown


def test_further_positional_parameters_are_claimed_by_name():
    def mine(q, k, v, bias, causal=False): ...

    assert frozenset({"bias", "causal"}) == claims(mine).names


def test_a_parameter_that_means_nothing_is_noted_where_it_has_a_default():
    def mine(q, k, v, *, block_size=64, causal=False): ...

    assert (("block_size",), frozenset({"causal"})) == (claims(mine).unknown, claims(mine).names)


@pytest.mark.parametrize(
    ("function", "name", "hint"),
    [
        (lambda q, k, v, *, casual: None, "casual", "; did you mean 'causal'?"),
        (lambda q, k, v, block_size: None, "block_size", ""),
        (lambda q, k, v, softcapp, *, mask=None: None, "softcapp", "; did you mean 'softcap'?"),
    ],
)
def test_a_parameter_that_means_nothing_and_must_be_passed_is_refused(function, name, hint):
    assert f"mine: the parameter {name!r} is not an input or option of attention{hint}" == refusal(function)


def test_too_few_inputs_are_refused():
    def mine(q, k): ...

    assert "mine: attention passes 3 inputs by position (q, k, v)" == refusal(mine)
    with pytest.raises(TargetError) as caught:
        claims(mine)
    assert Exit.NOT_LOADED == caught.value.exit


def test_any_number_of_inputs_is_enough():
    def mine(*inputs, causal=False, **further): ...

    assert (frozenset({"causal"}), ("**further",)) == (claims(mine).names, claims(mine).unknown)


def test_what_takes_anything_beside_the_inputs_is_noted():
    def mine(q, k, v, *more, causal=False, **further): ...

    assert (frozenset({"causal"}), ("*more", "**further")) == (claims(mine).names, claims(mine).unknown)


def test_an_operator_without_inputs_takes_options_alone():
    def mine(heads): ...

    assert frozenset({"heads"}) == claims(mine, "alibi_slopes").names


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (
            {"conventions": {"groupings": "block"}},
            "mine: unknown convention 'groupings'; did you mean 'grouping'?",
        ),
        (
            {"conventions": {"grouping": "blocks"}},
            "mine: grouping is one of block, tiled, not 'blocks'; did you mean 'block'?",
        ),
        (
            {"dtypes": ("float32", "float8")},
            "mine: unknown dtype 'float8'; did you mean 'float64'? (dtypes: float64, float32, bfloat16, float16)",
        ),
        (
            {"limits": {"head_dims": (8,)}},
            "mine: limits and fixed take sizes and options, not 'head_dims'; did you mean 'head_dim'?",
        ),
        ({"limits": {"mask": (1,)}}, "mine: limits and fixed take sizes and options, not 'mask'"),
        (
            {"fixed": {"casual": True}},
            "mine: limits and fixed take sizes and options, not 'casual'; did you mean 'causal'?",
        ),
        ({"grade": "fp33"}, "mine: unknown grade 'fp33'; did you mean 'fp32'?"),
    ],
)
def test_a_declaration_that_means_nothing_is_bad_usage(declaration, message):
    found = refusal(**declaration)
    assert found.startswith(message)
    assert "(grades: " in found or found == message


def test_limits_may_speak_of_a_size_of_a_further_mechanism():
    assert {"group": (4,)} == claims(plain, limits={"group": (4,)}).limits


def test_a_limit_of_one_value_is_that_value():
    limits = claims(plain, limits={"head_dim": 64, "q_len": range(1, 4), "heads": [2, 4]}).limits
    assert {"head_dim": (64,), "q_len": range(1, 4), "heads": [2, 4]} == limits


def test_a_fixed_size_is_a_limit_of_one_value():
    found = claims(plain, limits={"q_len": (1, 2)}, fixed={"head_dim": 64, "causal": True})
    assert ({"q_len": (1, 2), "head_dim": (64,)}, {"causal": True}) == (found.limits, found.fixed)


def test_a_fixed_option_is_given_by_its_word_or_as_it_is_passed():
    def router(logits, *, k): ...

    for said in ("sigmoid", "sigmoid_scores"):
        assert {"scoring": "sigmoid_scores"} == claims(router, "moe_routing", fixed={"scoring": said}).fixed
    says = "mine: fixed says scoring = 'sigmoids', which is one of softmax, sigmoid; did you mean 'sigmoid'?"
    assert says == refusal(router, "moe_routing", fixed={"scoring": "sigmoids"})


def test_what_is_declared_is_claimed():
    words = {"grouping": "tiled"}
    found = claims(
        plain, conventions=words, fixed={"causal": True}, dtypes=("float16",), deterministic=True, compiled=True
    )
    assert (words, {"causal": True}, ("float16",), True, True, True) == (
        found.conventions,
        found.fixed,
        found.dtypes,
        found.deterministic,
        found.compiled,
        found.declared,
    )
    assert False is claims(plain, declared=False).declared


@pytest.mark.parametrize(
    ("framework", "declared", "compiles", "expected"),
    [
        ("numpy", None, False, (False, False)),
        ("jax", None, False, (True, True)),
        ("jax", False, False, (False, False)),
        ("torch", None, True, (True, True)),
        ("torch", True, False, (True, False)),
    ],
)
def test_what_a_framework_compiles_for_every_shape_is_taken_to_compile(framework, declared, compiles, expected):
    adapter = Adapter("mine", "attention", plain, framework, compiled=declared, compiles=compiles)
    found = claims_of(adapter, ATTENTION, declared=False)
    assert expected == (found.compiled, found.sparing)


def test_what_comes_with_attnspec_says_itself_what_it_compiles():
    def shipped(q, k, v): ...

    shipped.__module__ = "attnspec.adapters.jax.attention"
    assert not claims_of(Adapter("theirs", "attention", shipped, "jax"), ATTENTION, declared=True).compiled


@pytest.mark.parametrize(
    ("grade", "dtype", "expected"),
    [
        (None, "float64", FP64),
        (None, "float32", FP32),
        (None, "bfloat16", BF16),
        (None, "float16", FP16),
        ("tf32", "float32", TF32),
        ({"float32": "tf32"}, "float32", TF32),
        ({"float32": "tf32"}, "float16", FP16),
    ],
)
def test_a_grade_is_claimed_for_all_dtypes_or_by_dtype(grade, dtype, expected):
    assert expected is claims(plain, grade=grade, dtypes=("float32", dtype)).grade(dtype)


def test_an_option_that_means_something_else_when_left_out_is_always_passed():
    def mine(q, k, v, *, mask, causal=True, scale=None, softcap=0.0): ...

    assert frozenset({"mask", "causal"}) == claims(mine).always


def test_an_option_of_a_further_mechanism_is_passed_where_the_function_has_a_default_of_its_own():
    def mine(
        x, chosen, weights, w_gate, w_up, w_down, *, b_gate=None, b_up=None, b_down=None, limit=None, beta=1.0
    ): ...

    assert frozenset({"beta"}) == claims(mine, "routed_experts").always


def test_a_number_that_a_function_has_for_none_may_be_one_of_its_own():
    def mine(x, weight, *, eps=None): ...

    def limited(x, chosen, weights, w_gate, w_up, w_down, *, limit=None): ...

    assert frozenset({"eps"}) == claims(mine, "rms_norm").always
    assert frozenset() == claims(limited, "routed_experts").always


def test_a_flag_with_the_default_of_the_operator_is_not_passed():
    def mine(q, k, v, *, causal=False): ...

    assert frozenset() == claims(mine).always


def test_claims_that_draw_the_same_cases_have_one_key():
    base = {"names": frozenset({"causal"}), "dtypes": ("float32",)}
    first = Claims(**base, limits={"q_len": (1, 2), "k_len": range(1, 3)}, fixed={"causal": True})
    same = Claims(**base, limits={"k_len": (1, 2), "q_len": [1, 2]}, fixed={"causal": True}, deterministic=True)
    assert first.key == same.key
    assert hash(first.key) == hash(same.key)


@pytest.mark.parametrize(
    "other",
    [
        {"names": frozenset({"mask"})},
        {"limits": {"q_len": (1,)}},
        {"fixed": {"causal": True}},
        {"compiled": True},
    ],
)
def test_claims_that_draw_other_cases_have_other_keys(other):
    base = {"names": frozenset({"causal"}), "dtypes": ("float32",)}
    assert Claims(**base).key != Claims(**{**base, **other}).key


def test_conditions_on_calls_are_expressions_of_the_language():
    found = claims(plain, requires=("value_dim == head_dim", "not causal or single(mask)"))
    assert ["value_dim == head_dim", "not causal or single(mask)"] == [c.text for c in found.requires]
    assert ["q_len > 1"] == [c.text for c in claims(plain, requires="q_len > 1").requires]


@pytest.mark.parametrize(
    ("requires", "says"),
    [
        ("head_dims == 8", "mine: requires: unknown name 'head_dims'; did you mean 'head_dim'?"),
        ("head_dim ==", "mine: requires: not an expression"),
        ((lambda n: n,), "mine: requires takes conditions as text, not <function"),
    ],
)
def test_a_condition_that_is_none_is_refused(requires, says):
    assert refusal(requires=requires).startswith(says)


def test_what_a_further_mechanism_adds_is_claimed_as_well():
    def mine(q, k, v, *, k_scale, v_scale=None): ...

    found = claims(mine)
    assert (frozenset({"k_scale", "v_scale"}), ()) == (found.names, found.unknown)
    assert frozenset({"k_scale"}) == found.always


def test_a_condition_may_be_about_what_a_further_mechanism_adds():
    def mine(q, k, v, *, k_scale=None, v_scale=None): ...

    (condition,) = claims(mine, requires="size(k_scale) == 1 and kv_dtype == int8").requires
    assert frozenset({"k_scale", "kv_dtype"}) == condition.uses


def test_what_is_declared_takes_inputs_by_their_places_whatever_its_names_say():
    def ssd(x, a, b, c, block_len): ...

    assert claims(ssd, "state_space").declared, "who declares it says so"


def test_what_has_a_number_or_a_flag_by_default_is_no_input_of_a_plain_function():
    def attend(scores, gate=None, first=True): ...

    assert "the parameter 'first' is not an input or option of attention" in refusal(attend, declared=False)
    says = refusal(lambda scores, gate, softcap=1.0: scores, declared=False)
    assert "the parameter 'softcap', 1.0 by default, is at the place of v" in says
    assert claims(attend).declared
    assert not claims(lambda a, b=None, c=None: a, declared=False).declared, "which may be arrays"


def test_an_array_by_default_is_compared_with_nothing():
    zeros = np.zeros(3)
    with pytest.raises(TargetError, match="the parameter 'other' is not an input or option of attention"):
        claims(lambda q, other=zeros, v=None: q, declared=False)


def normed(x, eps=1e-6):
    """A kernel."""


def test_an_input_that_is_one_number_by_an_interface_is_that_in_every_case():
    like = "rms_norm(x=x, eps=eps) requires(all(weight == 1))"
    adapter = undecorated(normed, "normed", operator="rms_norm", framework="numpy", like=like)
    found = AdapterSubject(adapter, library()["rms_norm"], declared=False).claims
    assert {"weight": 1.0} == found.filled
    planned = plan(library()["rms_norm"], found, PROFILES["smoke"], 0, "float32")
    weights = [sample.values["weight"] for block in planned.blocks() for sample in block]
    assert len(weights) > 4
    assert all((weight == 1).all() for weight in weights)
