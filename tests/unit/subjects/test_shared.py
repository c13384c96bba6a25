"""What two implementations claim together, and what one of them lacks."""

from __future__ import annotations

from typing import Any

import pytest

from attnspec.cases.applicability import pins
from attnspec.errors import UsageError
from attnspec.mechanisms.loader import mechanism_named
from attnspec.subjects.claims import Claims
from attnspec.subjects.shared import lacking, together

ATTENTION = mechanism_named("attention")


def claims(*names: str, **more: Any) -> Claims:
    return Claims(frozenset(names), more.pop("dtypes", ("float32",)), **more)


def test_what_one_lacks_is_at_its_default_for_both():
    own = together(claims("causal", "softcap", "mask"), claims("causal"), ATTENTION)
    assert [None, None] == [pins(ATTENTION, each)["softcap"] for each in own]
    assert [True, True] == [pins(ATTENTION, each)["mask"] for each in own]
    assert ["causal" in pins(ATTENTION, each) for each in own] == [False, False]


def test_what_one_has_fixed_has_that_value_for_both():
    own = together(claims("causal"), claims("causal", fixed={"causal": True}), ATTENTION)
    assert [True, True] == [pins(ATTENTION, each)["causal"] for each in own]


def test_both_meet_the_same_cases():
    own = together(
        claims("causal", limits={"head_dim": (4, 8)}), claims(limits={"head_dim": range(8, 65, 8)}), ATTENTION
    )
    assert pins(ATTENTION, own[0]) == pins(ATTENTION, own[1])
    assert own[0].bounds == own[1].bounds
    assert (8,) == own[0].limits["head_dim"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            claims(fixed={"causal": True}),
            claims(fixed={"causal": False}),
            "causal is True in one, and False in the other",
        ),
        (claims(fixed={"causal": True}), claims(), "causal is True in one, and False in the other"),
        (claims(limits={"head_dim": (4,)}), claims(limits={"head_dim": (8,)}), "no value of head_dim"),
    ],
)
def test_claims_without_a_common_case_are_refused(one: Claims, other: Claims, expected: str):
    with pytest.raises(UsageError, match=expected):
        together(one, other, ATTENTION)


def test_what_is_lacking_are_options_dtypes_and_sizes():
    own = claims("causal", "softcap", dtypes=("float32", "bfloat16"))
    other = claims("causal", "mask", limits={"head_dim": (64, 128)}, fixed={"causal": True})
    assert ["causal other than True", "softcap", "bfloat16", "head_dim other than 64, 128"] == [
        *lacking(own, other, ATTENTION)
    ]
    assert ["mask"] == [*lacking(other, own, ATTENTION)]
    assert [] == [*lacking(own, own, ATTENTION)]
