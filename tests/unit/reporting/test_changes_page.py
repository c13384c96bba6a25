"""The changes from one state to another, as people and programs read them."""

from attnspec.reporting.baseline import State
from attnspec.reporting.changes import Change
from attnspec.reporting.changes_page import FEW, Compared, as_json, markdown, page, sentence

STATES = State("0.1.0", "quick", 0, {}), State("0.2.0", "quick", 0, {})
AT = {"subject": "mine", "mechanism": "softmax", "device": "cpu"}
NEW = [Change("new", law="ratio", dtype=dtype, says="9 x bound", **AT) for dtype in ("bfloat16", "float32")]


def compared(*changes, fails=("new",)):
    return Compared("base.ndjson", "results.ndjson", STATES, changes, fails)


def test_a_page_tells_dtypes_together_and_ends_with_the_count():
    assert [
        "base.ndjson -> results.ndjson",
        "attnspec 0.1.0 before, 0.2.0 now",
        "",
        "NEW FAILURES   fails, and did not before",
        "  mine  softmax.ratio  bfloat16, float32  9 x bound",
        "",
        "FAILS   2 new failures   (fails on: new)",
    ] == list(page(compared(*NEW)))


def test_what_does_not_matter_passes():
    assert "PASSES   2 new failures   (fails on: nothing)" == sentence(compared(*NEW, fails=()))
    assert "PASSES   nothing has changed   (fails on: new)" == sentence(compared())


def test_a_known_failure_says_so_and_another_device_is_named():
    known = Change("new", "mine", "softmax", "ratio", "float32", "cuda:1", "9 x bound", "torch-causal-scale")
    assert "  mine  softmax.ratio  float32 on cuda:1  9 x bound (known: torch-causal-scale)" in page(compared(known))


def test_many_changes_are_counted():
    many = [Change("untested", "mine", "softmax", f"law {n}", "float32", "cpu") for n in range(FEW + 2)]
    assert "  and 2 more" in page(compared(*many))
    assert "and 2 more" in markdown(compared(*many))


def test_markdown_is_a_table_in_which_nothing_is_markup():
    found = list(markdown(compared(Change("new", "my_kernel", "softmax", "a|b", "float32", "cpu", "<b>"))))
    assert "| my\\_kernel | softmax.a\\|b | float32 | &lt;b> |" in found


def test_the_data_have_every_change_and_the_answer():
    found = as_json(compared(*NEW, fails=("untested",)))
    assert (1, ["untested"], False, 2) == (found["format"], found["fail_on"], found["fails"], len(found["changes"]))
    assert {"file": "base.ndjson", "attnspec": "0.1.0", "profile": "quick", "seed": 0} == found["before"]
