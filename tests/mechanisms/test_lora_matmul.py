"""Low-rank adapters of the tokens of a batch: both witnesses, variants beside them, functions of interfaces."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import lora as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPERATOR = "lora_matmul"


def given(parts, slices=2, seed=3):
    rng = np.random.default_rng(seed)
    outs = 7 if slices > 1 else 5
    values = {
        "x": rng.normal(size=(6, 5)),
        "a": rng.normal(size=(3, slices, 4, 5)),
        "b": rng.normal(size=(3, outs, 4)),
        "adapter": np.array([2, -1, 0, 1, 0, 2]),
    }
    further = {"base": rng.normal(size=(6, outs)), "scales": np.array([0.5, 2.0, 3.0]), "ranks": np.array([2, 0, 4])}
    values |= {name: further[name] for name in parts}
    return values | ({"widths": [4, 3]} if slices > 1 else {})


def test_a_token_has_the_matrices_and_the_scale_of_its_adapter_and_one_without_none():
    x, adapter = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]), np.array([1, -1, 0])
    a, b = np.array([[[[1.0, 0.0]]], [[[0.0, 1.0]]]]), np.array([[[1.0]], [[10.0]]])
    found = reference.lora_matmul(x, a, b, adapter, np.array([[7.0], [7.0], [7.0]]), np.array([3.0, 5.0]))
    np.testing.assert_array_equal(found, [[7 + 5 * 10 * 2], [7], [7 + 3 * 1]])


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("parts", [(), ("base",), ("scales", "ranks"), ("base", "scales", "ranks")])
def test_definition_reference_and_variants_agree(parts, slices):
    values = given(parts, slices)
    expected = reference.lora_matmul(**values)
    np.testing.assert_allclose(np.asarray(Frame(library()[OPERATOR], values).outputs()["out"]), expected, atol=1e-12)
    arrays = {name: x if name == "widths" else torch.as_tensor(x) for name, x in values.items()}
    for variant in (controls.control_lora_by_tokens, controls.control_lora_by_segments):
        np.testing.assert_allclose(variant(**arrays), expected, atol=1e-5)
    np.testing.assert_allclose(controls.control_lora_merged(**values), expected, atol=1e-5)


def test_the_reference_refuses_slices_without_a_width():
    values = given(()) | {"widths": [7]}
    with pytest.raises(ValueError, match="every slice a width"):
        reference.lora_matmul(**values)


def adding(none):
    def add_lora(y, x, wa_t_all, wb_t_all, indicies, layer_idx, scale):
        if x.shape[1] != wa_t_all.shape[-1] or len(x) != len(indicies):
            raise ValueError("every token has an adapter and its channels")
        own, there = indicies.long(), (indicies >= 0)[:, None]
        low = torch.einsum("td,trd->tr", x.float(), wa_t_all[own, layer_idx].float())
        grown = scale * torch.einsum("tr,tor->to", low, wb_t_all[own, layer_idx].float())
        y += (grown if none else grown.where(there, 0)).to(y.dtype)

    return add_lora


def test_an_index_of_none_that_counts_from_the_end_is_found_and_named():
    def checked(none):
        return attnspec.check(adding(none), profile="smoke", dtypes=("float32",))

    assert checked(False).conformant
    wrong = checked(True)
    assert not wrong.conformant
    assert "none_is_the_last" in str(wrong)
