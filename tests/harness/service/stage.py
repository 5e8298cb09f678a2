"""A real service with three teams, under a ruleset whose only benchmark is fabricated: for browsers, and for pictures.

`tta board web` and `tta board worker` are processes of their own, with the real clock; people act on their pages.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

import rules
from harness.base.processes import python_environment
from harness.ruleset.model import BenchmarkRules
from harness.service import people, rounds, schema
from harness.service.beginning import First, begin
from harness.service.instance import Instance
from harness.service.rounds import Timetable
from tests import fabricate
from tests.harness.service.server import address_of
from tests.rules_folder import write_ruleset

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

DAY_MS = 86_400_000
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
# A command of `tta` that takes its rulesets from another folder first.
_TTA = "import rules, sys; rules.__path__.insert(0, sys.argv.pop(1)); from harness.cli import main; sys.exit(main())"
# Who there is, of which organisation, and as what. acme and bits submit; host does not.
PEOPLE = {
    "alice": ("acme", ()), "bob": ("bits", ()), "carol": ("host", ("is_auditor",)),
    "oscar": ("host", ("is_auditor", "is_organiser")),
}  # fmt: skip


@dataclass
class Stage:
    """A running service. instance: its folder and database, for what takes a person at the machine."""

    address: str
    instance: Instance
    folder: Path
    rules: BenchmarkRules
    tokens: dict[str, str] = field(default_factory=dict)

    def result(self, organisation: str, system: str, **options: Any) -> Path:
        """A folder as `tta run` leaves it; options: of `fabricate.write_result`."""
        described = {**fabricate.SYSTEM, "submitter": organisation, "system_name": system, **options.pop("more", {})}
        folder: Path = self.folder / "runs" / f"{organisation}-{system}"
        return fabricate.write_result(folder, system=described, rules=self.rules, **options)

    def let_the_day_come(self, name: str) -> None:
        """Move the day on which a round is published to now; the worker finds it by itself."""
        is_it = schema.round.c.name == name
        with self.instance.database.write() as connection:
            connection.execute(update(schema.round).where(is_it).values(publish_ms=self.instance.now_ms()))


@contextmanager
def staged(folder: Path, benchmark: BenchmarkRules | None = None) -> Iterator[Stage]:
    """A service with the round `rolling`, and the round `spring`, which is published in a month."""
    found = benchmark or fabricate.benchmark_rules()
    rulesets = write_ruleset(folder / "rules" / "v1", found).parent
    rules.__path__.insert(0, str(rulesets))
    try:
        with ExitStack() as stack:
            first = First("board.test/log", "http://127.0.0.1:8765/", "host", "olga")
            tokens = {"olga": begin(folder / "data", first)}
            instance = Instance(folder / "data")
            stack.callback(instance.close)
            now_ms = instance.now_ms()
            with instance.database.write() as connection:
                for name, (team, roles) in PEOPLE.items():
                    known = people.organisation_named(connection, team)
                    known = known or people.add_organisation(connection, team, now_ms)
                    person = people.add_person(connection, name, known, now_ms, **dict.fromkeys(roles, True))
                    _, tokens[name] = people.add_token(connection, person, "laptop", people.SCOPES, now_ms)
                times = Timetable(now_ms, None, now_ms + 14 * DAY_MS, now_ms + 30 * DAY_MS)
                rounds.add_round(connection, instance, "spring", "v1", times, None, is_reviewed=True)
            data, start = ("--data", str(folder / "data")), [sys.executable, "-c", _TTA, str(rulesets), "board"]
            stack.enter_context(_process([*start, "worker", *data]))
            web = stack.enter_context(_process([*start, "web", *data, "--port", "0"]))
            yield Stage(address_of(web), instance, folder, found, tokens)
    finally:
        rules.__path__.remove(str(rulesets))


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=python_environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; tests are skipped where there is no playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield found
        finally:
            found.close()


class Person:
    """Somebody at a browser without JavaScript, who does what is written on the pages."""

    def __init__(self, stage: Stage, browser: Browser, name: str) -> None:
        self.stage, self.name = stage, name
        self.context: BrowserContext = browser.new_context(java_script_enabled=False, base_url=stage.address)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(60_000)  # on a machine that does other things, too
        self.page.goto("/")
        self.page.get_by_role("link", name="Sign in").click()
        self.page.get_by_label("Token").fill(stage.tokens[name])
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("heading", name="Submissions", exact=True).wait_for()

    def open(self, path: str) -> Page:
        self.page.goto(path)
        return self.page

    def submit(self, result: Path, round_name: str = "spring", improves: str = "") -> str:
        """Hand in a folder by the form; return the path of the submission's page."""
        page = self.open(f"/submit?supersedes={improves}" if improves else "/submit")
        page.get_by_label("Folder of the result").set_input_files(result)
        page.get_by_label("Round").select_option(round_name)
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/submissions/*")
        return page.url.removeprefix(self.stage.address.rstrip("/"))

    def state(self, words: str) -> None:
        """Wait until the page of a submission, which looks again by itself while it is checked, says this."""
        self.page.locator("#state .chip", has_text=words).wait_for()

    def until(self, path: str, word: str, tries: int = 60) -> None:
        """Look at a page again and again until the state is this one: what the clock does comes by itself."""
        for _ in range(tries):
            self.open(path)
            if self.page.locator("#state .chip").first.inner_text().strip() == word:
                return
            self.page.wait_for_timeout(500)
        raise AssertionError(f"{path} is not {word!r}: {self.page.locator('#state').inner_text()}")

    def act(self, heading: str, why: str) -> None:
        """Open what can be done, fill in its form, and send it."""
        form = self.opened(heading)
        form.get_by_label("Why").fill(why)
        form.get_by_role("button", name=heading).click()

    def opened(self, heading: str) -> Locator:
        """What is below a heading that is opened by a click."""
        found = self.page.locator("#actions details", has=self.page.get_by_text(heading, exact=True)).first
        if found.get_attribute("open") is None:
            found.locator("summary").click()
        return found


def looks(browser: Browser, person: Person | None, stage: Stage) -> Iterator[tuple[str, Page]]:
    """A page for each way to look: light and dark, on a desk and on a phone, with the session of a person."""
    state = person.context.storage_state() if person is not None else None
    for scheme in ("light", "dark"):
        for width in (1280, 375):
            context = browser.new_context(  # the policy of the pages permits no foreign script, such as axe
                viewport={"width": width, "height": 900},
                color_scheme=scheme,  # type: ignore[arg-type]
                bypass_csp=True,
                base_url=stage.address,
                storage_state=state,
            )
            yield f"{scheme}-{width}", context.new_page()
            context.close()
