"""All pages of a site."""

from xml.etree import ElementTree

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import library
from attnspec.site.building import BADGES, _templates, badge, build, filters
from attnspec.site.implementations import TOLD
from attnspec.site.tables import Row


def row(**more):
    one = {
        "subject": "s",
        "mechanism": "m",
        "dtype": "float32",
        "device": "cpu",
        "framework": "",
        "day": "",
        "run": "r",
    }
    return Row(**{**one, "verdict": "pass", "text": "1/1", "worst": "0", "grade": "", "failing": (), **more})


def test_filters_have_each_value_once_and_in_order():
    found = filters([row(dtype="float32"), row(dtype="bfloat16"), row(dtype="float32")])
    assert (["bfloat16", "float32"], []) == (found["dtype"], found["framework"])


def test_a_badge_is_an_image_that_says_what_it_shows():
    text = badge(_templates(), "pass", "12/12 <laws>")
    root = ElementTree.fromstring(text)
    assert ("attnspec: 12/12 <laws>", True) == (root.attrib["aria-label"], BADGES["pass"] in text)


def test_every_verdict_has_a_badge():
    assert set(TOLD) == set(BADGES)


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to"):
        build(tmp_path / "file", [], library())
