"""A page as Chromium shows it; skipped where Selenium, Chromium or its driver are not installed."""

import runpy
import shutil
from pathlib import Path

import pytest

from attnspec.reporting.page import Source
from attnspec.reporting.rendering import write

webdriver = pytest.importorskip("selenium.webdriver")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="there is no Chromium with a driver")
UNIT = Path(__file__).resolve().parents[1] / "unit" / "reporting" / "test_rendering.py"
SWITCHES = ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync")
QUIET = ("disable-background-networking", "disable-component-update")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    profile = tmp_path_factory.mktemp("profile")
    for switch in (*SWITCHES, *QUIET, f"user-data-dir={profile}"):
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    given = runpy.run_path(str(UNIT))
    write(path, [Source(given["lines"](given["EVIL"] + "n" * 200))])
    return path.as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_a_page_fits_and_has_nothing_to_complain_of(browser, page, width, theme):
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page)
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    beyond = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert (0, []) == (browser.execute_script(beyond), browser.get_log("browser"))
    ground = browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    assert {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[theme] == ground


def test_nothing_of_a_subject_runs_or_loads(browser, page):
    browser.get(page)
    assert 0 == browser.execute_script("return document.querySelectorAll('script, img, iframe, link').length")
    assert 0 == browser.execute_script("return performance.getEntriesByType('resource').length")


def test_a_page_is_gone_through_by_keyboard(browser, page):
    browser.get(page)
    keys = webdriver.Keys
    seen = []
    for _ in range(60):
        webdriver.ActionChains(browser).send_keys(keys.TAB).perform()
        seen.append(browser.execute_script("return document.activeElement.className || document.activeElement.tagName"))
    assert "skip" == seen[0]
    assert {"SUMMARY", "A", "scroll", "CODE"} <= set(seen)
    browser.find_element("tag name", "summary").send_keys(keys.ENTER)
    assert browser.execute_script("return document.querySelector('details').open")
