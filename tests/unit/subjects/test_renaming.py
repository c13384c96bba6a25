"""A parameter whose name means the same as that of an option is passed it; one that may mean several things is not."""

import pytest

import attnspec
from attnspec.errors import TargetError
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.stated import Line, stated
from attnspec.subjects.renaming import ALIKE, lacks, like, stated_for


def of(function, operator="attention", given=None):
    text = stated_for(function, library()[operator], given)
    return stated(text).parameters if text else {}


def test_names_that_mean_the_same_are_taken_for_options():
    def flash(q, k, v, is_causal=False, softmax_scale=None):
        """A kernel."""

    assert {"q": "q", "k": "k", "v": "v", "is_causal": "causal", "softmax_scale": "scale"} == of(flash)


def test_the_first_parameters_are_the_inputs_whatever_they_are_called():
    def flash(a, b, c, sm_scale=None):
        """A kernel."""

    assert {"a": "q", "b": "k", "c": "v", "sm_scale": "scale"} == of(flash)


def test_a_parameter_that_is_always_asked_for_is_passed_what_none_stands_for():
    def flash(q, k, v, causal, sm_scale):
        """A kernel."""

    assert "head_dim ** -0.5 if scale == none else scale" == of(flash)["sm_scale"]


def test_parameters_are_told_sizes_and_an_output_is_written():
    def solve(Q, K, V, output, M, N, d):
        """A kernel."""

    assert {"output": "{out: out}", "M": "q_len", "N": "k_len", "d": "head_dim"}.items() <= of(solve).items()


def test_one_length_of_a_function_is_that_of_queries_and_keys():
    def flash(q, k, v, batch_size, seq_len):
        """A kernel."""

    line = stated(stated_for(flash, library()["attention"]))
    assert ("batch", "q_len") == (line.parameters["batch_size"], line.parameters["seq_len"])
    assert ("k_len == q_len",) == line.requires


def test_what_has_to_hold_of_an_input_does_not_give_it():
    def loss(predictions, targets):
        """Of logarithms, and of probabilities."""

    def given(requires):
        line = Line("distillation_loss", {"targets": "exp(teacher)"}, requires=(requires,))
        return of(loss, "distillation_loss", line).get("predictions")

    assert "log_probs" == given("all(log_probs > -80)")
    assert given("all(log_probs == teacher)") is None


def test_a_mask_that_is_always_asked_for_is_an_array():
    def flash(q, k, v, mask):
        """A kernel."""

    assert "mask and full(true, 1, 1, q_len, k_len)" == of(flash)["mask"]


def test_a_function_that_is_called_like_its_operator_has_no_line():
    def flash(q, k, v, *, causal=False, scale=None):
        """A kernel."""

    assert {} == of(flash)


def test_a_line_speaks_of_some_parameters_and_the_others_follow_from_their_names():
    def flash(q, k, v, n_ctx, is_causal=False):
        """A kernel."""

    assert {"n_ctx": "q_len", "is_causal": "causal"}.items() <= of(
        flash, given=Line("attention", {"n_ctx": "q_len"})
    ).items()


@pytest.mark.parametrize(("name", "known", "own"), [("attn_mask", ("mask", "bias"), ""), ("key", ("q", "k"), "k")])
def test_a_name_of_several_meanings_is_taken_for_nothing(name, known, own):
    assert own == like(name, known)


def test_no_name_means_two_things():
    names = [name for alike in ALIKE for name in alike]
    assert len({*names}) == len(names)


def test_a_function_of_a_stated_interface_is_checked_by_it():
    import numpy as np

    def scaled(x, length, factor=1.0):
        assert length == x.shape[-1]
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    report = attnspec.check(
        scaled, like="softmax(length=n)", framework="numpy", profile="smoke", laws=("softmax.definition",)
    )
    assert {"scaled": "conformant"} == report.verdicts, report
    assert "scaled is treated as softmax: `length` for `n`" == str(report).splitlines()[0]


def test_a_parameter_in_the_place_of_an_array_that_is_there_by_its_name_is_not_that_array():
    def mamba_chunk_scan(hidden_states, dt, A, B, C, tile_size, D=None):
        return hidden_states

    with pytest.raises(TargetError, match=r"the parameter 'tile_size' is none of state_space; say what to pass"):
        attnspec.check(mamba_chunk_scan, framework="torch")


def test_a_dtype_that_is_asked_for_is_that_of_the_output():
    def in_a_dtype(q, k, v, dtype):
        """A kernel."""

    def of_codes(x, dtype=None):
        """A kernel."""

    def of_some_codes(x, dtype):
        """A kernel."""

    assert "dtype={dtype: out}" in stated_for(in_a_dtype, library()["attention"])
    assert "data_type={dtype: x}" in stated_for(lambda codes, scales, data_type: None, library()["dequantize_blocks"])
    assert "dtype={dtype" not in stated_for(of_some_codes, library()["quantize_blocks"])
    assert "dtype={dtype" not in stated_for(of_codes, library()["softmax"])


def test_a_device_that_is_asked_for_is_that_of_a_call():
    def slopes(heads, device):
        """A kernel."""

    def slopes_where_it_likes(heads, device=None):
        """A kernel."""

    assert "device={device: slopes}" in stated_for(slopes, library()["alibi_slopes"])
    assert "" == stated_for(slopes_where_it_likes, library()["alibi_slopes"])


def test_what_is_none_by_default_at_the_place_of_a_weight_may_be_it():
    norm, rotary = library()["rms_norm"], library()["rotary"]
    assert lacks(lambda x, eps=1e-6: x, norm, "weight", ())
    assert lacks(lambda x, *, g=None, eps=1e-6: x, norm, "weight", ())
    assert not lacks(lambda x, g=None, eps=1e-6: x, norm, "weight", ())
    assert not lacks(lambda x, g, eps=1e-6: x, norm, "weight", ())
    assert lacks(lambda x, g=None: x, norm, "weight", ("g",))
    assert lacks(lambda x, scaling=None: x, rotary, "positions", ()), "which are no numbers but places"


class Scalar:
    """A dtype of JAX, as a process tells it that has no JAX."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"<class 'jax.numpy.{self.name}'>"


@pytest.mark.parametrize(("name", "passed"), [("bfloat16", True), ("float16", True), ("float32", False)])
def test_a_narrow_dtype_by_default_is_replaced_by_that_of_the_call(name, passed):
    def attention(q, k, v, *, dtype=Scalar(name)):  # noqa: B008
        """A kernel."""

    assert ({"dtype": "{dtype: out}"} if passed else {}) == {n: x for n, x in of(attention).items() if n == "dtype"}
