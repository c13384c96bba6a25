"""What is known of one operator, or with one number, is tried where the same line is, and with other numbers."""

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.adapters.controls.decoder import control_decoder
from attnspec.cases.profiles import PROFILES
from attnspec.diagnosis.naming import diagnose
from attnspec.diagnosis.variants import from_elsewhere, is_foreign, varied
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.library import Library
from attnspec.mechanisms.loader import files_of, library, spec_folder
from attnspec.mechanisms.specfiles import SpecFile
from attnspec.subjects.targets import subject

pytestmark = pytest.mark.usefixtures("steady")


def named(function, operator, framework="numpy", times=1.0, **claims):
    one = subject(Adapter("kernel", operator, function, framework, **claims))
    result = run(Request(one, library()[operator], "float32", PROFILES["quick"], laws=frozenset({"definition"})))
    return diagnose(result.bench, next(cell.failure for cell in result.cells if cell.bad), 0, times=times).name


def lanes(x, weight, *, eps=1e-5):
    """The mean square of whole vectors of four."""
    n = x.shape[-1]
    whole = n // 4 * 4 if n >= 4 else n
    square = np.sum(x[..., :whole] ** 2, -1, keepdims=True) / n
    return x / np.sqrt(square + np.float32(eps)) * weight


def rows(x, weight, *, eps=1e-5):
    """For two axes alone: others are read row after row."""
    y = x.reshape(-1, x.shape[-1]) if x.ndim == 2 else x[..., ::-1]
    return y / np.sqrt(y.var(-1, keepdims=True) + np.float32(eps)) * weight


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lanes, "rms_norm.tail_lost with 4 for 16"),
        (rows, "rms_norm.variance_for_square where x has 2 axes"),
    ],
)
def test_a_mistake_is_named_with_what_is_other_about_it(function, name):
    assert name == named(function, "rms_norm")


def test_mistakes_of_other_operators_are_tried_where_their_lines_are():
    names = {candidate.name for candidate in varied(library()["packed_attention"])}
    assert "attention.cap_multiplies" in names
    assert not any(name.startswith("packed_attention.cap") for name in names)


def test_mistakes_of_some_names_are_found_elsewhere_and_no_other_mechanism_is_read_for_them():
    known = Library({path.stem: SpecFile(path) for path in files_of(spec_folder())})
    found = [candidate.name for candidate in from_elsewhere(known["packed_attention"], {"cap_multiplies"})]
    assert "attention.cap_multiplies" in found
    assert {name.rpartition(".")[2] for name in found} == {"cap_multiplies"}
    assert "rms_norm" not in known._read


def tiled(tokens, embedding, norm, wq, wk, wv, *weights, heads, kv_heads=None, eps=1e-5, base=1e4):
    """A language model whose query heads take turns over the heads of keys and values."""
    groups = heads if kv_heads is None else kv_heads
    wk, wv = (w.unflatten(-1, (groups, -1)).tile(1, 1, heads // groups, 1).flatten(2) for w in (wk, wv))
    return control_decoder(tokens, embedding, norm, wq, wk, wv, *weights, heads=heads, eps=eps, base=base)


def test_a_mistake_of_what_a_definition_calls_is_named():
    claims = {"dtypes": ("float32",), "conventions": {"pairing": "halves"}}
    assert "transformer_block.tiled_groups" == named(tiled, "decoder", "torch", times=4.0, **claims)


def test_variants_are_made_once():
    m = library()["rms_norm"]
    assert varied(m) is varied(m)


def test_what_is_neither_of_the_operator_nor_called_nor_differentiated_is_foreign():
    m = library()["speculative_sampling"]
    assert is_foreign(m, "residual_layer_norm.stream_of_first_row where a lens is given")
    assert not is_foreign(m, f"{m.name}.{next(iter(m.mistakes))}")
    assert not is_foreign(m, "residual: a -> b")
    assert not is_foreign(library()["transformer_block"], "attention.scale_missing")
    assert not is_foreign(library()["attention_gradient"], "attention.scale_missing")
