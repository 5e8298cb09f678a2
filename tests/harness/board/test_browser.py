"""The pages in a real browser, from files: no errors, no overflow, dark mode, sorting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.board.compare import compare, side_of
from harness.board.index import Board
from harness.board.pages.round_render import compare_path, render_round_pages
from harness.board.rounds import RoundBoard
from harness.board.site import publish, write_site
from tests import fabricate
from tests.harness.board.reproduced import reproduced_tree
from tests.harness.board.test_index import SKU, board_of, energy_tree, rich_tree, submit
from tests.harness.board.test_round_render import of_two_axes, two_rounds
from tests.rounds import rounds_of

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
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of results that repeat each other."""
    folder = tmp_path_factory.mktemp("reproduced")
    write_site(board_of(reproduced_tree(folder / "tree")), folder / "site", folder / "tree")
    return folder / "site"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, Path]:
    """A board with sixty results in one table, and its site."""
    folder = tmp_path_factory.mktemp("many")
    accelerators = ("X100", "Y200", "Z300")
    before = dict(fabricate.SYSTEM)
    for number in range(60):
        model = {"accelerator_model_name": accelerators[number % 3], "accelerators_per_node": "8"}
        fabricate.SYSTEM.update(model)
        submit(
            folder / "tree",
            ("acme", "birch", "elm", "fir")[number % 4],
            f"system-{number:02d}",
            block_s=0.3 * 1.05**number,
            power=("wall", "counters", "model", None)[number % 4],
            sku=SKU,
            submitted=f"2026-{1 + number % 9:02d}-15",
        )
    fabricate.SYSTEM.clear()
    fabricate.SYSTEM.update(before)
    board = board_of(folder / "tree")
    write_site(board, folder / "site", folder / "tree")
    return board, folder / "site"


@pytest.fixture(scope="module")
def of_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of two MLPerf rounds."""
    folder = tmp_path_factory.mktemp("rounds")
    publish(render_round_pages(rounds_of(*two_rounds(folder))), (), folder / "site", [])
    return folder / "site"


@pytest.fixture(scope="module")
def two_axes(tmp_path_factory: pytest.TempPathFactory) -> tuple[RoundBoard, Path]:
    """A board of rounds with a result over epochs and one without evaluations, and its site."""
    folder = tmp_path_factory.mktemp("axes")
    board = of_two_axes(rounds_of(*two_rounds(folder)))
    publish(render_round_pages(board), (), folder / "site", [])
    return board, folder / "site"


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
def test_every_page_fits_and_is_quiet(
    site: Path, metered: Path, reproduced: Path, of_rounds: Path, browser: Browser, width: int
) -> None:
    """No console messages, no network requests, no horizontal scrolling; the style sheet is applied."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    seen = _watched(page)

    own = [*site.rglob("*.html"), *metered.glob("[!r]*/*.html"), *metered.glob("results/*.html")]
    own += [*reproduced.glob("*.html"), *reproduced.glob("[br]e*/*.html")]  # benchmarks/ and results/
    for path in sorted([*own, *of_rounds.glob("[!r]*/*.html"), *of_rounds.glob("r[!u]*/*.html")]):
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
    assert [text.split(" kJ")[0] for text in up] == ["0", "4.36", "57.0", "4.06", "not measured"]
    assert [text.split(" kJ")[0] for text in down] == ["4.36", "0", "57.0", "4.06", "not measured"]
    assert "void" in up[2]
    assert "estimated" in up[3]
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


def test_of_sixty_rows_eight_are_shown_until_asked_for(many: tuple[Board, Path], browser: Browser) -> None:
    """Search and filters find rows that are not shown; all rows on demand, below a head that stays."""
    page = browser.new_page(viewport={"width": 1260, "height": 900})
    page.goto((many[1] / "benchmarks" / "toy_mini.html").as_uri())
    rows, status = page.locator("table.ranks tbody tr:visible"), page.locator(".filters [role=status]")
    assert rows.count() == 8

    page.get_by_role("combobox", name="Accelerator").select_option("Y200")
    page.get_by_role("combobox", name="Submitter").select_option("fir")
    assert (status.inner_text(), rows.count()) == ("5 of 60 results", 5)
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("combobox", name="Since").select_option("2026-09-15")
    assert status.inner_text() == "6 of 60 results"
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("searchbox").fill("SYSTEM-59 x1")
    assert status.inner_text() == "0 of 60 results"
    page.get_by_role("searchbox").fill("system-59 fir")
    assert rows.locator("a").first.inner_text() == "fir"
    page.get_by_role("button", name="Clear").click()

    page.get_by_role("button", name="Show all 60 rows").click()
    assert rows.count() == 60
    head, last = page.locator("table.ranks thead th").nth(1), rows.nth(59)
    last.scroll_into_view_if_needed()
    below, above = last.bounding_box(), head.bounding_box()
    assert below is not None
    assert above is not None
    assert 0 <= above["y"] < below["y"] < 900
    page.get_by_role("button", name="Show the first 8").click()
    assert rows.count() == 8
    page.close()


