"""A page as Chromium shows it; skipped where Playwright or Chromium is not installed."""

import runpy
import shutil
from pathlib import Path

import pytest

from attnspec.reporting.page import Source
from attnspec.reporting.rendering import write

sync_api = pytest.importorskip("playwright.sync_api")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no Chromium")
UNIT = Path(__file__).resolve().parents[1] / "unit" / "reporting" / "test_rendering.py"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    given = runpy.run_path(str(UNIT))
    write(path, [Source(given["lines"](given["EVIL"] + "n" * 200))])
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    found = browser.new_page()
    found.goto(address)
    yield found
    found.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_a_page_fits_and_has_nothing_to_complain_of(browser, address, width, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page, said = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert (0, []) == (beyond, said)
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[theme] == ground
    assert [] == [found["id"] for found in axe.Axe().run(page).response["violations"]]
    page.close()


def test_nothing_of_a_subject_runs_or_loads(page):
    assert 1 == page.locator("script").count()
    assert 0 == page.locator("img, iframe, link").count()
    assert 0 == page.evaluate("performance.getEntriesByType('resource').length")


def test_a_command_is_copied(browser, address):
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    button = page.locator(".commands button").first
    button.click()
    assert "Copied" == button.text_content()
    context.close()


def test_a_page_is_gone_through_by_keyboard(page):
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
    assert "skip" == seen[0]
    assert {"SUMMARY", "A", "scroll", "CODE", "BUTTON"} <= set(seen)
    page.locator("summary").first.press("Enter")
    assert page.evaluate("document.querySelector('details').open")


@pytest.fixture(scope="module")
def whole_matrix(tmp_path_factory):
    """The page of 360 subjects of 100 cells each, about as many as adapters and their laws."""
    path = tmp_path_factory.mktemp("matrix") / "page.html"
    given = runpy.run_path(str(UNIT))
    head, cell, *_, end = given["lines"]("kernel")
    spread = [400, *range(1, 17)]
    found, reasons = [], [f"takes no {option}" for option in ("mask", "bias", "window", "sink", "softcap")]
    for subject in (f"kernel_{number}" for number in range(360)):
        for dtype in ("float32", "bfloat16", "float16", "float64"):
            failing = {**cell, "subject": subject, "dtype": dtype, "spread": spread}
            own = {key: x for key, x in failing.items() if key not in ("witness", "run")}
            own |= {"verdict": "pass", "worst": 0.9}
            found.append({**own, "run": given["RUN"]})
            found += [{**own, "law": f"law_{n}"} for n in range(18)]
            found += [{**own, "law": reason, "verdict": "not_tested", "says": reason} for reason in reasons]
            found.append({**failing, "run": {}} if subject.endswith("7") else {**own, "law": "last"})
        stood = {"reasons": [], "beside": [], "unmet": [], "operator": "softmax"}
        found.append({"kind": "subject", "subject": subject, "verdict": "conformant", "cells": {}, **stood})
    write(path, [Source([head, *found, end])])
    return path


@pytest.mark.parametrize("width", [360, 1440])
def test_a_page_of_all_adapters_is_small_and_opens_within_a_second_of_work(browser, whole_matrix, width):
    assert whole_matrix.stat().st_size < 5e6
    page = browser.new_page(viewport={"width": width, "height": 800})
    inside = page.context.new_cdp_session(page)
    inside.send("Performance.enable", {"timeDomain": "threadTicks"})  # whatever else the machine does
    page.goto(whole_matrix.as_uri())
    told = {metric["name"]: metric["value"] for metric in inside.send("Performance.getMetrics")["metrics"]}
    assert told["TaskDuration"] < 1.0
    page.close()
