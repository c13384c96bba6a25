"""Flaws as the workflow commands of GitHub."""

from attnspec.reporting.annotations import SHOWN, github
from attnspec.reporting.flaws import Flaw


def flaw(weight="error", file="a,b.py", head="off by 3 %", text="off by 3 %\nand more"):
    return Flaw("softmax.share", "Rows sum to one.", "k", "float32", weight, head, text, file, 7 if file else 0)


def test_a_command_has_the_place_and_the_text_in_the_way_of_github():
    assert ["::error file=a%2Cb.py,line=7,title=attnspec softmax.share::off by 3 %25%0Aand more"] == [*github([flaw()])]


def test_what_has_no_file_has_no_place_and_a_head_that_the_text_lacks_comes_first():
    (line,) = github([flaw("warning", file="", text="all of it")])
    assert "::warning title=attnspec softmax.share::off by 3 %25%0A%0Aall of it" == line


def test_of_too_many_the_last_says_how_many_there_are():
    found = [*github([flaw("note"), *[flaw()] * (SHOWN + 3)])]
    assert [f"::error title=attnspec::{4} more; 'attnspec report' has all of them", True] == [
        found[SHOWN - 1],
        found[-1].startswith("::notice"),
    ]
    assert SHOWN + 1 == len(found)
