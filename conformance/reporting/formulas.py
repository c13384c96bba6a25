"""Formulas as MathML: converted from TeX, and rebuilt from known elements and attributes only."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

MOST = 2000
"""Characters of a formula that is typeset."""
ELEMENTS = frozenset(
    {"math", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow", "mspace", "msqrt", "mstyle"}
    | {"msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder", "munderover"}
)
"""The elements of MathML that a formula may be made of; none of them loads, links or runs anything."""
ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "display": frozenset({"inline", "block"}),
    "displaystyle": frozenset({"true", "false"}),
    "fence": frozenset({"true", "false"}),
    "form": frozenset({"prefix", "infix", "postfix"}),
    "movablelimits": frozenset({"true", "false"}),
    "mathvariant": frozenset({"normal"}),
    "separator": frozenset({"true", "false"}),
    "stretchy": frozenset({"true", "false"}),
}
"""The attributes that are kept, with their values."""
LENGTHS = frozenset({"width", "linethickness", "lspace", "rspace"})
"""The attributes that are kept with a length in em."""


def mathml(tex: str) -> str:
    r"""A formula in TeX as markup that is safe in a page; empty where it cannot be typeset.

    The converter copies text and attributes of a formula as they are, `\text{<script>}` included, so that none of its
    markup is used: known elements are made anew, and their texts are escaped.
    """
    if not tex or len(tex) > MOST:
        return ""
    from latex2mathml.converter import convert_to_element

    try:
        return ElementTree.tostring(_rebuilt(convert_to_element(tex, display="block")), encoding="unicode")
    except Exception:  # the converter raises what it likes, and a formula that it cannot read is shown as TeX
        return ""


def _rebuilt(element: Any) -> ElementTree.Element:
    """An element with what is known of it; one that is not known becomes a row of its parts."""
    name = element.tag if element.tag in ELEMENTS else "mrow"
    found = ElementTree.Element(name, {key: x for key, x in element.attrib.items() if _kept(key, x)})
    found.text = html.unescape(element.text or "") or None
    words = name == "mo" and (found.text or "").isalpha() and len(found.text or "") > 1
    if words:  # an operator's name is an identifier in upright letters
        found = ElementTree.Element("mi")
        found.text = html.unescape(element.text)
    found.extend(_rebuilt(part) for part in element)
    return found


def _kept(key: str, x: str) -> bool:
    if key in LENGTHS:
        return x.endswith("em") and x.removesuffix("em").lstrip("-").replace(".", "", 1).isdigit()
    return x in ATTRIBUTES.get(key, ())
