"""A site is built from specifications and results, and every link in it leads somewhere."""

import posixpath
import runpy
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from attnspec.mechanisms.loader import library
from attnspec.reporting.baseline import Group, State, Verdict
from attnspec.site.building import build
from attnspec.site.history import Run, runs_of
from attnspec.subjects.registered import shipped

ROOT = Path(__file__).resolve().parents[2]
GIVEN = runpy.run_path(str(ROOT / "tests/unit/reporting/test_rendering.py"))
LONGEST = 30
"""Seconds of the process that a site may take."""


class Page(HTMLParser):
    """The names and the links of a page, and its elements."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.names += [found["id"]] if found.get("id") else []
        self.links += [x for key in ("href", "src") if (x := found.get(key)) is not None]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site of the results that are committed, of a run with failures, and of one whose texts are hostile."""
    out = tmp_path_factory.mktemp("site")
    runs = runs_of([ROOT / "results"])
    for name, text in (("plain", "kernel"), ("hostile", GIVEN["EVIL"])):
        laws = {"ratio": Verdict("fail", None, text), text: Verdict("error", None, text, text)}
        groups = {(text, "softmax", "float32", "cpu"): Group("0", "fp32", {"empty_row": text}, laws)}
        runs.append(Run(name, "2030-01-01", State("0.1.0", "quick", 0, groups), GIVEN["lines"](text)))
    begun = time.process_time()
    build(out, runs, library())
    assert time.process_time() - begun < LONGEST
    return out


@pytest.fixture(scope="module")
def pages(site):
    return {str(path.relative_to(site)): Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_mechanism_and_every_implementation_has_a_page_and_a_badge(site, pages):
    assert set() == {f"mechanisms/{name}.html" for name in library()} - set(pages)
    assert set() == {f"implementations/{one.name}.html" for one in shipped()} - set(pages)
    assert set() == {one.name for one in shipped()} - {path.stem for path in (site / "badges").iterdir()}


def test_every_link_within_the_site_leads_somewhere(site, pages):
    lost = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert parts.scheme == "https", link
                continue
            target = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
            )
            there = (site / target).is_file()
            anchored = not parts.fragment or (target in pages and unquote(parts.fragment) in pages[target].names)
            lost += [] if there and anchored else [(name, link)]
    assert [] == lost


def test_no_page_has_two_places_of_one_name(pages):
    assert [] == [name for name, page in pages.items() if len(page.names) != len(set(page.names))]


def test_no_text_of_a_run_becomes_markup(site, pages):
    assert [] == [name for name, page in pages.items() if page.tags.count("script") > 2]
    assert [] == [
        path for path in site.rglob("*") if path.suffix in (".html", ".svg") and "alert(1)</script>" in path.read_text()
    ]


def test_what_has_changed_between_two_runs_has_a_page(pages):
    assert [name for name in pages if name.startswith("changes/")]


def test_the_command_builds_what_is_declared_without_any_results(tmp_path):
    command = [sys.executable, "-m", "attnspec.cli", "site", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, True) == (done.returncode, (tmp_path / "out" / "index.html").is_file()), done.stderr
    assert "files" in done.stdout
