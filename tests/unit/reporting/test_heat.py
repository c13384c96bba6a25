"""Arrays as tables whose fields are shaded."""

from attnspec.reporting.heat import heat, weights

FIELD = {
    "case": "plain",
    "plane": [1, 0],
    "first": [2, 7],
    "found": [[0.5, "nan"], [1.0, True]],
    "expected": [[1.0, 1.0], [1.0, False]],
    "units": [[20.0, None], [0.25, 5000.0]],
}


def test_errors_are_shaded_by_how_far_they_are_beyond_the_bound():
    *_, errors = heat(FIELD).grids
    told = [(name, [(field.text, field.kind) for field in fields]) for name, fields in errors.rows]
    assert [("2", [("20", "h1"), ("∞", "h3")]), ("3", [("0.25", "h0"), ("5e3", "h2")])] == told


def test_what_is_returned_is_shaded_and_what_is_expected_is_not():
    expected, returned, _ = heat(FIELD).grids
    assert {""} == {field.kind for _, fields in expected.rows for field in fields}
    assert ["h1", "h3"] == [field.kind for field in returned.rows[0][1]]
    assert ["0.5", "nan"] == [field.text for field in returned.rows[0][1]]


def test_rows_and_columns_have_their_places_in_the_array():
    found = heat(FIELD)
    assert ("in plain, at [1, 0, rows, columns]", ("7", "8")) == (found.at, found.grids[0].columns)


def test_weights_are_shaded_by_their_share_of_the_largest():
    seen = {"first": 3, "definition": [[0.5, 0.0]], "subject": [[0.25, "nan"]]}
    should, are = weights(seen)
    assert [(".50", "p5"), ("0", "p0")] == [(field.text, field.kind) for field in should.rows[0][1]]
    assert [(".25", "p3"), ("nan", "h3")] == [(field.text, field.kind) for field in are.rows[0][1]]
    assert "3" == should.rows[0][0]


def test_of_weights_that_were_not_kept_there_is_no_table():
    assert () == weights({"first": 0})
