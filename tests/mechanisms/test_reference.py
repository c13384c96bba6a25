"""The definitions and the float64 reference, each against formulas evaluated with 50 digits or in closed form."""

import math

import numpy as np
import pytest
from mpmath import exp, inf, log, mp, mpf, tanh

from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.references import reference_outputs

WITNESSES = {
    "definition": lambda name, values: Frame(library()[name], values).outputs(),
    "reference": lambda name, values: reference_outputs(library()[name], values),
}
CLOSE = {"rtol": 1e-13, "atol": 1e-15}
ROWS = [
    [0.0],
    [0.0, 1.0, 2.0],
    [-1.5, 3.25, 0.125, 2.0, -7.0],
    [1000.0, 1000.5, 999.0],
    [-1000.0, -1000.5, -999.0],
    [60000.0, -60000.0],
    [1e-6, 0.0, -1e-6],
    [-math.inf, 0.5, -math.inf, 1.5],
]


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


def floats(x):
    return np.asarray(x, dtype=np.float64)


def exact_softmax(x):
    powers = [exp(mpf(entry)) for entry in x]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_softmax_is_the_share_of_the_exponentials(witness, row):
    x = np.array([row, row[::-1]])
    expected = [exact_softmax(row), exact_softmax(row[::-1])]
    np.testing.assert_allclose(WITNESSES[witness]("softmax", {"x": x})["p"], floats(expected), **CLOSE)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(("word", "share"), [("zeros", 0.0), ("nans", math.nan), ("mean_value", 0.25)])
def test_softmax_of_a_row_of_minus_infinities_is_what_the_convention_says(witness, word, share):
    x = np.array([[0.0, math.log(3), -math.inf, -math.inf], [-math.inf] * 4])
    found = WITNESSES[witness]("softmax", {"x": x, "empty_row": word})["p"]
    np.testing.assert_allclose(found, [[0.25, 0.75, 0, 0], [share] * 4], **CLOSE)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_logsumexp_is_the_logarithm_of_the_sum_of_exponentials(witness, row):
    scores, one = np.array(row), np.ones((1, 1, 1, 1))
    seen = np.isfinite(scores)
    k = np.where(seen, scores, 0.0).reshape(1, 1, -1, 1)
    values = {"q": one, "k": k, "v": np.ones_like(k), "bias": np.where(seen, 0.0, -math.inf)[None], "scale": 1.0}
    total = log(sum(exp(mpf(x)) for x in row))
    for word, expected in (("natural", total), ("two", total / log(2))):
        found = WITNESSES[witness]("attention", {**values, "lse_base": word})["lse"]
        np.testing.assert_allclose(found, float(expected), **CLOSE)


def exact_attention(q, k, v, *, scale=None, mask=None, bias=None, sink=None, softcap=None, sees=None, group=None):
    """Attention entry by entry, with 50 digits; `sees(i, j)` says which positions meet, `group(h)` which keys."""
    batch, heads, q_len, k_len = *q.shape[:3], k.shape[2]
    mask = np.broadcast_to(True if mask is None else mask, (batch, heads, q_len, k_len))
    bias = np.broadcast_to(0.0 if bias is None else bias, (batch, heads, q_len, k_len))
    out = np.zeros((*q.shape[:3], v.shape[3]))
    lse, weights = np.zeros(q.shape[:3]), np.zeros((batch, heads, q_len, k_len))
    for b, h, i in np.ndindex(*q.shape[:3]):
        g = h if group is None else group(h)
        powers = []
        for j in range(k_len):
            score = sum(mpf(x) * mpf(y) for x, y in zip(q[b, h, i], k[b, g, j], strict=True))
            score *= 1 / mp.sqrt(q.shape[3]) if scale is None else mpf(scale)
            score = score if softcap is None else softcap * tanh(score / softcap)
            score += mpf(bias[b, h, i, j])
            hidden = not mask[b, h, i, j] or not (sees is None or sees(i, j))
            powers.append(exp(-inf if hidden else score))
        total = sum(powers) + (0 if sink is None else exp(mpf(sink[h])))
        weights[b, h, i] = [power / total for power in powers] if total else 0.0
        lse[b, h, i] = log(total) if total else -math.inf
        for c in range(v.shape[3]):
            out[b, h, i, c] = (
                sum(p * mpf(x) for p, x in zip(powers, v[b, g, :, c], strict=True)) / total if total else 0
            )
    return {"out": out, "lse": lse, "weights": weights}


def waves(*shape, by):
    """Numbers without a pattern that a wrong index would keep."""
    return np.sin(by * (1 + np.arange(math.prod(shape)))).reshape(shape)


def inputs(*, q_len=3, k_len=4, heads=2, kv_heads=2, head_dim=3, value_dim=2):
    return {
        "q": 2 * waves(2, heads, q_len, head_dim, by=1.0),
        "k": 2 * waves(2, kv_heads, k_len, head_dim, by=1.7),
        "v": waves(2, kv_heads, k_len, value_dim, by=2.3),
    }


