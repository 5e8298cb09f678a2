"""The auditor's report: one page that needs nothing, says everything, and lets nothing from outside speak HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.checker import engine, registry
from harness.checker.report import html
from harness.checker.report import text as report_text
from harness.findings import Finding, Severity
from harness.ruleset.model import Waiver
from harness.submission.result import read_result
from tests import fabricate
from tests.fabricate import find
from tests.rules.box import Box

HOSTILE = "</style><script>alert(1)</script>\x1b[31m\u202e\x00\"'><img src=x onerror=alert(2)>"
VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """Tags with their attributes, the text, and whether every tag is closed by its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words += data

    def attributes(self, name: str) -> Iterator[str]:
        return (value for _, attributes in self.tags if (value := attributes.get(name)) is not None)


def finding(code: str = "LOG001", line: int | None = 7, message: str = "it ended", **changes: Any) -> Finding:
    fields: dict[str, Any] = {"path": "out/result_0.txt", "severity": Severity.ERROR, **changes}
    return Finding(code, registry.checks()[code].name, line=line, message=message, **fields)


def page(*findings: Finding, **changes: Any) -> str:
    part = html.Part("out", "toy_mini", "not valid", "invalid", findings)
    documents = {code: rule.document for code, rule in registry.checks().items()}
    fields: dict[str, Any] = {"parts": [part], "documents": documents, "today": date(2026, 1, 2), **changes}
    return html.as_html(html.Report("Check", ("ruleset v1", "d" * 64), **fields))


