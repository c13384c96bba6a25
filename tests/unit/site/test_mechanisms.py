"""What the page of a mechanism shows."""

from attnspec.mechanisms.loader import library
from attnspec.reporting.baseline import Group, State, Verdict
from attnspec.site.history import Run
from attnspec.site.mechanisms import mechanism_page

SOFTMAX = library()["softmax"]
RUN = Run("smoke", "", State("0.1.0", "smoke", 0, {}))
GROUPS = {
    ("kernel", "softmax", "float32", "cpu"): (RUN, Group("0", "", {"empty_row": "nans"}, {"x": Verdict("pass")})),
    ("other", "attention", "float32", "cpu"): (RUN, Group("0", "", {}, {"x": Verdict("pass")})),
}


def test_a_page_has_everything_that_the_specification_states():
    found = mechanism_page(SOFTMAX, GROUPS)
    assert (list(SOFTMAX.laws), list(SOFTMAX.mistakes), list(SOFTMAX.examples)) == (
        [law.name for law in found.laws],
        [wrong.name for wrong in found.mistakes],
        [walk.name for walk in found.walks],
    )
    assert list(SOFTMAX.definition) == [name for name, _ in found.lines]
    assert found.formula.startswith("<math")


def test_a_mistake_shows_the_line_that_it_changes():
    wrong = next(one for one in mechanism_page(SOFTMAX, {}).mistakes if one.name == "base_two")
    (edit,) = wrong.edits
    assert ("terms", "exp(shift(x))") == (edit.line, "".join(piece.text for piece in edit.before))


def test_who_follows_a_convention_is_named():
    ((name, words),) = mechanism_page(SOFTMAX, GROUPS).conventions
    assert ("empty_row", {"zeros": (), "nans": ("kernel",), "mean_value": ()}) == (
        name,
        {word.name: word.followers for word in words},
    )


def test_rows_are_those_of_the_mechanism():
    assert ["kernel"] == [row.subject for row in mechanism_page(SOFTMAX, GROUPS).rows]


def test_a_further_mechanism_names_its_kin():
    found = mechanism_page(library()["causal_mask"], {})
    assert ("attention", True) == (found.operator, "attention" in found.kin)


def test_layouts_are_shown_with_the_axes_of_every_array():
    found = mechanism_page(library()["attention"], {})
    by = {name: dict(zip(found.arrays, axes, strict=True)) for name, axes in found.layouts}
    assert ("b h s d", "b s h d", "") == (by["bhsd"]["q"], by["bshd"]["q"], by["bshd"]["lse"])
    assert "k + v" == by["kv"]["kv"]
    assert () == mechanism_page(library()["top_k_filter"], {}).layouts