HIDING = np.where(waves(2, 3, 4, by=3.1) > 0.6, -math.inf, 0.0)[:, None]
MASK = waves(2, 2, 3, 4, by=0.7) > -0.3
OPTIONS = {
    "plain": {},
    "given_scale": {"scale": 0.3},
    "negative_scale": {"scale": -0.5},
    "zero_scale": {"scale": 0.0},
    "mask": {"mask": MASK},
    "mask_of_two_axes": {"mask": MASK[0, 1]},
    "mask_of_keys": {"mask": MASK[:, :1, :1]},
    "empty_mask": {"mask": np.array([True, False, True])[:, None] & MASK},
    "bias": {"bias": 3 * waves(2, 2, 3, 4, by=0.9)},
    "bias_of_two_axes": {"bias": 3 * waves(3, 4, by=0.9)},
    "hiding_bias": {"bias": HIDING},
    "bias_and_mask": {"bias": waves(1, 2, 3, 4, by=0.9), "mask": MASK},
    "softcap": {"softcap": 0.5},
    "softcap_and_bias": {"softcap": 2.0, "bias": waves(3, 4, by=0.9), "scale": 2.0},
    "sink": {"sink": np.array([0.5, -2.0])},
    "sink_and_mask": {"sink": np.array([0.5, -2.0]), "mask": MASK},
}


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("options", OPTIONS)
def test_attention_is_the_average_by_the_softmax_of_the_scores(witness, options):
    values = {**inputs(), **OPTIONS[options]}
    found, expected = WITNESSES[witness]("attention", values), exact_attention(**values)
    for output in ("out", "weights") if "sink" in values else ("out", "weights", "lse"):
        np.testing.assert_allclose(found[output], expected[output], **CLOSE)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("alignment", ["bottom_right", "top_left"])
@pytest.mark.parametrize(("q_len", "k_len"), [(4, 4), (2, 5), (5, 2), (1, 4)])
@pytest.mark.parametrize(
    "options", [(True, None, None), (False, 1, 0), (False, 0, 1), (True, 2, None), (True, 1, 2)], ids=str
)
def test_a_query_sees_what_its_position_the_flag_and_the_window_allow(witness, alignment, q_len, k_len, options):
    causal, left, right = options
    shift = k_len - q_len if alignment == "bottom_right" else 0

    def sees(i, j):
        distance = j - (i + shift)  # how far the key lies after the query
        return not (
            (causal and distance > 0)
            or (left is not None and distance < -left)
            or (right is not None and distance > right)
        )

    values = inputs(q_len=q_len, k_len=k_len)
    given = {"causal": causal, "window_left": left, "window_right": right, "causal_alignment": alignment}
    found, expected = WITNESSES[witness]("attention", {**values, **given}), exact_attention(**values, sees=sees)
    for output in ("out", "lse", "weights"):
        np.testing.assert_allclose(found[output], expected[output], **CLOSE)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(("word", "group"), [("block", lambda h, kv: h // (6 // kv)), ("tiled", lambda h, kv: h % kv)])
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_heads_share_keys_and_values_by_their_grouping(witness, word, group, kv_heads):
    values = inputs(heads=6, kv_heads=kv_heads)
    found = WITNESSES[witness]("attention", {**values, "grouping": word})
    expected = exact_attention(**values, group=lambda h: group(h, kv_heads))
    for output in ("out", "lse", "weights"):
        np.testing.assert_allclose(found[output], expected[output], **CLOSE)


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("how", ["mask", "bias"])
@pytest.mark.parametrize("meaning", ["zero", "nan", "mean"])
def test_a_query_that_sees_nothing_has_what_the_convention_says(witness, how, meaning):
    values = inputs()
    open_ = np.array([True, False, True])[:, None] & np.ones(4, bool)
    values |= {"mask": open_} if how == "mask" else {"bias": np.where(open_, 0.0, -math.inf)}
    word = {"mask": {"empty_row": {"zero": "zeros", "nan": "nans", "mean": "mean_value"}[meaning]}}
    word["bias"] = {"empty_bias_row": f"{meaning}_row"}
    found = WITNESSES[witness]("attention", {**values, **word[how]})["out"]
    nothing = {"zero": 0.0, "nan": math.nan, "mean": values["v"].mean(-2)}[meaning]
    np.testing.assert_allclose(found[:, :, 1], np.broadcast_to(nothing, (2, 2, 2)), **CLOSE)
    np.testing.assert_allclose(found[:, :, ::2], exact_attention(**inputs())["out"][:, :, ::2], **CLOSE)


def published(n):
    """`get_slopes` of https://github.com/ofirpress/attention_with_linear_biases, as it is printed there."""

    def of_a_power_of_two(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return of_a_power_of_two(n)
    closest = 2 ** math.floor(math.log2(n))
    return of_a_power_of_two(closest) + published(2 * closest)[0::2][: n - closest]


@pytest.mark.parametrize("witness", WITNESSES)
def test_the_slopes_of_every_number_of_heads_are_the_published_ones(witness):
    for heads in range(1, 129):
        found = WITNESSES[witness]("alibi_slopes", {"heads": heads})["slopes"]
        np.testing.assert_allclose(found, published(heads), rtol=1e-13, err_msg=f"{heads} heads")


@pytest.mark.parametrize("witness", WITNESSES)
def test_by_the_other_convention_the_slopes_are_one_geometric_sequence(witness):
    for heads in range(1, 129):
        found = WITNESSES[witness]("alibi_slopes", {"heads": heads, "slopes": "geometric"})["slopes"]
        expected = [mpf(2) ** (-mpf(8) * h / heads) for h in range(1, heads + 1)]
        np.testing.assert_allclose(found, floats(expected), rtol=1e-13, err_msg=f"{heads} heads")


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize(("heads", "q_len", "k_len"), [(1, 1, 1), (2, 3, 3), (3, 2, 5), (12, 1, 7)])
def test_the_bias_falls_with_the_distance_from_the_last_key_of_the_last_query(witness, heads, q_len, k_len):
    distance = [[abs((k_len - 1 - j) - (q_len - 1 - i)) for j in range(k_len)] for i in range(q_len)]
    expected = -np.array(published(heads))[:, None, None] * np.array(distance)
    found = WITNESSES[witness]("alibi_bias", {"heads": heads, "q_len": q_len, "k_len": k_len})["bias"]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
