"""Grades: which can explain a dtype, how they are named, and what an output is rounded to."""

import pytest

from attnspec.errors import UsageError
from attnspec.numerics.formats import FORMATS
from attnspec.numerics.grades import (
    BF16,
    FP16,
    FP32,
    GRADES,
    LADDER,
    STANDARD,
    grade_named,
    looser,
    result_format,
    tighter,
)


@pytest.mark.parametrize("name", GRADES)
def test_a_grade_is_found_by_its_name(name: str) -> None:
    assert name == str(grade_named(name))


def test_an_unknown_grade_names_the_nearest_and_all_of_them() -> None:
    with pytest.raises(UsageError) as caught:
        grade_named("bf16_naiv")
    assert (
        "unknown grade 'bf16_naiv'; did you mean 'bf16_naive'? "
        "(grades: fp64, fp32, tf32, bf16, fp16, bf16_naive, fp16_naive, "
        "int8_scores, int8_smoothed, int8_half, int8_fp8, fp8, int8)" == str(caught.value)
    )


def test_every_dtype_has_a_ladder_that_holds_its_standard_grade() -> None:
    assert set(FORMATS) == set(LADDER) == set(STANDARD)
    assert dict.fromkeys(LADDER, True) == {dtype: STANDARD[dtype] in LADDER[dtype] for dtype in LADDER}


@pytest.mark.parametrize("dtype", LADDER)
def test_a_ladder_goes_from_tight_to_loose(dtype: str) -> None:
    units = [
        (grade.arithmetic.unit, *(part.unit if part else 0.0 for part in (grade.operand, grade.weight, grade.stored)))
        for grade in LADDER[dtype]
    ]
    assert sorted(units) == units
    assert len(set(units)) == len(units)


@pytest.mark.parametrize(
    ("dtype", "claim", "tried"),
    [
        ("float32", "fp32", "fp32 tf32 bf16"),
        ("bfloat16", "bf16", "bf16 bf16_naive"),
        ("float16", "fp16_naive", "fp16_naive"),
        ("float16", "bf16", "bf16"),
    ],
)
def test_a_claim_is_tried_with_the_grades_beyond_it(dtype: str, claim: str, tried: str) -> None:
    assert tried == " ".join(map(str, looser(dtype, grade_named(claim))))


@pytest.mark.parametrize(
    ("dtype", "claim", "found"),
    [
        ("float16", "fp16_naive", ""),
        ("float16", "bf16", "fp16"),
        ("float16", "int8_scores", "fp16"),
        ("bfloat16", "int8_half", "bf16 int8_smoothed"),
        ("float16", "fp8", "fp16 int8_smoothed int8_fp8"),
    ],
)
def test_a_claim_beside_the_ladder_is_tried_with_tighter_ones(dtype: str, claim: str, found: str) -> None:
    assert found == " ".join(map(str, tighter(dtype, grade_named(claim))))


@pytest.mark.parametrize(
    ("dtype", "grade", "expected"),
    [
        ("bfloat16", "bf16", "bfloat16"),
        ("float32", "bf16", "float32"),
        ("float64", "fp32", "float32"),
        ("float64", "tf32", "float64"),
        ("float32", "bf16_naive", "bfloat16"),
        ("float16", "fp32", "float16"),
        ("bfloat16", "fp16_naive", "bfloat16"),
    ],
)
def test_an_output_is_rounded_to_the_narrower_of_its_dtype_and_what_the_grade_declares(
    dtype: str, grade: str, expected: str
) -> None:
    assert expected == result_format(dtype, grade_named(grade)).name


def test_the_sixteen_bit_grades_accumulate_in_single_precision() -> None:
    assert [FP32.arithmetic] * 2 == [BF16.arithmetic, FP16.arithmetic]