def test_points_of_rows_that_are_not_shown_fade(many: tuple[Board, Path], browser: Browser) -> None:
    """The chart of costs has all sixty; those of the rows below it stand out."""
    page = browser.new_page(viewport={"width": 1260, "height": 900})
    page.goto((many[1] / "benchmarks" / "toy_mini--cost.html").as_uri())
    points = page.locator("svg.chart g[id^=cost]")

    assert points.count() == 60
    assert page.locator("svg.chart g[id^=cost]:not(.off)").count() == 8
    page.close()


def test_a_reader_chooses_the_rows_of_the_chart(many: tuple[Board, Path], browser: Browser) -> None:
    """At most eight, each in its colour; two of them can be compared."""
    page = browser.new_page(viewport={"width": 1260, "height": 900})
    seen = _watched(page)
    page.goto((many[1] / "benchmarks" / "toy_mini.html").as_uri())
    page.get_by_role("button", name="Show all 60 rows").click()
    lines, boxes = page.locator("figure.curves svg.chart polyline.line"), page.locator("td.pick input")

    boxes.nth(40).click()
    assert not boxes.nth(40).is_checked()
    assert "take one out first" in page.locator(".chosen [role=status]").inner_text()
    boxes.nth(0).uncheck()
    boxes.nth(40).check()
    page.wait_for_function("document.querySelector('.names').textContent.includes('system-40')")
    styles = [line.get_attribute("class") for line in lines.all()]
    assert len(styles) == 40
    assert len(set(styles)) == 8
    page.get_by_role("button", name="None").click()
    page.wait_for_function("document.querySelector('.names').textContent === ''")
    assert lines.count() == 0
    assert page.locator(".chosen [role=status]").inner_text().startswith("0 of at most 8 results chosen.")
    boxes.nth(2).check()
    boxes.nth(5).check()
    page.get_by_role("link", name="Compare these two").click()
    page.wait_for_selector("#compare table")
    assert [page.locator("select").nth(number).input_value() for number in (0, 1)] == [
        "elm--system-02--toy_mini",
        "birch--system-05--toy_mini",
    ]
    assert seen == []
    page.close()


