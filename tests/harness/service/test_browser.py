"""The pages of a real service in a real browser, as a newcomer uses them: the whole way, without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.service.stage import CHROMIUM, Person, Stage, chromium, looks, staged

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}"),
]
LONG = "a-system-whose-name-goes-on-for-ninety-characters-because-the-name-of-a-folder-may-be-that-x16"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as found:
        yield found


def look(browser: Browser, stage: Stage, person: Person | None, *paths: str) -> None:
    """Pages are without a violation of axe's rules, quiet, and no wider than a phone, light and dark."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for name, page in looks(browser, person, stage):
        seen: list[str] = []
        page.on("pageerror", lambda error, seen=seen: seen.append(str(error)))
        for path in paths:
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (path, name)
            found = axe.run(page).response["violations"]
            assert [(item["id"], item["nodes"][0]["html"]) for item in found] == [], (path, name)
        assert seen == []


def test_a_result_goes_the_whole_way_by_the_pages_alone(stage: Stage, browser: Browser) -> None:
    """Signed in, submitted, checked, objected to, answered, decided, accepted, published on its day, disputed, settled
    by two, improved; by three teams, none of whom has JavaScript, and each of whom is shown what waits for them."""
    look(browser, stage, None, "/", "/account", "/submissions", "/rounds", "/nowhere")
    alice = Person(stage, browser, "alice")
    look(browser, stage, alice, "/submissions", "/account", "/submit")
    first = alice.submit(stage.result("acme", "box-one"))
    alice.state("under review")
    bob = Person(stage, browser, "bob")
    second = bob.submit(stage.result("bits", LONG, eval_s=0.8))
    bob.state("under review")

    # Another team objects, by rule, file and line.
    waiting = bob.open("/submissions").locator("#waiting")
    assert "Look it over" in waiting.inner_text()
    waiting.get_by_role("link", name="acme, box-one").click()
    form = bob.opened("Object")
    form.get_by_label("Rule").fill("TIM003")
    form.get_by_label("File").select_option("acme/results/box-one/toy_mini/result_0.txt")
    form.get_by_label("Line").fill("twelve")
    form.get_by_label("Why").fill("An evaluation is counted twice.\nSee the next line.")
    form.get_by_role("button", name="Object").click()
    assert "'twelve' is not a number" in bob.page.get_by_role("alert").inner_text()
    form = bob.opened("Object")
    form.get_by_label("Rule").fill("TIM003")
    form.get_by_label("File").select_option("acme/results/box-one/toy_mini/result_0.txt")
    form.get_by_label("Line").fill("12")
    form.get_by_label("Why").fill("An evaluation is counted twice.\nSee the next line.")
    form.get_by_role("button", name="Object").click()
    bob.state("objected to")
    assert "result_0.txt:12" in bob.page.locator("#objections").inner_text()

    # The owner answers.
    waiting = alice.open("/submissions").locator("#waiting")
    assert "Answer the objection." in waiting.inner_text()
    waiting.get_by_role("link", name="acme, box-one").click()
    alice.page.get_by_label("Your answer").fill("Line 12 begins the block, line 13 ends it.")
    alice.page.get_by_role("button", name="Comment").click()
    assert "line 13 ends it" in alice.page.locator("#comments").inner_text()

    # An organiser decides, and accepts.
    olga = Person(stage, browser, "olga")
    waiting = olga.open("/submissions").locator("#waiting")
    assert "Decide about the objection." in waiting.inner_text()
    look(browser, stage, olga, "/submissions", first)
    look(browser, stage, alice, "/submissions", first)
    olga.open(first).get_by_label("Your decision, and why").fill("It is counted once.")
    olga.page.get_by_role("button", name="Dismiss").click()
    olga.state("under review")
    olga.act("Accept", "Every objection is answered.")
    olga.state("accepted, not yet published")
    assert "it is published 20" in olga.page.locator("#state").inner_text()
    assert "acme" not in Person(stage, browser, "carol").open("/").locator("main").inner_text()

    # The day comes; what is accepted later is published at once.
    stage.let_the_day_come("spring")
    olga.until(first, "published")
    olga.open(second)
    olga.act("Accept", "It passes.")
    olga.until(second, "published")

    # Somebody disputes; two organisers decide.
    bob.open(first)
    bob.act("Dispute", "The system is not the one that is described.")
    bob.state("published, disputed")
    olga.open("/submissions")
    assert "Settle the dispute." in olga.page.locator("#waiting").inner_text()
    olga.open(first)
    olga.act("Uphold", "The description is right.")
    olga.state("published, disputed")
    oscar = Person(stage, browser, "oscar")
    waiting = oscar.open("/submissions").locator("#waiting")
    assert "Another organiser wants to uphold it" in waiting.inner_text()
    look(browser, stage, oscar, "/submissions", first)
    waiting.get_by_role("link", name="acme, box-one").click()
    oscar.act("Uphold", "So I think.")
    oscar.page.locator("#state .chip", has_text="disputed").wait_for(state="detached")

    # The team improves its result, and the old one keeps its page.
    alice.open(first).get_by_role("link", name="Submit a better one").click()
    third = alice.submit(stage.result("acme", "box-one-faster", eval_s=0.2), improves=first.rpartition("/")[2])
    alice.state("under review")
    olga.open(third)
    olga.act("Accept", "Faster, by the rules.")
    olga.until(third, "published")
    assert "Superseded by a newer result" in " ".join(alice.open(first).locator("#state").inner_text().split())
    history = alice.page.locator("#history").inner_text()
    for words in ("Objection dismissed host", "Every objection is answered.", "So I think.", "Disputed bits"):
        assert words in history
    results = third.replace("submissions", "results")
    look(browser, stage, None, "/", "/benchmarks/toy_mini.html", f"{results}.html", third, "/search?q=acme", "/log")
    look(browser, stage, None, "/benchmarks/toy_mini.html?after=x", "/submissions/" + "0" * 32, "/submissions")
    look(browser, stage, bob, "/submissions", "/submissions?mine=true", second, first)


def test_a_result_is_withdrawn_and_an_unfit_one_is_explained(stage: Stage, browser: Browser) -> None:
    """A result that is not valid says why to its team; withdrawn, it is still theirs to see. What the form cannot take
    it says, and so does a folder that is too large."""
    alice = Person(stage, browser, "alice")

    invalid = alice.submit(stage.result("acme", "box-two", num_runs=2))
    alice.state("not valid")
    assert "RUN001" in alice.page.locator("#findings").inner_text()
    look(browser, stage, alice, invalid)
    alice.opened("Withdraw").get_by_role("button", name="Withdraw").click()
    alice.state("withdrawn")
    assert "box-two" in alice.open("/submissions?mine=true").locator("#all").inner_text()

    page = alice.open("/submit")
    page.get_by_label("Folder of the result").set_input_files(stage.result("bits", "box-three"))
    page.get_by_role("button", name="Submit").click()
    assert "you submit for acme" in page.get_by_role("alert").inner_text()
    large = stage.result("acme", "box-four")
    with (large / "weights.bin").open("wb") as stream:
        stream.truncate(40 << 20)
    page.get_by_label("Folder of the result").set_input_files(large)
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name="Too large").wait_for()
