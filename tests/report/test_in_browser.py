"""The report in a real browser: figures are drawn, nothing runs off a phone, nothing is asked of a network."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from overlayccl_core.report.page import page
from overlayccl_core.report.tree import trees_of
from tests.report.browser import chromium
from tests.report.fixture_tree import write_tree

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
PARTS = ("worth", "gain", "deployed", "model", "price", "training", "rejected", "cost", "conditions")
# Of each visible figure: how wide it is, and how many marks with a size it holds.
FIGURES = """() => [...document.querySelectorAll("figure svg")]
    .filter(svg => svg.getBoundingClientRect().width > 0)
    .map(svg => ({
        title: svg.getAttribute("aria-label"),
        width: svg.getBoundingClientRect().width,
        marks: [...svg.querySelectorAll("[role='graphics-symbol']:not([aria-roledescription='axis'])")]
            .map(mark => mark.getBoundingClientRect()).filter(box => box.width > 0 || box.height > 0).length,
        texts: [...svg.querySelectorAll("text")].map(text => text.getBoundingClientRect())
            .filter(box => box.right > innerWidth || box.left < 0).length,
        small: [...svg.querySelectorAll("text")].map(text => text.getBoundingClientRect())
            .filter(box => box.height > 0 && Math.max(box.height, box.width) < 6).length,
    }))"""


@dataclass(frozen=True)
class Shown:
    """A page that is open at some width, what its console said, and what it asked the network for."""

    page: Page
    width: int
    console: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def report(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs, of which the other has probes and little more."""
    folder = tmp_path_factory.mktemp("runs")
    left_out = shutil.ignore_patterns("problems", "train")
    other = Path(shutil.copytree(whole, folder / "local-evidence", ignore=left_out))
    trees = [write_tree(folder / "local"), other]
    file = folder / "report.html"
    file.write_text(page(trees_of(trees)))
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module", params=WIDTHS)
def shown(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Shown]:
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    console: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: console.append(message.text))
    opened.on("pageerror", lambda error: console.append(str(error)))
    opened.on("request", lambda asked: requests.append(asked.url))
    opened.goto(report.as_uri())
    opened.evaluate("document.querySelectorAll('details.part').forEach(part => part.open = true)")
    yield Shown(page=opened, width=request.param, console=console, requests=requests)
    opened.close()


def test_every_part_of_every_run_is_there(shown: Shown) -> None:
    for run in ("local", "local-evidence"):
        for part in PARTS:
            assert shown.page.locator(f"section#{run}-{part}").count() == 1


def test_what_has_to_be_read_first_is_five_screens_a_run_and_all_else_is_folded(
    browser: Browser, report: Path
) -> None:
    opened = browser.new_page(viewport={"width": 1280, "height": 1000})
    opened.goto(report.as_uri())
    shown = opened.locator("section:has(> details[open])").evaluate_all("parts => parts.map(part => part.id)")
    assert shown == ["local-worth", "local-evidence-worth"]
    assert opened.evaluate("document.documentElement.scrollHeight") < 2 * 5 * 1000
    opened.close()


def test_figures_are_drawn(shown: Shown) -> None:
    figures = shown.page.evaluate(FIGURES)
    assert len(figures) == shown.page.locator("figure").count() >= 14
    for figure in figures:
        assert figure["marks"] > 0, figure
        assert figure["width"] > 0.8 * min(shown.width - 60, 880), figure
        assert figure["texts"] == 0 and figure["small"] == 0, figure


def test_nothing_runs_off_the_page(shown: Shown) -> None:
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= shown.width
    inside = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert shown.page.evaluate(inside) == 0


def test_nothing_is_asked_of_a_network_and_nothing_fails(shown: Shown, report: Path) -> None:
    assert shown.console == []
    assert [url for url in shown.requests if not url.startswith("data:")] == [report.as_uri()]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_figures_have_colours_in_light_and_dark(shown: Shown, scheme: str) -> None:
    shown.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    of = "getComputedStyle(document.querySelector('{}')).{}"
    paper, ink = (
        shown.page.evaluate(of.format(where, what))
        for where, what in ((".part", "backgroundColor"), ("figure text", "fill"))
    )
    bright = [sum(map(int, color[4:-1].split(","))) for color in (paper, ink)]
    assert (bright[0] > bright[1]) == (scheme == "light")