def test_results_over_different_axes_share_no_chart(two_axes: tuple[RoundBoard, Path], browser: Browser) -> None:
    """The axis is that of the first chosen; the others are named. After a result without evaluations comes a chart."""
    board, site = two_axes
    part = board.rounds[0]
    rows = part.tables[0].ranked
    page = browser.new_page(viewport={"width": 1260, "height": 900})
    seen = _watched(page)
    page.goto((site / "benchmarks" / "retinanet--5.1.html").as_uri())
    card = page.locator("section.card").first
    boxes, status = card.locator("td.pick input"), card.locator("[role=status]")
    lines = card.locator("figure polyline.line")

    boxes.nth(1).check()
    page.wait_for_function("document.querySelector('.chosen [role=status]').textContent.includes('Not in the chart')")
    name = f"{rows[1].submitter}, {rows[1].system}"
    assert status.inner_text().endswith(f"because their evaluations are not over seconds since run_start: {name}.")
    assert name not in card.locator(".names li").all_inner_texts()
    card.get_by_role("button", name="None").click()
    boxes.nth(2).check()
    page.wait_for_function("document.querySelector('.names').children.length === 1")
    assert lines.count() == 0
    boxes.nth(0).check()
    page.wait_for_function("document.querySelector('.names').children.length === 2")
    assert lines.count() == len(rows[0].runs)
    card.get_by_role("button", name="None").click()
    boxes.nth(1).check()
    page.wait_for_function("document.querySelector('.chosen-words').textContent.endsWith('results, over epochs')")
    assert lines.count() == len(rows[1].runs)

    page.goto(f"{(site / compare_path(part, 'retinanet')).as_uri()}#{rows[0].slug}&{rows[1].slug}")
    page.wait_for_selector("#compare table")
    words = "A’s evaluations are over seconds since run_start, B’s over epochs: they cannot share a chart."
    assert page.get_by_text(words).count() == 1
    assert page.locator("#compare svg.chart polyline").count() == 0
    assert seen == []
    page.close()


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 4), (4, 40), (1, 2)])
def test_the_page_compares_as_the_command_does(
    many: tuple[Board, Path], browser: Browser, first: int, second: int
) -> None:
    """The same ratio, interval, p-value and verdict: significant or not, comparable or not."""
    board, site = many
    [table] = board.leaderboard.tables
    entries = [board.of(table.rows[number]) for number in (first, second)]
    found = compare(*(side_of(entry.row, entry.logs[0], board.ruleset) for entry in entries))
    page = browser.new_page(viewport={"width": 1260, "height": 900})
    page.goto(
        (site / "benchmarks" / "toy_mini--compare.html").as_uri() + "#" + "&".join(entry.slug for entry in entries)
    )
    page.wait_for_selector("#compare table")
    rows = page.locator("#compare table").first.locator("tbody tr")

    assert rows.count() == len(found.lines)
    for row, line in zip(rows.all(), found.lines, strict=True):
        cells = [cell.inner_text() for cell in row.locator("th, td").all()]
        assert cells[0] == line.a.name
        assert cells[3] == ("–" if line.ratio is None else f"{line.ratio:.4f}")
        assert cells[4] == ("–" if line.interval is None else f"{line.interval[0]:.4f} – {line.interval[1]:.4f}")
        assert cells[5] == ("–" if line.p is None else "< 0.0001" if line.p < 1e-4 else f"{line.p:.4f}")
        assert cells[6] == (line.verdict if line.p is None else line.verdict.replace(":", ""))
    page.close()


@pytest.mark.parametrize(
    "name", ["index", "benchmarks/toy_mini", "benchmarks/toy_mini--energy", "benchmarks/toy_mini--cost"]
)
def test_on_a_phone_the_first_row_is_visible(many: tuple[Board, Path], browser: Browser, name: str) -> None:
    """Its name is above the fold."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((many[1] / f"{name}.html").as_uri())
    box = page.locator("table.ranks tbody tr a").first.bounding_box()

    assert box is not None
    assert box["y"] + box["height"] < 844
    page.close()


@pytest.mark.parametrize("width", [390, 1260])
def test_axe_finds_nothing(
    many: tuple[Board, Path], metered: Path, reproduced: Path, of_rounds: Path, browser: Browser, width: int
) -> None:
    """No violation of axe-core's rules for accessibility on any kind of page, light or dark."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    names = ["index", "rules/index", "rules/tst001", "rules/benchmark-toy_mini", "results/elm--system-02--toy_mini"]
    names += [f"benchmarks/toy_mini{part}" for part in ("", "--energy", "--cost", "--compare")]
    pages = [many[1] / f"{name}.html" for name in names] + [metered / "results" / "acme--wall-a--toy_mini.html"]
    pages += [reproduced / "index.html", reproduced / "results" / "acme--box1--toy_mini.html"]
    names = ["index", "rules/index", "submitters/index", "submitters/toymaker", "rounds/5.1", "benchmarks/retinanet"]
    pages += [of_rounds / f"{name}.html" for name in (*names, "benchmarks/retinanet--5.1")]
    pages += [next(of_rounds.glob(f"results/5.1--{name}--*.html")) for name in ("toymaker", "wrong")]
    for scheme in ("light", "dark"):
        context = browser.new_context(  # the policy of the pages permits no foreign script
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            bypass_csp=True,  # type: ignore[arg-type]
        )
        page = context.new_page()
        for path in pages:
            page.goto(path.as_uri())
            page.wait_for_load_state()
            found = axe.run(page).response["violations"]
            assert [(item["id"], item["nodes"][0]["html"]) for item in found] == [], path
        context.close()


def test_without_scripts_the_page_is_complete(site: Path, browser: Browser) -> None:
    """All rows are present, and there are no buttons without a function."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())

    assert page.locator("table.ranks:not(.leads) tbody tr").count() == 10
    assert page.locator("button").count() == 0
    context.close()
