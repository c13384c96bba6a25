"""A site as Chromium shows it; skipped where Playwright or Chromium is not installed."""

import shutil
from pathlib import Path

import pytest

from attnspec.mechanisms.loader import library
from attnspec.site.building import build
from attnspec.site.history import runs_of

sync_api = pytest.importorskip("playwright.sync_api")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not BROWSER, reason="there is no Chromium")
ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "index.html",
    "matrix.html",
    "findings.html",
    "changes.html",
    "search.html",
    "mechanisms/softmax.html",
    "mechanisms/grouped_query.html",
    "implementations/torch_sdpa.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    build(out, runs_of([ROOT / "results"]), library())
    return out


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def page(browser):
    found = browser.new_page()
    yield found
    found.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_has_nothing_to_complain_of(browser, site, name, width, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page, said = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((site / name).as_uri())
    beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert (0, []) == (beyond, said)
    found = axe.Axe().run(page).response["violations"]
    assert [] == [(one["id"], one["nodes"][0]["html"][:200]) for one in found]
    page.close()


def test_filters_choose_rows_and_stand_in_the_address(page, site):
    page.goto((site / "matrix.html").as_uri())
    rows = page.locator("#rows tbody tr")
    page.select_option("select[name=mechanism]", "softmax")
    page.select_option("select[name=dtype]", "bfloat16")
    shown = [row.get_attribute("data-mechanism") for row in rows.all() if row.is_visible()]
    assert (True, {"softmax"}) == (0 < len(shown) < rows.count(), set(shown))
    assert f"{len(shown)} of {rows.count()} rows" == page.locator("[data-count]").text_content()
    address = page.url
    page.goto((site / "index.html").as_uri())
    page.goto(address)
    assert len(shown) == sum(row.is_visible() for row in page.locator("#rows tbody tr").all())


def test_search_finds_by_name_and_leads_there(page, site):
    page.goto((site / "index.html").as_uri())
    page.fill("#find", "base_two softmax")
    page.press("#find", "Enter")
    first = page.locator("#hits a").first
    assert "softmax.base_two" == first.text_content()
    first.click()
    assert page.url.endswith("mechanisms/softmax.html#mistake-base_two")


def test_an_example_is_stepped_through_line_by_line(page, site):
    page.goto((site / "mechanisms" / "softmax.html").as_uri())
    walk = page.locator(".walk").first
    lines = walk.locator(".steps > li")
    walk.get_by_role("button", name="First line").click()
    assert 1 == sum(line.is_visible() for line in lines.all())
    walk.get_by_role("button", name="Next line").click()
    assert ("line 2 of 4", 2) == (
        walk.get_by_role("status").text_content(),
        sum(line.is_visible() for line in lines.all()),
    )
    walk.get_by_role("button", name="All").click()
    assert 4 == sum(line.is_visible() for line in lines.all())
