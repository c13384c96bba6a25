"""Grades: claims about which intermediates of a computation are stored in which format.

A grade is what an error bound is derived for.
`LADDER` lists, for every dtype of inputs and outputs, the grades that can explain an implementation, tightest first;
`STANDARD` names the one that is claimed by saying nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError, did_you_mean
from .codings import E4M3_CODES, INT8_CENTRED, INT8_CODES, Coding
from .formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, TENSOR_FLOAT32, Format


@dataclass(frozen=True, slots=True)
class Grade:
    """One claim.

    `arithmetic` is the format of elementwise operations and of accumulation.
    `operand` is the format that the factors of a matrix product are rounded to first, and `weight` that of the weights
    of an average: tensor cores take both in their own format.
    `stored` is the format that every intermediate result is rounded to (the naive grades).
    `result` is the format of the outputs, where it is narrower than the dtype they are returned in.
    `factors` is what codes the factors of a matrix product become, with scales that are found from them, `values` what
    those of an average do, and `weights` what its weights do.
    `sums` is the format in which averages are added up, where it is another.
    `cut` says that factors and weights are cut off and not rounded to nearest, so that their errors have one sign.
    """

    name: str
    says: str
    arithmetic: Format
    operand: Format | None = None
    weight: Format | None = None
    stored: Format | None = None
    result: Format | None = None
    factors: Coding | None = None
    values: Coding | None = None
    weights: Coding | None = None
    sums: Format | None = None
    cut: bool = False

    @property
    def adding(self) -> Format:
        """The format in which averages are added up."""
        return self.sums or self.arithmetic

    def __str__(self) -> str:
        return self.name


FP64 = Grade("fp64", "double precision throughout", FLOAT64)
FP32 = Grade("fp32", "single precision throughout", FLOAT32, result=FLOAT32)
TF32 = Grade(
    "tf32",
    "factors and weights rounded or cut off to 11 bits, single-precision accumulation",
    FLOAT32,
    operand=TENSOR_FLOAT32,
    weight=TENSOR_FLOAT32,
    cut=True,
)
BF16 = Grade("bf16", "factors and weights in bfloat16, single-precision accumulation", FLOAT32, BFLOAT16, BFLOAT16)
FP16 = Grade("fp16", "factors and weights in float16, single-precision accumulation", FLOAT32, FLOAT16, FLOAT16)
BF16_NAIVE = Grade(
    "bf16_naive", "every intermediate stored in bfloat16", FLOAT32, BFLOAT16, BFLOAT16, BFLOAT16, BFLOAT16
)
FP16_NAIVE = Grade("fp16_naive", "every intermediate stored in float16", FLOAT32, FLOAT16, FLOAT16, FLOAT16, FLOAT16)
FLOAT22 = Format("float22", 14, -126, FLOAT32.largest)
E4M3_WEIGHTS = Format("float8_e4m3fn", 4, -14, 1.75)
"""Weights of at most one, times 256, in float8_e4m3fn."""
INT8_SCORES = Grade(
    "int8_scores",
    "scores from factors in int8, with scales found from them; weights and values in float16",
    FLOAT32,
    weight=FLOAT16,
    operand=FLOAT16,
    factors=INT8_CODES,
)
INT8_SMOOTHED = Grade(
    "int8_smoothed",
    "as int8_scores, of keys less their mean, which changes no weight",
    FLOAT32,
    weight=FLOAT16,
    operand=FLOAT16,
    factors=INT8_CENTRED,
)
INT8_HALF = Grade(
    "int8_half",
    "as int8_smoothed, with averages added up in float16",
    FLOAT32,
    weight=FLOAT16,
    operand=FLOAT16,
    factors=INT8_CENTRED,
    sums=FLOAT16,
)
INT8_FP8 = Grade(
    "int8_fp8",
    "as int8_smoothed, with weights and values in float8_e4m3fn, and averages summed in 22 bits",
    FLOAT32,
    weight=E4M3_WEIGHTS,
    factors=INT8_CENTRED,
    values=E4M3_CODES,
    sums=FLOAT22,
)
FP8 = Grade(
    "fp8",
    "factors, weights and values in float8_e4m3fn, with scales found from them",
    FLOAT32,
    weight=E4M3_WEIGHTS,
    factors=E4M3_CODES,
    values=E4M3_CODES,
)
INT8 = Grade(
    "int8",
    "factors, weights and values in int8, with scales found from them",
    FLOAT32,
    factors=INT8_CODES,
    values=INT8_CODES,
    weights=INT8_CODES,
)
QUANTIZED = (INT8_SCORES, INT8_SMOOTHED, INT8_HALF, INT8_FP8, FP8, INT8)
"""Claims about attention that makes codes of what it multiplies; each is claimed, and none is tried for another."""

FINER = {
    "int8_half": (INT8_SMOOTHED,),
    "int8_fp8": (INT8_SMOOTHED,),
    "fp8": (INT8_SMOOTHED, INT8_FP8),
    "int8": (INT8_SCORES,),
}
"""Which of these claims allow less than another one, tightest first."""

GRADES = {grade.name: grade for grade in (FP64, FP32, TF32, BF16, FP16, BF16_NAIVE, FP16_NAIVE, *QUANTIZED)}
LADDER: dict[str, tuple[Grade, ...]] = {
    "float64": (FP64, FP32, TF32, BF16),
    "float32": (FP32, TF32, BF16),
    "bfloat16": (FP32, BF16, BF16_NAIVE),
    "float16": (FP32, FP16, FP16_NAIVE),
}
NAIVE = {"bfloat16": BF16_NAIVE.name, "float16": FP16_NAIVE.name}
"""What is claimed of narrow dtypes where every intermediate may be stored in them."""
STANDARD = {"float64": FP64, "float32": FP32, "bfloat16": BF16, "float16": FP16}

CUSTOMARY = {("cuda", "float32"): TF32}
"""What compilers for a kind of device do unless told otherwise: in Triton, `tl.dot` of float32 is TF32."""


def grade_named(name: str) -> Grade:
    """The grade of that name; an unknown one is a `UsageError`."""
    if name not in GRADES:
        raise UsageError(f"unknown grade {name!r}{did_you_mean(name, GRADES)} (grades: {', '.join(GRADES)})")
    return GRADES[name]


def coarser(dtype: str, grade: Grade, other: Grade | None = None) -> bool:
    """Whether a claim allows more rounding than another one; than what is claimed for a dtype by saying nothing."""
    other = other or STANDARD[dtype]
    if grade.factors is not None and other.factors is None:
        return True
    plain = dict.fromkeys(("arithmetic", "operand", "weight", "stored"), other.arithmetic)
    pairs = [
        (getattr(grade, part), getattr(other, part) or known)
        for part, known in {**plain, "result": FORMATS[dtype]}.items()
    ]
    return any(own is not None and own.digits < known.digits for own, known in pairs)


def looser(dtype: str, claim: Grade) -> tuple[Grade, ...]:
    """The claim and the grades beyond it, in the order in which they are tried."""
    ladder = LADDER[dtype]
    return ladder[ladder.index(claim) :] if claim in ladder else (claim,)


def tighter(dtype: str, claim: Grade) -> tuple[Grade, ...]:
    """Of a claim beside the ladder of a dtype, those that allow less, tightest first; of one on the ladder, none."""
    return () if claim in LADDER[dtype] else (STANDARD[dtype], *FINER.get(claim.name, ()))


def result_format(dtype: str, grade: Grade) -> Format:
    """The format that an output of `dtype` is rounded to by a subject of that grade: the narrower of the two."""
    declared = FORMATS[dtype]
    if grade.result is None or declared.digits <= grade.result.digits:
        return declared
    return grade.result
