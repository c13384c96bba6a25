"""Vectors of several calls: each relation between them is judged alike in every language."""

import json

import numpy as np
import pytest

from attnspec.vectors.index import as_text
from attnspec.vectors.tensors import encoded

from .test_vectors import IDENTITY, LANGUAGES, checker, ran, sources, verdicts

UP, DOWN = np.arange(1, 5, dtype=np.float32), np.arange(4, 0, -1, dtype=np.float32)
LOST = np.where(UP > 1, UP, np.nan).astype(np.float32)
BACK = np.arange(4)[::-1].copy()


def term(call, *, factor=1.0, factors=None, places=None, output="y"):
    return {"call": call, "output": output, "factor": factor, "factors": factors, "places": places}


def side(*terms, constant=None):
    return {"constant": constant, "terms": [*terms]}


FIRST, SECOND = side(term(0)), side(term(1))
ONLY_NAN = {"bound": np.where(np.isnan(LOST), np.nan, 0.0)}
RELATIONS = {
    "moved": ({"at": BACK}, "equal", SECOND, side(term(0, places="at")), (UP, DOWN), True),
    "not_moved": ({}, "equal", SECOND, FIRST, (UP, DOWN), False),
    "added": ({"five": np.full(4, 5.0)}, "equal", side(constant="five"), side(term(0), term(1)), (UP, DOWN), True),
    "twice": ({}, "equal", side(term(0), term(0)), side(term(1, factor=2.0)), (UP, UP), True),
    "factors": ({"f": DOWN / UP.astype(float)}, "equal", SECOND, side(term(0, factors="f")), (UP, DOWN), True),
    "bounded": ({"bound": np.array([3.0, 1, 1, 3])}, "equal", FIRST, SECOND, (UP, DOWN), True),
    "beyond": ({"bound": np.array([3.0, 1, 0.5, 3])}, "equal", FIRST, SECOND, (UP, DOWN), False),
    "open": ({"bound": np.full(4, np.inf)}, "equal", FIRST, SECOND, (UP, DOWN), True),
    "at_most": ({"most": UP.astype(float)}, "at_most", FIRST, side(constant="most"), (UP, UP), True),
    "above": ({}, "at_most", FIRST, SECOND, (UP, DOWN), False),
    "differ": ({}, "differ", FIRST, SECOND, (UP, DOWN), True),
    "same": ({"at": BACK}, "differ", FIRST, side(term(1, places="at")), (UP, DOWN), False),
    "none": (
        {"at": np.array([-1, 1, 2, 3]), "first": np.array([1.0, 0, 0, 0])},
        *("equal", FIRST, side(term(1, places="at"), constant="first"), (UP, UP), True),
    ),
    "both_nan": (ONLY_NAN, "equal", FIRST, SECOND, (LOST, LOST), True),
    "lost": ({}, "equal", FIRST, SECOND, (LOST, LOST), False),
    "numbers": (ONLY_NAN, "equal", FIRST, SECOND, (UP, UP), True),
    "number_and_nan": (ONLY_NAN, "equal", FIRST, SECOND, (LOST, UP), False),
    "further_output": ({}, "equal", side(term(0, output="z")), SECOND, (UP, UP), None),
}
"""Two calls of a kernel that returns what it is given: arrays, kind, sides, inputs, and whether the relation holds."""


@pytest.fixture(scope="module")
def related(tmp_path_factory):
    """A set by hand, of several calls each."""
    folder, tensors, relations = tmp_path_factory.mktemp("related"), {}, []
    for name, (arrays, kind, left, right, inputs, _) in RELATIONS.items():
        tensors |= {f"{name}/{key}": x for key, x in arrays.items()}
        tensors |= {f"{name}/{i}.x": x for i, x in enumerate(inputs)}
        shaped = {"dtype": "any", "shape": [4]}
        calls = [
            {"sizes": {"n": 4}, "options": {"word": "a b"}, "outputs": {"y": shaped, "z": shaped}}
            | {"inputs": {"x": {"tensor": f"{name}/{i}.x", "required": True}}}
            for i in range(2)
        ]
        relations.append(
            {"name": name, "mechanism": "identity", "dtype": "any", "law": "law", "case": name, "conventions": {}}
            | {"calls": calls, "kind": kind, "shape": [4], "refutes": {}}
            | {"left": named(left, name), "right": named(right, name)}
            | {"bound": f"{name}/bound" if "bound" in arrays else None}
        )
    stated = {"mechanism": "identity", "operator": "identity", "dtype": "any", "grade": "any", "mistakes": {}}
    index = {"format": 2, "mechanisms": [stated | {"file": "all.safetensors"}], "vectors": [], "relations": relations}
    (folder / "all.safetensors").write_bytes(encoded(tensors))
    (folder / "index.txt").write_text(as_text(index))
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def named(side, name):
    """A side whose arrays are called by what they belong to."""
    terms = [one | {key: one[key] and f"{name}/{one[key]}" for key in ("factors", "places")} for one in side["terms"]]
    return {"constant": side["constant"] and f"{name}/{side['constant']}", "terms": terms}


@pytest.mark.parametrize("language", LANGUAGES)
def test_results_of_several_calls_are_compared_alike_in_every_language(language, related, tmp_path):
    folder = sources(language, tmp_path / "identity")
    (folder / f"identity.{language}").write_text(IDENTITY[language])
    code, lines, errors = ran(folder, related, "identity")
    assert (1, "") == (code, errors)
    expected = {name: not holds for name, (*_, holds) in RELATIONS.items() if holds is not None}
    assert expected == {name: bad for name, (bad, _) in verdicts(lines).items()}
    two, three, half = ("2.000000e0", "3.000000e0", "5.00e-1") if language == "rs" else ("2", "3", "0.5")
    over = "2.000e0" if language == "rs" else "2"
    told = f"FAIL beyond law beyond: of 2 calls: one side[2] is {three}, the other {two}: {over} x the bound {half}"
    assert told in lines
    assert "FAIL same law same: of 2 calls: the results are the same" in lines
    assert "identity any: 6 of 17 vectors fail, 1 not taken" in lines


@pytest.mark.parametrize(
    ("excess", "known", "alike"),
    [
        (0.5, 0.0, True),
        (0.5, 1.5, True),
        (0.5, 1e3, False),
        (1e3, 0.0, False),
        (1e3, 900.0, True),
        (1e3, 300.0, False),
        (1.5, 2.5, True),
        (np.inf, np.inf, True),
        (np.inf, 1e9, False),
    ],
)
def test_an_error_is_alike_that_is_of_the_same_size(excess, known, alike):
    assert alike == checker().like(excess, known)
