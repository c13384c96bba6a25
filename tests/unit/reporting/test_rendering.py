"""A page as one HTML file."""

import itertools
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

from attnspec.errors import UsageError
from attnspec.reporting.page import Source
from attnspec.reporting.rendering import TEMPLATES, policy, rendered, write

GIVEN = runpy.run_path(str(Path(__file__).with_name("test_page.py")))
CELL, WITNESS, HEADER, END, RUN = (GIVEN[name] for name in ("CELL", "WITNESS", "HEADER", "END", "RUN"))
CHANGED, LIKENESS = (GIVEN["GIVEN"][name] for name in ("CHANGED", "LIKENESS"))
VOID = {"meta", "br", "hr", "img", "input", "link"}
EVIL = "\x1b[2J\u202e</style></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{ 7 * 7 }}&amp;"
STYLE, SCRIPT = ((TEMPLATES / name).read_text("utf-8") for name in ("report.css", "copy.js"))


class Tree(HTMLParser):
    """The elements of a page, and that they are closed as they were opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.text = [], [], []
        self.feed(text)
        self.close()
        assert [] == self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def lines(text="kernel", witness=WITNESS):
    """The records of a run that fails, with a text wherever a subject or a stranger has its say."""
    told = {"reasons": [text], "beside": [text], "unmet": [], "operator": text}
    head = {**HEADER, "command": text, "packages": {text: text}, "sources": {text: text}}
    return [
        head,
        {**CELL, "subject": text, "witness": witness, "run": RUN},
        {**CELL, "subject": text, "law": "other", "verdict": "not_tested", "says": text},
        {**CELL, "subject": text, "law": "alone", "verdict": "error", "says": text},
        {"kind": "subject", "subject": text, "verdict": "violated", "cells": {}, **told},
        END,
    ]


def wicked(x):
    """The same data with every free text a hostile one."""
    kept = ("level", "literals", "rows", "letter", "outcome", "from", "when", "map", "case")
    if isinstance(x, dict):
        return {key: value if key in kept else wicked(value) for key, value in x.items()}
    if isinstance(x, list):
        return [wicked(part) for part in x]
    return EVIL if isinstance(x, str) else x


@pytest.fixture(scope="module")
def text():
    return rendered([Source(lines())])


@pytest.fixture(scope="module")
def hostile():
    witness = {**wicked(WITNESS), "words": {EVIL: EVIL}, "declared": [EVIL], "arrays": {EVIL: EVIL}}
    return rendered([Source(lines(EVIL, {**witness, "trace": EVIL}))])


def test_a_page_is_well_formed_and_stands_alone(text):
    tree = Tree(text)
    assert set() == {tag for tag, _ in tree.found} & {"link", "img", "iframe", "object", "base", "form"}
    assert 1 == sum(tag == "script" for tag, _ in tree.found)
    attributes = [(key, x) for _, attrs in tree.found for key, x in attrs.items()]
    assert [] == [x for key, x in attributes if key in ("src", "srcset", "style") or key.startswith("on")]
    assert [] == [x for key, x in attributes if key == "href" and not x.startswith("#")]
    assert [] == re.findall(r"(?:https?:)?//[\w.]+\.\w+", text.replace("http://www.w3.org/1998/Math/MathML", ""))
    assert [] == re.findall(r"url\(|@import", STYLE)


def test_the_policy_lets_nothing_in_but_the_style_sheet_and_the_script(text):
    (found,) = [a["content"] for tag, a in Tree(text).found if a.get("http-equiv") == "Content-Security-Policy"]
    assert (policy(STYLE, SCRIPT), True) == (found, found.startswith("default-src 'none'; style-src 'sha256-"))
    assert f"<style>{STYLE.rstrip()}" in text
    assert STYLE == re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    assert SCRIPT == re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)


def test_no_text_of_a_subject_becomes_markup(text, hostile):
    mild, wild = Tree(text), Tree(hostile)
    assert {tag for tag, _ in mild.found} >= {tag for tag, _ in wild.found} - {"pre"}
    assert [] == [key for _, attrs in wild.found for key in attrs if key.startswith("on") or key == "src"]
    shown = "".join(wild.text)
    assert (True, True) == ("<script>alert(1)</script>" in shown, "{{ 7 * 7 }}" in shown)
    assert [] == [c for c in hostile if not (c.isprintable() or c == "\n")]


def test_names_of_elements_and_places_within_the_page_agree(text):
    found = Tree(text).found
    names = [attrs["id"] for _, attrs in found if "id" in attrs]
    assert sorted(set(names)) == sorted(names)
    links = [attrs["href"][1:] for _, attrs in found if "href" in attrs]
    labels = [attrs["aria-labelledby"] for _, attrs in found if "aria-labelledby" in attrs]
    assert {"main", "s1f1"} <= set(links)
    assert set() == {*links, *labels} - set(names)


def test_headings_go_down_step_by_step_and_landmarks_are_there(text):
    tags = [tag for tag, _ in Tree(text).found]
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert (1, 1) == (levels[0], levels.count(1))
    assert [] == [pair for pair in itertools.pairwise(levels) if pair[1] > pair[0] + 1]
    assert [1, 1, 1] == [tags.count(name) for name in ("header", "main", "footer")]


def test_tables_have_captions_and_what_scrolls_can_be_reached_by_keyboard(text):
    found = Tree(text).found
    tags = [tag for tag, _ in found]
    assert tags.count("table") == tags.count("caption") > 3
    scrolling = [attrs for _, attrs in found if "scroll" in (attrs.get("class") or "").split()]
    assert [("0", "region", True)] * len(scrolling) == [
        (attrs.get("tabindex"), attrs.get("role"), bool(attrs.get("aria-label"))) for attrs in scrolling
    ]


def test_a_failure_has_its_tables_its_map_and_its_commands(text):
    shown = " ".join("".join(Tree(text).text).split())
    assert "attnspec replay q7Kd2A" in shown
    assert "16 × the bound" in shown
    assert 'class="m-much">+</td>' in text
    assert "<td>-inf</td>" in text


def test_a_changed_line_is_marked_where_it_differs():
    witness = {**WITNESS, "likeness": {**LIKENESS, "changed": [CHANGED]}}
    text = rendered([Source(lines(witness=witness))])
    assert "factor: <del>head_dim</del> ** -0.5" in text
    assert "factor: <ins>k_len</ins> ** -0.5" in text


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("front", "grounds"),
    [
        ("text", "ground panel good-ground bad-ground warn-ground"),
        ("quiet", "ground panel"),
        ("link", "ground panel"),
        ("good", "ground panel good-ground"),
        ("bad", "ground panel bad-ground"),
        ("warn", "warn-ground"),
        ("none", "none-ground"),
    ],
)
def test_text_stands_out_from_its_ground(theme, front, grounds):
    roots = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", roots[theme]))
    assert [] == [ground for ground in grounds.split() if contrast(colours[front], colours[ground]) < 4.5]


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    write(tmp_path / "page.html", [Source(lines())])
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    with pytest.raises(UsageError, match="cannot write to"):
        write(tmp_path / "nowhere" / "page.html", [Source(lines())])


def test_a_page_of_tens_of_thousands_of_cells_stays_small():
    laws = [{**CELL, "law": f"law_{at}", "verdict": "pass"} for at in range(40)]
    made = [
        {**cell, "subject": f"kernel_{at}", "mechanism": f"mechanism_{part}", "dtype": dtype}
        for at in range(100)
        for part in range(4)
        for dtype in ("float32", "bfloat16")
        for cell in ({**CELL, "witness": WITNESS}, *laws)
    ]
    told = {"reasons": [], "beside": [], "unmet": [], "operator": "attention", "cells": {}}
    subjects = [{"kind": "subject", "subject": f"kernel_{at}", "verdict": "violated", **told} for at in range(100)]
    text = rendered([Source([HEADER, *made, *subjects, END])])
    assert (32_800, True) == (len(made), len(text.encode()) < 5_000_000)
