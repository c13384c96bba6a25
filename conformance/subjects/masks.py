"""What the call of a class takes beside its tokens: a causal flag, and masks in the forms that models have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..execution.survey import Survey
from .candidate import Candidate
from .kinds import CAUSAL, MASKS


@dataclass(frozen=True, slots=True)
class Form:
    """A form in which a mask is passed, that of the operator being true where a key is seen."""

    says: str
    text: str
    """What is passed, where there is a mask."""
    requires: str = "ndim(mask) == 4"
    """What holds of the masks that have this form."""


_EACH = "ndim(mask) == 4 and size(mask, 0) == batch and size(mask, 1) == 1"
KEYS, QUERIES = f"{_EACH} and size(mask, 2) == 1", f"{_EACH} and size(mask, 2) == q_len"
SEEN = Form("true for keys that are seen", "mask")
HIDDEN = Form("true for keys that are hidden", "~mask")
ONES = Form("one for keys that are seen", "mask.long()")
ADDED = Form("added to the scores", "added_mask(x, mask)")
SEEN_KEYS = Form("[batch, k_len], true for keys that are seen", "mask[:, 0, 0]", KEYS)
HIDDEN_KEYS = Form("[batch, k_len], true for keys that are hidden", "~mask[:, 0, 0]", KEYS)
ONES_OF_KEYS = Form("[batch, k_len], one for keys that are seen", "mask[:, 0, 0].long()", KEYS)
OF_QUERIES = Form("[batch, q_len, k_len], true for keys that are seen", "mask[:, 0]", QUERIES)
ANY = (SEEN, HIDDEN, ONES, ADDED, SEEN_KEYS, HIDDEN_KEYS, ONES_OF_KEYS, OF_QUERIES)
FORMS = {
    "attention_mask": (SEEN, ONES_OF_KEYS, ADDED, ONES, SEEN_KEYS, OF_QUERIES),
    **dict.fromkeys(("key_padding_mask", "padding_mask", "pad_mask"), (HIDDEN_KEYS, SEEN_KEYS, ONES_OF_KEYS)),
}
"""By the name of a parameter, the forms that it may have, the likeliest first; `ANY` where it says nothing."""
CONTRARY = {"attention_mask": ((ONES_OF_KEYS, Form("", "(~mask[:, 0, 0]).long()", KEYS)),)}
"""By a name that says which keys are seen, a form and its opposite: what is right by that has them the wrong way."""


def further(candidate: Candidate, survey: Survey) -> list[str]:
    """The parameters of a call that may be a causal flag or a mask, flags first, which the candidate does not pass."""
    if candidate.operator != "multi_head" or candidate.call:
        return []
    found = [name for name, _ in survey.takes if (name in CAUSAL and not candidate.fixed) or name in MASKS]
    return sorted(found, key=option_of)


def option_of(name: str) -> str:
    """The option or the input that a parameter is, a causal flag or a mask."""
    return "causal" if name in CAUSAL else "mask"


def extensions(candidate: Candidate, name: str) -> Iterator[Candidate]:
    """The candidates that pass a parameter of the call, in each form that it may have."""
    if name in CAUSAL:
        yield _optional(candidate, name)
        return
    for form in FORMS.get(name, ANY) if candidate.framework == "torch" else (SEEN,):
        yield _masked(candidate, name, form)


def contrary(candidate: Candidate, name: str) -> Iterator[tuple[Candidate, Candidate]]:
    """Candidates that pass a mask as its name says, each with one that passes the opposite."""
    for form, opposite in CONTRARY.get(name, ()) if candidate.framework == "torch" else ():
        yield _masked(candidate, name, form), without_empty_rows(_masked(candidate, name, opposite))


def _masked(candidate: Candidate, name: str, form: Form) -> Candidate:
    masked = replace(candidate, requires=(*candidate.requires, f"single(mask) or {form.requires}"))
    if form is SEEN:
        return _optional(masked, name)
    return replace(masked, call=_call(masked, name, form), inputs="", keywords={}, options={})


def _optional(candidate: Candidate, name: str) -> Candidate:
    """One that passes an option or a mask as it is, under a name of the class."""
    options = {**candidate.options, option_of(name): f'"{name}"'}
    keywords = {key: x for key, x in candidate.keywords.items() if key != name}
    return replace(candidate, keywords=keywords, options=options)


def without_empty_rows(candidate: Candidate) -> Candidate:
    """One whose masks let every query see a key, the first one: what becomes of others may be as for no operator."""
    return replace(candidate, requires=(*candidate.requires, "single(mask) or all(mask[..., :1])"))


def said(candidate: Candidate, name: str) -> str:
    """How a candidate passes a mask, in words."""
    return next((form.says for form in ANY if f"{name}=None if mask is None else {form.text})" in candidate.call), "")


def _call(candidate: Candidate, name: str, form: Form) -> str:
    """The call of a candidate with a mask of some form, as a function of the module."""
    inputs, passed = candidate.arguments(name)
    options = {key: x.strip('"') for key, x in candidate.options.items()}
    flags = ["*", *(f"{key}=False" for key in options)] if options else []
    passed += [f"{own}={key}" for key, own in options.items()] + [f"{name}=None if mask is None else {form.text}"]
    return f"lambda {', '.join(['module', *inputs, 'mask=None', *flags])}: module({', '.join(passed)})"
