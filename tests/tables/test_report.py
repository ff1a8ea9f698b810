"""The report in a real browser: it renders, moves, loads nothing, and runs nothing that comes from the data."""

import json
import re
import shutil
from html.parser import HTMLParser

import example_tables as tables
import numpy as np
import pytest

from steinflow.tables.report import report_html

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
# As root in a container: no sandbox; and no traffic of the browser's own.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The texts below and beside each chart.
TICKS = """[...document.querySelectorAll("svg")].flatMap((svg) => ["middle", "end"].map((anchor) =>
  [...svg.querySelectorAll(`:scope > text[text-anchor=${anchor}]`)].map((text) => text.textContent)))"""
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")


@pytest.fixture(scope="module")
def reports(tmp_path_factory, of_classes, of_numbers, of_formula):
    """Reports of a classification with hostile names, values and target, of a regression, and of a formula."""
    folder = tmp_path_factory.mktemp("reports")
    for name, run in {"classes": of_classes, "numbers": of_numbers, "formula": of_formula}.items():
        (folder / f"{name}.html").write_text(report_html(run), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, reports):
    """A function that opens a report and, when the test ends, checks that nothing went wrong on the page."""
    pages, troubles = [], []

    def open_report(name, *, width=1280, height=800, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        own = (reports / f"{name}.html").as_uri()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: request.url != own and troubles.append(f"request: {request.url}"))
        page.goto(own)
        until(page, "document.documentElement.dataset.ready === 'yes'")
        pages.append(page)
        return page

    yield open_report
    hacked = [page.evaluate("window.hacked") for page in pages]
    for page in pages:
        page.close()
    assert troubles == []
    assert hacked == [None] * len(pages)


class Tags(HTMLParser):
    """Count the elements of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.handlers = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def test_hostile_text_makes_no_elements(reports):
    page = (reports / "classes.html").read_text(encoding="utf-8")
    parser = Tags()
    parser.feed(page)
    assert parser.tags.count("script") == 2  # the data and the script of the page
    assert "img" not in parser.tags
    assert parser.handlers == []
    assert tables.HOSTILE not in page
    assert "\u2028" not in re.search('<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]


def test_data_survive_the_escaping(reports):
    page = (reports / "classes.html").read_text(encoding="utf-8")
    data = json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert tables.HOSTILE in data["parameters"]["names"]
    assert data["heldOut"]["labels"] == sorted([tables.HOSTILE_CELL, tables.HOSTILE])
    assert len(data["motion"]["frames"]) == len(data["motion"]["steps"]) > 20
    assert data["motion"]["steps"][0] == 0


def test_one_file_without_network_or_inline_handlers(reports):
    for path in reports.iterdir():
        page = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in page
        assert "unsafe-inline" not in page
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
        assert len(page) < 1e6


@needs_browser
@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [
        (1280, 800, "light"),
        (390, 844, "dark"),
        pytest.param(1280, 800, "dark", marks=pytest.mark.slow),
        pytest.param(390, 844, "light", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", ["classes", "numbers"])
def test_renders(opened, name, width, height, scheme):
    page = opened(name, width=width, height=height, scheme=scheme)
    assert page.locator("#forest .dot").count() >= 2
    assert page.locator("#marginals svg").count() >= 4
    assert page.locator("#pairs .point").count() >= 20
    assert page.locator("#ksd .line").count() == page.locator("#dispersion .line").count() == 1
    assert page.locator("#verdict .light.on").count() == 1
    assert page.locator("#checks .lamp").count() >= 2
    assert page.locator("#calibration circle").count() >= 2
    charts = ["#scatter .particle"] if name == "numbers" else ["#probabilities .bar", "#confusion td"]
    assert all(page.locator(chart).count() >= 2 for chart in charts)
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (np.mean([int(c) for c in re.findall(r"\d+", dark)]) < 100) == (scheme == "dark")
    # No number that is none got into a drawing.
    assert not page.evaluate("[...document.querySelectorAll('svg')].some(svg => svg.outerHTML.includes('NaN'))")


@needs_browser
@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_renders_a_formula(opened, width, height, scheme):
    page = opened("formula", width=width, height=height, scheme=scheme)
    assert page.locator("#effects-0 .ribbon").count() == 2  # a, for both values of y
    assert page.locator("#effects .legend i").count() == 2
    assert page.locator("#groups-0 .dot").count() == 3
    assert page.locator("#margins-0 .dot").count() == 2  # no and yes
    assert page.locator("#margins-1 .dot").count() == 1  # the difference
    assert page.locator("#prior .mark").count() > 5
    ticks = page.evaluate(TICKS)
    assert all(len(set(texts)) == len(texts) for texts in ticks)
    assert sum(map(len, ticks)) > 50
    assert page.locator("#predictive .seen").count() > 5
    assert page.locator("#checks .lamp").count() >= 5
    assert page.locator("#motion .particle").count() == 20
    assert tables.HOSTILE_CELL[:8] in page.locator("#groups-0").text_content()
    assert "Normal(" in page.locator("#posterior table").text_content()  # the priors
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.evaluate("[...document.querySelectorAll('svg')].some(svg => svg.outerHTML.includes('NaN'))")
    page.locator("#effects-0 .hit").nth(10).hover(force=True)
    assert page.locator("#tip").text_content().startswith("a: ")


def until(page, expression, seconds=60):
    """Wait for an expression to hold; the policy of the page forbids playwright's own way, which evaluates strings."""
    for _ in range(20 * seconds):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} did not hold within {seconds} s")


def positions(page):
    return page.evaluate("[...document.querySelectorAll('#motion .particle')].map(p => +p.getAttribute('cx'))")


@needs_browser
def test_the_slider_moves_the_particles(opened):
    page = opened("numbers")
    end = positions(page)
    assert len(end) == 20
    steps = page.evaluate("JSON.parse(document.getElementById('data').textContent).motion.steps")
    assert page.locator("#step").text_content() == f"step {steps[-1]}"
    page.locator("#slider").fill("0")
    start = positions(page)
    assert np.mean(np.abs(np.subtract(start, end)) > 5) > 0.9
    assert page.locator("#step").text_content() == "step 0"
    page.locator("#slider").press("End")
    assert positions(page) == end


@pytest.mark.slow
@needs_browser
def test_play_goes_from_the_beginning_to_the_end_and_stops(opened):
    page = opened("numbers")
    end = positions(page)
    page.locator("#play").click()
    assert page.locator("#play").get_attribute("aria-label") == "Pause"
    until(page, "+document.querySelector('#slider').value > 3")
    until(page, "document.querySelector('#play').getAttribute('aria-label') === 'Play'")
    np.testing.assert_allclose(positions(page), end, atol=0.02)


@needs_browser
def test_choices_and_tooltips(opened):
    page = opened("classes")
    before = positions(page)
    page.locator("#across").select_option(index=2)
    assert positions(page) != before
    page.locator("#zoom").check()
    page.locator("#pairs .point").first.hover(force=True)
    assert page.locator("#tip").is_visible()
    assert page.locator("#pairs .point.found").count() >= 3  # the same particle in other panes
    assert tables.HOSTILE in page.locator("#tip").text_content()


@needs_browser
def test_turning_the_phone_draws_again(opened):
    page = opened("numbers", width=390, height=844)
    narrow = page.locator("#ksd svg").get_attribute("viewBox")
    page.set_viewport_size({"width": 844, "height": 390})
    until(page, f"document.querySelector('#ksd svg').getAttribute('viewBox') !== {narrow!r}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 844
