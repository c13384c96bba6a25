"""Which parameter may hold which weight, from names and shapes alone."""

import pytest

from attnspec.errors import UsageError
from attnspec.execution.survey import Survey, Weight
from attnspec.subjects.proposals import candidates, guessed_by_order, roles

SELF = (("x", True),)


def survey(*weights, uses=("width", "heads"), takes=SELF):
    return Survey("mine.Attention(dim, heads)", uses, tuple(Weight(*one) for one in weights), takes, "torch")


def separate(*names, holder="Linear"):
    return [(f"{name}.weight", (60, 60), holder) for name in names]


def test_separate_matrices_of_linear_layers_are_transposed():
    first, second = candidates("multi_head", survey(*separate("q_proj", "k_proj", "v_proj", "out_proj")))
    expected = {f"w{x}": f"{x}_proj.weight.T" for x in "qkv"} | {"wo": "out_proj.weight.T"}
    assert expected == first.weights == second.weights
    assert [{"causal": "True"}, {}] == [first.fixed, second.fixed]
    assert "lambda *, dim, heads: mine.Attention(dim, heads)" == first.factory


def test_a_fused_matrix_and_its_bias_are_split_alike_and_thirds_come_first():
    found = candidates(
        "multi_head", survey(("qkv.weight", (180, 60), "Linear"), ("qkv.bias", (180,), "Linear"), *separate("proj"))
    )
    pairs = [(one.weights["wk"], one.weights["bk"]) for one in found if one.fixed]
    assert [
        ("qkv.weight[1/3].T", "qkv.bias[1/3]"),
        ("qkv.weight | (heads 3 d) dim -> 3 dim (heads d) [1]", "qkv.bias | (heads 3 d) -> 3 (heads d) [1]"),
        ("qkv.weight | (heads d 3) dim -> 3 dim (heads d) [1]", "qkv.bias | (heads d 3) -> 3 (heads d) [1]"),
    ] == pairs


def test_fewer_heads_of_keys_in_one_matrix_are_slices():
    one, *_ = candidates(
        "multi_head",
        survey(("qkv.weight", (100, 60), "Linear"), *separate("o_proj"), uses=("width", "heads", "kv_heads")),
    )
    assert ["[:width].T", "[width:width + kv_width].T", "[width + kv_width:].T"] == [
        one.weights[name].removeprefix("qkv.weight") for name in ("wq", "wk", "wv")
    ]
    assert "lambda *, dim, heads, kv_heads=None: mine.Attention(dim, heads)" == one.factory


def test_axes_of_heads_are_told_by_their_lengths():
    raw = [(name, (60, 6, 10), "Attention") for name in ("wq", "wk", "wv")] + [("wo", (6, 10, 60), "Attention")]
    one, *_ = candidates("multi_head", survey(*raw))
    assert ("wq | dim heads d -> dim (heads d)", "wo | heads d dim -> (heads d) dim") == (
        one.weights["wq"],
        one.weights["wo"],
    )


def test_names_that_say_nothing_are_taken_in_their_order_and_that_is_told():
    unnamed = survey(*separate("a", "b", "c", "d"))
    one, *_ = candidates("multi_head", unnamed)
    assert {"wq": "a.weight.T", "wk": "b.weight.T", "wv": "c.weight.T", "wo": "d.weight.T"} == one.weights
    assert guessed_by_order("multi_head", unnamed)
    assert not guessed_by_order("multi_head", survey(*separate("wq", "wk", "wv", "wo")))


@pytest.mark.parametrize(
    ("weights", "takes", "says"),
    [
        (separate("wq", "wk", "wo"), SELF, "no parameter is known to hold wv of multi_head"),
        (separate("wq", "wk", "wv", "wo", "gamma"), SELF, "unknown parameter gamma.weight [60, 60]"),
        ([("wq", (7, 60), "Linear")], SELF, "wq [7, 60] seems to be q, but does not have its shape"),
        (separate("wq", "query", "wv", "wo"), SELF, "query.weight and wq.weight are both taken for wq"),
        (separate("wq", "wk", "wv", "wo"), [(c, True) for c in "xyzt"], "the call takes x, y, z, t, of which"),
    ],
)
def test_what_cannot_be_proposed_is_told(weights, takes, says):
    with pytest.raises(UsageError) as error:
        candidates("multi_head", survey(*weights, takes=tuple(takes)))
    assert str(error.value).startswith(says)
    with pytest.raises(
        UsageError, match=r"^no mapping is proposed for softmax \(but for multi_head, rotary_self_attention, swiglu"
    ):
        roles("softmax")


def test_an_epsilon_that_the_constructor_does_not_take_is_tried_in_three_sizes():
    found = candidates("rms_norm", survey(("weight", (60,), "Norm"), uses=("width",)))
    assert [{"eps": "1e-05"}, {"eps": "1e-06"}, {"eps": "1e-08"}] == [one.fixed for one in found]