def test_the_page_needs_nothing_beside_it() -> None:
    """No script, no link out, nothing loaded; its policy would let nothing be; every jump has its aim."""
    text = page(finding(), finding("TIM001"))
    found = Page(text)

    assert {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object", "form"} == set()
    assert all(href.startswith("#") for href in found.attributes("href"))
    assert {href[1:] for href in found.attributes("href")} <= set(found.attributes("id"))
    assert "url(" not in text
    assert "@import" not in text
    assert next(found.attributes("content")).startswith("default-src 'none'")
    assert text.isascii()


def test_a_finding_has_all_that_a_person_needs() -> None:
    """Code, severity, file and line, what was seen, its numbers, why it matters, what to do."""
    rule = registry.checks()["TIM001"]
    text = page(finding("TIM001", 21, "initialisation took 1900.0 s; the limit is 1800 s", evidence={"init_s": 1900.0}))
    words = " ".join(Page(text).words.split())

    for said in ("TIM001", "error", "result_0.txt:21", "took 1900.0 s; the limit is 1800 s", "init_s: 1900"):
        assert said in words
    assert " ".join(rule.why.split()) in words
    assert " ".join(rule.instead.replace("`", "").split()) in words


def test_findings_that_are_alike_stand_once_with_their_lines() -> None:
    """Four hundred lines are one entry with a count."""
    text = Page(page(*[finding(line=line, message=f"seq is {line}") for line in range(1, 401)])).words

    assert "result_0.txt: 400 times, lines 1, 2, 3, 4, 5, 6, 7, … 400" in text
    assert text.count("seq is") == 1


def test_findings_that_are_alike_in_many_files_stand_once_with_their_files() -> None:
    """What is wrong with every run of a result is said once."""
    found = [finding(path=f"out/result_{number}.txt", line=9, message=f"seed {number}") for number in range(40)]
    text = Page(page(*found)).words

    assert text.count("seed ") == 1
    assert "and similar ones in 39 more files" in text
    assert "result_0.txt:9" in text
    assert "and 10 more" in text


def test_errors_come_first_and_waived_findings_last() -> None:
    """A waived error does not stand among the errors; its waiver is shown with who, why and until."""
    waived = finding("TIM001", waived="a slow disk (J. Doe, until 2026-12-31)")
    text = page(finding("CST002", severity=Severity.WARNING), waived, finding())
    headings = re.findall("<h3>([A-Z][a-z]+):", text)

    assert headings == ["Errors", "Warnings", "Waived"]
    assert "a slow disk (J. Doe, until 2026-12-31)" in text


def test_the_waivers_of_the_rulebook_are_a_table() -> None:
    """With what they fit; an expired one says so."""
    waiver = Waiver("LOG001", "out/*", "J. Doe", "why not", "2025-12-31")
    words = Page(page(finding(), waivers=[engine.WaiverUse(waiver, 3, True)])).words

    assert all(said in words for said in ("J. Doe", "why not", "2025-12-31", "expired"))


def test_the_most_suspicious_things_come_first() -> None:
    """In their order, with their scores, before the table of contents."""
    text = page(finding(), worst=[html.Worst(finding(), 95.0), html.Worst(finding("TIM001"), 40.4)])

    assert "The 2 most suspicious things" in text
    assert text.index(">95<") < text.index(">40<") < text.index("<h2>Contents")


def test_nothing_from_outside_speaks_html() -> None:
    """Names of files, benchmarks, codes, messages, evidence, waivers, verdicts: letters, all of them."""
    hostile = Finding(
        HOSTILE, HOSTILE, Severity.ERROR, HOSTILE, 1, HOSTILE, {HOSTILE: HOSTILE, "list": [HOSTILE]}, HOSTILE
    )
    files = (report_text.FileFacts(HOSTILE, 1, None, HOSTILE),)
    part = html.Part(HOSTILE, HOSTILE, HOSTILE, "invalid", (hostile,), ((HOSTILE, HOSTILE),), files)
    waiver = Waiver(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    text = page(
        parts=[part, html.Part(HOSTILE, None, "valid", "valid", (), (), files)],
        worst=[html.Worst(hostile, 1)],
        waivers=[engine.WaiverUse(waiver, 0, False)],
    )
    found = Page(text)

    assert {tag for tag, _ in found.tags} & {"script", "img"} == set()
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert all(" " <= letter <= "~" or letter == "\n" for letter in text)
    assert "\x1b" not in found.words
    assert "\u202e" not in found.words


def test_many_results_say_why_once_a_check() -> None:
    """A round of thousands of logs stays a page that can be opened."""
    parts = [html.Part(f"r{number}", None, "not valid", "invalid", (finding(),)) for number in range(50)]
    text = page(parts=parts)

    assert text.count("Why it matters") == 1
    assert len(Page(text).words) < 60_000


def test_a_clean_check_says_that_it_looked() -> None:
    """And lists what it looked at, with its digest."""
    part = html.Part(
        "out", "toy_mini", "valid", "valid", (), (), (report_text.FileFacts("result_0.txt", 5, "ab" * 32),)
    )
    words = Page(page(parts=[part])).words

    assert "No findings on any result: every check in force was run" in words
    assert "result_0.txt" in words
    assert "abababababab" in words


def test_a_damaged_submission_is_shown_whole(tmp_path: Path) -> None:
    """Every finding of the check is on the page, with its place."""
    box = Box(tmp_path)
    find(box.runs[1], "tta_ledger").value["train_s"] = 1.0
    find(box.runs[2], "submission_org").value = HOSTILE
    box.write()
    findings = box.judge()
    judged = report_text.judged(read_result(box.folder), findings)

    words = Page(page(parts=[html.part_of(judged)])).words

    assert {item.code for item in findings} >= {"TIM003", "SYS005"}
    for item in findings:
        assert item.code in words
        assert item.place.removeprefix(f"{box.folder}/") in words


@pytest.mark.parametrize("verb", ["check", "audit"])
def test_the_verbs_write_the_page_alone(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is one document."""
    folder = fabricate.write_submission(tmp_path / "tree")

    status = cli.main([verb, str(folder), "--ruleset", "v1", "--format", "html"])
    out = capsys.readouterr().out

    assert status in (0, 1)
    assert out.startswith("<!doctype html>")
    assert str(folder) in Page(out).words
