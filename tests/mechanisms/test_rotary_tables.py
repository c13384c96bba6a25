"""Tables of cosines and sines: both witnesses against mpmath, those of models, and angles that lose their digits."""

import mpmath
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

WITNESSES = {
    "definition": lambda **values: Frame(library()["rotary_tables"], values).outputs(),
    "reference": reference.rotary_tables,
}
witnesses = pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
PAIRS = {"in_halves": [0, 1, 2, 0, 1, 2], "side_by_side": [0, 0, 1, 1, 2, 2], "of_pairs": [0, 1, 2]}


@witnesses
@pytest.mark.parametrize("position", [0, 1, -3, 2049, 999_999])
@pytest.mark.parametrize("columns", PAIRS)
def test_columns_have_the_angles_of_their_pairs(witness, columns, position):
    given = {"dim": 6, "base": 100.0, "factor": 4.0, "scaling": 1.5, "columns": columns}
    tables = witness(positions=np.array([[5, position]]), **given)
    with mpmath.workdps(40):
        angles = [position / mpmath.mpf(4) * mpmath.mpf(100) ** (mpmath.mpf(-i) / 3) for i in PAIRS[columns]]
        cosines, sines = ([float(1.5 * f(x)) for x in angles] for f in (mpmath.cos, mpmath.sin))
    assert pytest.approx(cosines, abs=1e-9) == tables["cosines"][0, 1].tolist()
    assert pytest.approx(sines, abs=1e-9) == tables["sines"][0, 1].tolist()


@pytest.mark.parametrize("wrong", [{"dim": 5}, {"dim": 0}, {"dim": 4, "base": 0.0}, {"dim": 4, "factor": 0.0}])
def test_the_reference_refuses_what_has_no_tables(wrong):
    with pytest.raises(ValueError, match="channels come in pairs"):
        reference.rotary_tables(np.array([[1]]), **wrong)


def failures(function, columns):
    one = subject(
        Adapter(
            "function", "rotary_tables", function, "torch", fixed={"columns": columns, "factor": 1.0, "scaling": 1.0}
        )
    )
    cells = run(Request(one, library()["rotary_tables"], "float32", PROFILES["smoke"])).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


@pytest.mark.parametrize(("model", "columns"), [("llama", "in_halves"), ("cohere", "side_by_side")])
def test_the_tables_of_models_are_right(model, columns):
    transformers = pytest.importorskip("transformers")
    modeling = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")

    def tables(positions, *, dim, base=10000.0):
        name = model.title()
        config = getattr(transformers, f"{name}Config")(
            hidden_size=dim,
            num_attention_heads=1,
            num_key_value_heads=1,
            rope_parameters={"rope_type": "default", "rope_theta": base},
        )
        return getattr(modeling, f"{name}RotaryEmbedding")(config)(torch.zeros(1), positions)

    assert set() == failures(tables, columns)


def in_halves(positions, dim, base, *, place=lambda x: x.float(), exponent=2, narrow=torch.float32):
    frequency = base ** (-exponent * torch.arange(dim // 2) / dim)
    angle = (place(positions)[..., None] * frequency).to(narrow).float()
    return torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()


WRONG = {
    "angles in bfloat16": {"narrow": torch.bfloat16},
    "positions in bfloat16": {"place": lambda x: x.bfloat16().float()},
    "positions in float16": {"place": lambda x: x.half().float().clamp(-65504, 65504)},
    "positions from one": {"place": lambda x: x + 1.0},
    "an exponent without the two": {"exponent": 1},
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_what_has_been_reported_is_found(changed):
    def tables(positions, *, dim, base=10000.0):
        return in_halves(positions, dim, base, **changed)

    assert "definition" in failures(tables, "in_halves")


def test_plain_tables_are_right():
    assert set() == failures(lambda positions, *, dim, base=10000.0: in_halves(positions, dim, base), "in_halves")
