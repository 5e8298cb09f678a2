"""The pages in a real browser, from files: no errors, no overflow, dark mode, sorting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.board.site import write_site
from tests.harness.board.test_index import board_of, energy_tree, rich_tree

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    write_site(board_of(rich_tree(folder / "tree")), folder / "site", folder / "tree")
    return folder / "site"


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose results are metered and priced in every way."""
    folder = tmp_path_factory.mktemp("metered")
    write_site(board_of(energy_tree(folder / "tree")), folder / "site", folder / "tree")
    return folder / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield chromium
        chromium.close()


def _watched(page: Page) -> list[str]:
    """The page's console messages, errors and network requests."""
    seen: list[str] = []
    page.on("console", lambda message: seen.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    page.on("requestfailed", lambda request: _note_failure(seen, request.url, request.failure))
    page.on("request", lambda request: None if request.url.startswith("file:") else seen.append(request.url))
    return seen


def _note_failure(seen: list[str], url: str, failure: str | None) -> None:
    if failure != "net::ERR_ABORTED":  # the next page was opened before this one's icon had loaded
        seen.append(f"failed: {url}: {failure}")


@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_fits_and_is_quiet(site: Path, metered: Path, browser: Browser, width: int) -> None:
    """No console messages, no network requests, no horizontal scrolling; the style sheet is applied."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    seen = _watched(page)

    for path in sorted([*site.rglob("*.html"), *metered.glob("[!r]*/*.html"), *metered.glob("results/*.html")]):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert page.evaluate("getComputedStyle(document.body).margin") == "0px", "the style sheet was not loaded"
    assert seen == []
    page.close()


def test_dark_mode(site: Path, browser: Browser, tmp_path: Path) -> None:
    """Background and charts follow the reader's setting; both can be captured."""
    grounds, lines = {}, {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto((site / "benchmarks" / "toy_mini.html").as_uri())
        grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        lines[scheme] = page.evaluate("getComputedStyle(document.querySelector('svg .line')).stroke")
        page.screenshot(path=str(tmp_path / f"{scheme}.png"), full_page=True)
        page.close()

    assert grounds == {"light": "rgb(246, 247, 248)", "dark": "rgb(16, 22, 28)"}
    assert lines["light"] != lines["dark"]
    assert all((tmp_path / f"{scheme}.png").stat().st_size > 10_000 for scheme in grounds)


def test_a_table_sorts_by_a_click_and_by_the_keyboard(site: Path, browser: Browser) -> None:
    """By measured time and by energy: what may not be compared and what is missing is last both ways, in the order of
    the page; the column reports how it is sorted."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "benchmarks" / "toy_mini.html").as_uri())
    heads = page.locator("table.ranks.sortable").first.locator("thead th")
    cells = page.locator("table.ranks.sortable").first.locator("tbody tr td:nth-child(7)")
    energy, measured = heads.nth(6), heads.nth(5)
    times = page.locator("table.ranks.sortable").first.locator("tbody tr td:nth-child(6)")

    for order in (1, -1):
        measured.locator("button").click()
        found = [float(cell.get_attribute("data-value") or "nan") * order for cell in times.all()]
        assert len(found) == 5
        assert found == sorted(found)

    energy.locator("button").click()
    up = [text.strip() for text in cells.all_inner_texts()]
    energy.locator("button").focus()
    page.keyboard.press("Enter")
    down = [text.strip() for text in cells.all_inner_texts()]

    assert energy.get_attribute("aria-sort") == "descending"
    assert up[0].startswith("0 kJ")
    assert down[0].startswith("57")
    assert [text.split("\n")[-1] for text in up[-2:]] == [text.split("\n")[-1] for text in down[-2:]]
    assert "estimated" in up[-2]
    assert up[-1] == down[-1] == "not measured"
    page.close()


def test_power_and_quality_share_one_time_axis(metered: Path, browser: Browser) -> None:
    """The line of `run_start` runs through both panels, and the curves end before the power does."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((metered / "results" / "acme--wall-a--toy_mini.html").as_uri())
    chart = page.locator("#curves-of-runs svg.chart")
    start = chart.locator("line.edge").bounding_box()
    whole = chart.bounding_box()
    ends = [box for dot in chart.locator("circle.end").all() if (box := dot.bounding_box())]
    watts = [box for line in chart.locator("g > polyline.line").all() if (box := line.bounding_box())]

    assert start is not None
    assert whole is not None
    assert start["height"] > whole["height"] / 2
    assert len(ends) == 5
    assert min(box["x"] for box in watts) < start["x"] < max(box["x"] for box in ends)
    assert max(box["x"] for box in ends) < max(box["x"] + box["width"] for box in watts)
    page.close()


def test_without_scripts_the_page_is_complete(site: Path, browser: Browser) -> None:
    """All rows are present, and there are no buttons without a function."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())

    assert page.locator("table.ranks:not(.leads) tbody tr").count() == 10
    assert page.locator("button").count() == 0
    context.close()
