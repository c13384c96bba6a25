"""Formulas as MathML that is safe in a page."""

from xml.etree import ElementTree

import pytest

from attnspec.mechanisms.loader import library
from attnspec.reporting.formulas import MOST, mathml


def test_a_formula_becomes_mathml():
    assert '<math display="block"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>' == mathml("x^2")


def test_signs_are_characters_and_not_names_of_them():
    assert "<mo>+</mo>" in mathml("a + b")


def test_an_element_that_is_not_known_becomes_a_row_of_its_parts(monkeypatch):
    made = ElementTree.fromstring("<math><script>a</script><mi>x</mi></math>")
    monkeypatch.setattr("latex2mathml.converter.convert_to_element", lambda *_, **__: made)
    assert "<math><mrow>a</mrow><mi>x</mi></math>" == mathml("x")


def test_the_name_of_an_operator_is_upright():
    assert "<mi>softmax</mi>" in mathml(r"\operatorname{softmax}(x)")


def test_every_formula_of_a_specification_can_be_typeset():
    assert [] == [m.name for m in library().values() if m.formula and not mathml(m.formula)]


@pytest.mark.parametrize(
    ("tex", "never"),
    [
        (r"\text{<script>alert(1)</script>}", "<script"),
        (r"\text{&lt;img src=x&gt;}", "<img"),
        (r"\href{javascript:alert(1)}{x}", "javascript"),
        (r"\style{background:url(//x)}{x}", "style"),
        (r"\class{a}{x}", "class"),
        (r"\hspace{1em onload=x}", "onload"),
    ],
)
def test_nothing_of_a_formula_is_markup_of_its_own(tex, never):
    assert never not in mathml(tex)


@pytest.mark.parametrize("tex", ["", "x" * (MOST + 1), r"\left("])
def test_what_cannot_be_typeset_is_left_to_the_page(tex):
    assert "" == mathml(tex)
