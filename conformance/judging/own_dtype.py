"""The dtype of a plain function that does not take float32, as many kernels for accelerators do not, and of its tables.

It is seen by first calls, where nobody says in which dtypes the function is to be tried: they are refused in float32,
and answered in bfloat16 or float16. Where they are refused there too, as for their sizes, the words tell: in float32
they are about a dtype, or there are none, and in the other one they are about something else.

Tables of cosines and the like are passed in float32. A function that multiplies by them as they are returns float32
then, where it is one that its callers pass tables in the dtype of the other inputs: it returns that dtype for those.
"""

from __future__ import annotations

import re

from ..execution.faults import WORDLESS
from ..subjects.subject import REFUSING, AdapterSubject
from .layouts import is_read_right
from .smallest import first_calls

NARROWER = ("bfloat16", "float16")
TABLES = "float32"
"""The dtype of tables that are passed beside narrower inputs."""
OF_DTYPES = re.compile(r"dtype|scalar type|b?float(16|32)|\b(bf|fp|f)(16|32)|\bhalf\b", re.IGNORECASE)
"""How an error speaks of dtypes."""


def take_own_dtype(subject: AdapterSubject, device: str) -> list[str]:
    """That a plain function is tried in another dtype than float32, in words; it is called in that from now on."""
    says = _refusal(subject, device) if subject.interface.refusing else ""
    if not says:
        return []
    first = subject.claims.dtypes
    for dtype in NARROWER:
        subject.take_in((dtype,))
        other = _refusal(subject, device)
        if not other or (_may_be_of_dtypes(says) and not _may_be_of_dtypes(other)):
            return [f"refuses {', '.join(first)}, with {says}: tried in {dtype}; --dtype selects another dtype"]
    subject.take_in(first)
    return []


def _may_be_of_dtypes(says: str) -> bool:
    return says.endswith(WORDLESS) or OF_DTYPES.search(says) is not None


def _refusal(subject: AdapterSubject, device: str) -> str:
    """What a function says to its first calls; nothing where it answers one, or ends it in another way."""
    says = ""
    with subject.session():
        for call in first_calls(subject, device):
            fault = subject.call(call).fault
            if fault is None or fault.kind not in REFUSING:
                return ""
            says = fault.says
    return says


def take_tables_in_dtype(subject: AdapterSubject, device: str) -> list[str]:
    """That a plain function is passed tables in the dtype of a call, in words, where its result is in theirs otherwise.

    Its results are judged as those of an implementation that stores every intermediate in that dtype.
    """
    dtype = next((each for each in subject.claims.dtypes if each in NARROWER), "")
    tables = _tables(subject) if dtype and not subject.claims.declared else []
    if not tables or not _has_other_dtype(subject, device, dtype):
        return []
    right = is_read_right(subject, subject.mechanism, dtype, device)
    subject.pass_in_dtype(tables)
    if _has_other_dtype(subject, device, dtype) or (
        right and not is_read_right(subject, subject.mechanism, dtype, device)
    ):
        subject.pass_in_dtype(())
        return []
    names, grade = " and ".join(f"`{name}`" for name in tables), subject.claims.grade(dtype)
    says = f"{names} are passed in {dtype}, as the result is {TABLES} with tables of {TABLES}"
    return [f"{says}: its rounding is judged as {grade}"]


def _tables(subject: AdapterSubject) -> list[str]:
    """The parameters of a known interface that are computed in single precision whatever the dtype of a call is."""
    taken = subject.form.taken
    if taken is None:
        return []
    own = taken.signature.dtypes
    return [
        name
        for name, passed in taken.passed.items()
        if own.get(name) == TABLES and passed.how == "array" and passed.texts[0] not in subject.mechanism.shapes
    ]


def _has_other_dtype(subject: AdapterSubject, device: str, dtype: str) -> bool:
    """Whether first calls are answered, and a result has another dtype than it should."""
    with subject.session():
        replies = [subject.call(call) for call in first_calls(subject, device, dtype=dtype)]
    answered = [reply for reply in replies if reply.fault is None]
    return bool(answered) and any(breach.contract == "dtype" for reply in answered for breach in reply.breaches)
