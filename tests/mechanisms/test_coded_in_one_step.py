"""Codes of normalised rows and of gated activations: definitions against exact formats, and scales off by little."""

import ml_dtypes
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

RNG = np.random.default_rng(5)
X, STREAM, WEIGHT = RNG.normal(size=(3, 8)), RNG.normal(size=(3, 8)), RNG.normal(size=8)
WORDS = {"int8": "i8", "float8_e4m3fn": "e4m3"}


def normalised():
    r = X + STREAM
    return r / np.sqrt((r * r).mean(1, keepdims=True) + 0.001) * WEIGHT


def activated():
    gate, up = np.minimum(2 * X, 1.5), np.clip(2 * STREAM, -1.5, 1.5)
    return gate / (1 + np.exp(-1.702 * gate)) * (up + 1)


CASES = {
    "normed_blocks": ({"x": X, "residual": STREAM, "weight": WEIGHT}, {"eps": 0.001}, normalised),
    "activated_blocks": (
        {"x": np.concatenate([2 * X, 2 * STREAM], 1)},
        {"alpha": 1.702, "beta": 1.0, "limit": 1.5},
        activated,
    ),
}
SCALES = [
    ({"group_size": 4}, lambda peak, top: peak / top),
    ({"group_size": None}, lambda peak, top: peak / top),
    ({"group_size": 4, "power_of_two": True}, lambda peak, top: 2.0 ** np.ceil(np.log2(peak / top))),
    ({"group_size": 4, "least_scale": 0.011}, lambda peak, top: np.maximum(peak / top, 0.011)),
    ({"static_scale": np.array([0.0037])}, lambda peak, top: 0 * peak + 0.0037),
]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize(("options", "scaled"), SCALES, ids=["groups", "rows", "powers", "least", "given"])
def test_codes_are_those_of_what_is_computed_over_its_scale(name, dtype, options, scaled):
    inputs, own, computed = CASES[name]
    groups = computed().reshape(3, -1, options.get("group_size") or 8)
    top = 127 if dtype == "int8" else 448
    scale = scaled(np.abs(groups).max(2), top)
    ratio = np.clip(groups / scale[..., None], -top, top).reshape(3, 8)
    codes = np.rint(ratio) if dtype == "int8" else ratio.astype(ml_dtypes.float8_e4m3fn).astype(float)
    defined = Frame(library()[name], {**inputs, **own, **options, "code_dtype": WORDS[dtype]}).outputs()
    referred = getattr(reference, name)(**inputs, **own, **options, code_dtype=dtype)
    for given in (defined, referred):
        assert codes.tolist() == given["codes"].tolist()
        np.testing.assert_allclose(scale, given["scale"], rtol=1e-14)


def kernel(factor):
    """Rows that are normalised and made codes of in float8, by scales that are read with a factor."""

    def normed_blocks(x, weight, *, eps=1e-5):
        y = x.float() * torch.rsqrt((x.float() ** 2).mean(1, keepdim=True) + eps) * weight.float()
        scale = y.abs().amax(1, keepdim=True) / 448
        scale = torch.where(scale > 0, scale, 1.0)
        return {"codes": (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn), "scale": scale * factor}

    return normed_blocks


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("factor", "broken"), [(1.0, False), (65 / 64, True), (63 / 64, True)])
def test_a_scale_that_is_off_by_one_part_in_64_is_refuted(dtype, factor, broken):
    fixed = {"code_dtype": "e4m3", "group_size": None, "power_of_two": False, "least_scale": 0.0}
    one = Adapter("function", "normed_blocks", kernel(factor), "torch", dtypes=(dtype,), fixed=fixed)
    cells = run(Request(subject(one), library()["normed_blocks"], dtype, PROFILES["smoke"])).cells
    assert broken == any(cell.bad and cell.level == "must" for cell in cells)
