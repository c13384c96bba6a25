"""A looser grade explains what it could have refuted, and nothing else."""

from importlib import import_module

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.numerics.formats import FLOAT16, rounded
from attnspec.subjects.targets import subject

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
