"""What of the cells of a group is kept as records."""

from types import SimpleNamespace

from attnspec.runs.lines import errors_data


def case(name, worst, score):
    return SimpleNamespace(case=name, length=3, worst=worst, row=0, rows=2, score=score)


def test_distances_that_are_not_finite_are_none_to_draw():
    margins = SimpleNamespace(cases=[case("a", 0.25, 2.0), case("b", float("inf"), 2.0), case("c", 0.5, float("inf"))])
    cells = [SimpleNamespace(law="definition", margins=margins)]
    (first, second) = errors_data(SimpleNamespace(cells=cells))["errors"]
    assert ("a", 0.25, 2.0) == (first["case"], first["units"], first["score"])
    assert ("c", False) == (second["case"], "score" in second)
