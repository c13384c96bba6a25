"""What to do about a failure."""

import pytest

from attnspec.reporting.advice import advice

from .test_blocks import CELL, LIKENESS, WITNESS

NANS = [{"name": "empty_row = nans", "says": "It returns NaN."}]
TOP_LEFT = [{"name": "causal_alignment = top_left", "says": "The first query sees the first key."}]


@pytest.mark.parametrize(
    ("witness", "cell", "says"),
    [
        ({}, {}, "attnspec explain softmax.ratio"),
        ({}, {"law": "contract.dtype"}, "attnspec explain contract.dtype"),
        (
            {},
            {"law": "contract.precision"},
            "if it is right in every law: if intended, declare the grade; if not, look",
        ),
        ({"elsewhere": []}, {"law": "contract.precision"}, "right in every law: if intended, declare the grade; if"),
        (
            {"elsewhere": []},
            {"law": "contract.precision", "says": "behaves as tf32, claims fp32"},
            "right in every law: if intended, declare the grade; if not, ask for products in full precision",
        ),
        (
            {"elsewhere": [], "likeness": LIKENESS},
            {"law": "contract.precision", "says": "behaves as tf32, claims fp32"},
            "right in every law: if intended, declare the grade; if not, fix that",
        ),
        (
            {"elsewhere": ["attention.definition in float32", "attention.causal in float32"]},
            {"law": "contract.precision"},
            "fix attention.definition in float32 and 1 more first: this may follow from it",
        ),
        (
            {"elsewhere": [], "unusual": {"causal": True}},
            {"law": "serving.long", "says": "behaves as bf16_naive, claims bf16: out[0] is 1"},
            "it would pass as bf16_naive: right in every law: if intended, declare the grade; if",
        ),
        (
            {},
            {"verdict": "error", "says": "RuntimeError: 0 active drivers ([])."},
            "Triton finds no device here: TRITON_",
        ),
        ({}, {"verdict": "error"}, "if it is not supported, raise attnspec.Unsupported or declare limits; otherwise"),
        ({"unusual": {"scale": 0.5}}, {}, "if scale = 0.5 is not supported, raise attnspec.Unsupported or remove the"),
        (
            {"likeness": {**LIKENESS, "causes": NANS, "convention": "empty_row", "word": "nans"}},
            {},
            "if intended, declare conventions={'empty_row': 'nans'}; if not, fix it",
        ),
        (
            {
                "likeness": {
                    **LIKENESS,
                    "causes": [*LIKENESS["causes"], *NANS],
                    "convention": "empty_row",
                    "word": "nans",
                }
            },
            {},
            "fix softmax.base_two; if empty_row = nans is intended, declare conventions={'empty_row': 'nans'}",
        ),
        (
            {"likeness": {**LIKENESS, "causes": [*TOP_LEFT, *NANS], "convention": "empty_row", "word": "nans"}},
            {},
            "if both are intended, declare conventions={'causal_alignment': 'top_left', 'empty_row': 'nans'}; if",
        ),
        (
            {"fixed": {"option": "causal", "value": True}, "likeness": LIKENESS},
            {"operator": "attention"},
            "if causal = True is meant in every call, declare it: --like 'attention() fixed(causal=true)', or "
            "fixed={'causal': True} in @adapter; otherwise fix it",
        ),
        (
            {
                "fixed": {"option": "causal", "value": True},
                "likeness": {**LIKENESS, "causes": 2 * LIKENESS["causes"], "convention": "empty_row", "word": "nans"},
            },
            {"operator": "attention"},
            "if causal = True is meant in every call, declare it: --like 'attention() fixed(causal=true)', or "
            "fixed={'causal': True} in @adapter; otherwise fix it",
        ),
        (
            {"fixed": {"option": "reduction", "value": "summed"}},
            {"operator": "cross_entropy"},
            "if reduction = summed is meant in every call, declare it: --like 'cross_entropy() "
            "fixed(reduction=summed)', or fixed={'reduction': 'summed'} in @adapter; otherwise fix it",
        ),
    ],
)
def test_the_innocent_reading_comes_with_what_to_do(witness, cell, says):
    assert advice({**WITNESS, **witness}, {**CELL, **cell}).startswith(says)
