"""The dtype of a plain function that does not take float32, as many kernels for accelerators do not.

It is seen by first calls, where nobody says in which dtypes the function is to be tried: they are refused in float32,
and answered in bfloat16 or float16. Where they are refused there too, as for their sizes, the words tell: in float32
they are about a dtype, or there are none, and in the other one they are about something else.
"""

from __future__ import annotations

import re

from ..execution.faults import WORDLESS
from ..subjects.subject import REFUSING, AdapterSubject
from .smallest import first_calls

NARROWER = ("bfloat16", "float16")
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
