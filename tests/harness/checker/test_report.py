"""The reports of findings: text, JSON, SARIF and HTML; complete, readable, and harmless whatever a log contains."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.base import files
from harness.checker import engine, registry
from harness.checker.report import html, sarif
from harness.checker.report import text as report_text
from harness.checker.report.text import Judged
from harness.findings import Finding, Severity, grouped
from harness.ruleset.model import RuleSet, Waiver
from harness.submission.result import read_result
from tests.fabricate import find, ruleset, write_submission
from tests.rules.box import TODAY, Box

HOSTILE = "a\x1b[31mred\x07\r\n\x00\x9b\u202e\x7f\ud800end"
PATH = HOSTILE.replace("\ud800", "")  # no name of a file has it
MARKUP = "</style><script>alert(1)</script>\x1b[31m\u202e\x00\"'><img src=x onerror=alert(2)>"
VOID = {"meta", "br", "link", "img"}
CHECKS = registry.checks()
LEVELS = {"LOG001": "error", "QUA001": "warning", "CNV002": "note"}
LAW: RuleSet = ruleset(LEVELS)


def finding(code: str = "LOG001", line: int | None = 7, message: str = "it ended", **changes: Any) -> Finding:
    severity = Severity(LEVELS.get(code, "error"))
    fields: dict[str, Any] = {"path": "out/result_0.txt", "evidence": {"run_s": 1.5}, "severity": severity, **changes}
    return Finding(code, CHECKS[code].name, line=line, message=message, **fields)


def judged(*findings: Finding, path: str = "out", benchmark: str | None = "toy_mini") -> Judged:
    return Judged(path, benchmark, findings, "v1")


def test_a_text_without_findings_says_so() -> None:
    """Verdict and sum show that the check ran."""
    assert report_text.as_text([judged()], [LAW]) == (
        "out (toy_mini): valid\n\n1 result, 1 valid; no findings; ruleset v1 (rrrrrrrrrrrr)\n"
    )
    assert report_text.findings_text([]) == "no findings"


def test_a_text_has_place_code_severity_and_message_errors_first() -> None:
    """Warnings and notes follow, and do not by themselves make a result invalid."""
    text = report_text.as_text(
        [judged(finding("QUA001", 3, "missed"), finding()), judged(finding("CNV002", None))], [LAW]
    )

    assert text == (
        "out (toy_mini): not valid\n"
        "  out/result_0.txt:7: LOG001 error: it ended\n"
        "  out/result_0.txt:3: QUA001 warning: missed\n"
        "\n"
        "out (toy_mini): valid\n"
        "  out/result_0.txt: CNV002 note: it ended\n"
        "\n"
        "2 results, 1 valid; 1 error, 1 warning, 1 note; ruleset v1 (rrrrrrrrrrrr)\n"
    )


def test_findings_that_differ_in_numbers_only_are_one_line_with_a_count() -> None:
    """A hundred broken lines in one file do not hide the rest; another file has a line of its own."""
    many = [finding(line=line, message=f"took {line}.5 s") for line in range(10, 110)]
    other = finding(path="out/result_1.txt", message="took 3.5 s")

    lines = report_text.as_text([judged(*many, other)], [LAW]).splitlines()

    assert lines[1:3] == [
        "  out/result_0.txt:10: LOG001 error: took 10.5 s (100 times, last on line 109)",
        "  out/result_1.txt:7: LOG001 error: took 3.5 s",
    ]
    assert lines[-1].startswith("1 result, 0 valid; 101 errors;")


def test_a_verbose_text_explains_each_check_once() -> None:
    """Why it matters and what to do, between the findings and the sum."""
    text = report_text.as_text([judged(finding(), finding(line=9, message="again"))], [LAW], CHECKS)

    assert text.count("Why it matters:") == text.count("What to do:") == 1
    assert text.index("LOG001 error: again") < text.index("LOG001 A log does not record the end of its run\n")
    assert text.splitlines()[-1].startswith("1 result, 0 valid")


def test_the_json_shows_what_each_waiver_did() -> None:
    """Who, why, until when, and how many findings it fits."""
    waiver = Waiver("LOG001", "acme/results", "J. Doe", "the disk was full", "2025-12-01")
    place = "out/acme/results/box1/toy_mini"
    found = judged(finding(path=f"{place}/result_0.txt"), path=place)

    document = json.loads(report_text.as_json([found], [ruleset(LEVELS, waivers=(waiver,))], CHECKS, TODAY))

    assert document["rulesets"][0]["waivers"] == [
        {
            "code": "LOG001",
            "path": "acme/results",
            "who": "J. Doe",
            "why": "the disk was full",
            "until": "2025-12-01",
            "is_expired": False,
            "num_findings": 1,
        }
    ]


def test_a_result_is_shown_with_its_owner_and_its_files(tmp_path: Path) -> None:
    """The names in the claim; for a single log those in the log, which is its only file."""
    folder = write_submission(tmp_path / "tree")
    whole = report_text.judged(read_result(folder), [finding()], LAW)
    alone = report_text.judged(read_result(folder / "result_0.txt"), [], LAW)

    assert whole.facts == (("Submitter", "acme"), ("System", "box1"), ("Division", "closed"), ("Logs", "5"))
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert [file.name for file in whole.files] == there
    assert (alone.facts, [file.name for file in alone.files]) == ((*whole.facts[:3], ("Logs", "1")), ["result_0.txt"])
    assert alone.files[0].sha256 == files.sha256_of(folder / "result_0.txt")


def test_waived_findings_are_shown_and_not_counted() -> None:
    """With the reason."""
    text = report_text.as_text([judged(finding(waived="agreed (me, until 2030-01-01)"))], [LAW])

    assert "out (toy_mini): valid\n" in text
    assert "LOG001 error: it ended [waived: agreed (me, until 2030-01-01)]" in text
    assert "1 valid; 1 waived;" in text


def test_no_control_character_reaches_the_text() -> None:
    """Path, benchmark, message and waiver come from outside."""
    found = finding(path=HOSTILE, message=HOSTILE, waived=HOSTILE)

    text = report_text.as_text([judged(found, path=HOSTILE, benchmark=HOSTILE)], [LAW])

    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert len(text.splitlines()) == 4
    text.encode("utf-8")


def test_the_json_is_ascii_whatever_it_contains() -> None:
    """Control characters are escaped, and the original can be read back."""
    text = report_text.as_json([judged(finding(path=PATH, message=HOSTILE), path=PATH)], [LAW], CHECKS, TODAY)

    assert all(" " <= character <= "~" for character in text.replace("\n", ""))
    assert json.loads(text)["results"][0]["findings"][0]["message"] == HOSTILE


def test_the_json_has_everything_about_a_finding() -> None:
    """Numbers, not sentences."""
    results = [judged(finding()), judged(path="b", benchmark=None)]
    document = json.loads(report_text.as_json(results, [LAW], CHECKS, TODAY))

    rule = CHECKS["LOG001"]
    assert rule.why
    assert rule.instead
    assert document == {
        "rulesets": [{"ruleset": "v1", "ruleset_digest": "r" * 64, "waivers": []}],
        "checks": {"LOG001": {"title": rule.title, "why": rule.why, "instead": rule.instead}},
        "results": [
            {
                "path": "out",
                "benchmark": "toy_mini",
                "ruleset": "v1",
                "valid": False,
                "findings": [
                    {
                        "code": "LOG001",
                        "name": "run_stop_missing",
                        "severity": "error",
                        "path": "out/result_0.txt",
                        "line": 7,
                        "message": "it ended",
                        "evidence": {"run_s": 1.5},
                        "waived": None,
                        "count": 1,
                        "lines": [7],
                    }
                ],
            },
            {"path": "b", "benchmark": None, "ruleset": "v1", "valid": True, "findings": []},
        ],
    }


def written(*findings: Finding, rank: float | None = None) -> str:
    found = [(group, rank) for group in grouped(findings)]
    return sarif.as_sarif([sarif.run_record(found, CHECKS.values(), LEVELS, {"ruleset": "v1"}, Path("/home/me"))])


def sarif_of(*findings: Finding, rank: float | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(*findings, rank=rank))
    assert (document["version"], document["$schema"]) == ("2.1.0", sarif.SCHEMA)
    [found] = document["runs"]
    assert isinstance(found, dict)
    return found


def test_sarif_is_ascii_whatever_it_contains() -> None:
    """Path and message come from outside."""
    text = written(finding(path=PATH, message=HOSTILE, waived=HOSTILE))

    assert all(" " <= character <= "~" for character in text.replace("\n", ""))
    assert "\\u001b" not in json.loads(text)["runs"][0]["results"][0]["message"]["text"]


def test_sarif_describes_the_checks_in_force() -> None:
    """Identifier, name, text and level of each; a result points at its rule."""
    found = sarif_of(finding("QUA001"))
    driver = found["tool"]["driver"]
    result = found["results"][0]

    assert found["properties"] == {"ruleset": "v1"}
    assert [rule["id"] for rule in driver["rules"]] == ["CNV002", "LOG001", "QUA001"]
    assert [rule["defaultConfiguration"]["level"] for rule in driver["rules"]] == ["note", "error", "warning"]
    rule = driver["rules"][result["ruleIndex"]]
    assert (rule["id"], rule["name"]) == ("QUA001", "TargetNotReached")
    assert rule["shortDescription"]["text"] == "A run did not reach its target."
    assert "## Why it matters" in rule["help"]["markdown"]


def test_sarif_results_have_level_message_and_place() -> None:
    """With the line, if there is one; a waived finding is suppressed, with the reason."""
    waived = finding(line=None, message="it never began", waived="agreed")
    without, with_line = sarif_of(finding(), waived)["results"]

    assert (with_line["level"], with_line["message"]) == ("error", {"text": "it ended"})
    place = with_line["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "out/result_0.txt"}, "region": {"startLine": 7}}
    assert "region" not in without["locations"][0]["physicalLocation"]
    assert without["suppressions"] == [{"kind": "external", "justification": "agreed"}]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("out/a b#c?.txt", "out/a%20b%23c%3F.txt"),
        ("/home/me/out/x.txt", "out/x.txt"),
        ("/home/you/x.txt", "../you/x.txt"),
        ("./out//x.txt", "out/x.txt"),
        ("out/\udcff.txt", "out/%FF.txt"),
    ],
)
def test_sarif_addresses_are_relative(path: str, uri: str) -> None:
    """To the folder in which the command ran, with special characters escaped."""
    place = sarif_of(finding(path=path))["results"][0]["locations"][0]["physicalLocation"]

    assert place["artifactLocation"] == {"uri": uri}


def test_four_hundred_equal_lines_are_one_result() -> None:
    """On the first line, with their number; twenty more and the last are related, none of them twice."""
    lines = [7, 7, *range(8, 406)]
    [result] = sarif_of(*[finding(line=line, message=f"seq is {line}") for line in lines])["results"]

    assert (result["occurrenceCount"], result["message"]["text"]) == (400, "seq is 7")
    assert [place["physicalLocation"]["region"]["startLine"] for place in result["locations"]] == [7]
    related = [place["physicalLocation"]["region"]["startLine"] for place in result["relatedLocations"]]
    assert related == [*range(8, 27), 405]


def test_a_result_that_occurs_once_has_no_count() -> None:
    """Nor a rank, unless it is given one."""
    [alone] = sarif_of(finding())["results"]
    [ranked] = sarif_of(finding(), rank=62.5)["results"]

    assert {"occurrenceCount", "relatedLocations", "rank"} & set(alone) == set()
    assert ranked["rank"] == 62.5


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


def page(*findings: Finding, **changes: Any) -> str:
    part = html.Part("out", "toy_mini", "not valid", "invalid", findings)
    documents = {code: rule.document for code, rule in CHECKS.items()}
    fields: dict[str, Any] = {"parts": [part], "documents": documents, "today": date(2026, 1, 2), **changes}
    return html.as_html(html.Report("Check", [("ruleset v1", "d" * 64)], **fields))


def test_the_page_is_self_contained() -> None:
    """No script, no external link, nothing loaded, and a policy that would forbid it; every jump has its target."""
    text = page(finding(), finding("TIM001"))
    found = Page(text)

    assert {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object", "form"} == set()
    assert all(href.startswith("#") for href in found.attributes("href"))
    assert {href[1:] for href in found.attributes("href")} <= set(found.attributes("id"))
    assert "url(" not in text
    assert "@import" not in text
    assert next(found.attributes("content")).startswith("default-src 'none'")
    assert text.isascii()


def test_the_page_explains_a_finding() -> None:
    """Code, severity, file and line, what was seen, its numbers, why it matters, what to do."""
    rule = CHECKS["TIM001"]
    text = page(finding("TIM001", 21, "initialisation took 1900.0 s; the limit is 1800 s", evidence={"init_s": 1900.0}))
    words = " ".join(Page(text).words.split())

    for said in ("TIM001", "error", "result_0.txt:21", "took 1900.0 s; the limit is 1800 s", "init_s: 1900"):
        assert said in words
    assert " ".join(rule.why.split()) in words
    assert " ".join(rule.instead.replace("`", "").split()) in words


def test_similar_findings_are_one_entry_with_their_lines() -> None:
    """Of four hundred lines."""
    text = Page(page(*[finding(line=line, message=f"seq is {line}") for line in range(1, 401)])).words

    assert "result_0.txt: 400 times, lines 1, 2, 3, 4, 5, 6, 7, … 400" in text
    assert text.count("seq is") == 1


def test_similar_findings_in_many_files_are_one_entry_with_the_files() -> None:
    """A fault of every run of a result is reported once."""
    found = [finding(path=f"out/result_{number}.txt", line=9, message=f"seed {number}") for number in range(40)]
    text = Page(page(*found)).words

    assert text.count("seed ") == 1
    assert "and similar ones in 39 more files" in text
    assert "result_0.txt:9" in text
    assert "and 10 more" in text


def test_errors_come_first_and_waived_findings_last() -> None:
    """A waived error is not among the errors; its waiver is shown with who, why and until."""
    waived = finding("TIM001", waived="a slow disk (J. Doe, until 2026-12-31)")
    text = page(finding("QUA001"), waived, finding())
    headings = re.findall("<h3>([A-Z][a-z]+):", text)

    assert headings == ["Errors", "Warnings", "Waived"]
    assert "a slow disk (J. Doe, until 2026-12-31)" in text


def test_the_waivers_of_the_rulebook_are_a_table() -> None:
    """With an expired one marked."""
    waiver = Waiver("LOG001", "out/*", "J. Doe", "why not", "2025-12-31")
    words = Page(page(finding(), waivers=[engine.WaiverUse(waiver, 3, True)])).words

    assert all(said in words for said in ("J. Doe", "why not", "2025-12-31", "expired"))


def test_the_most_suspicious_things_come_first() -> None:
    """In order, with their scores, before the table of contents."""
    text = page(finding(), worst=[html.Worst(finding(), 95.0), html.Worst(finding("TIM001"), 40.4)])

    assert "The 2 most suspicious things" in text
    assert text.index(">95<") < text.index(">40<") < text.index("<h2>Contents")


def test_markup_from_outside_is_shown_as_text() -> None:
    """In names of files and benchmarks, codes, messages, evidence, waivers and verdicts."""
    hostile = Finding(MARKUP, MARKUP, Severity.ERROR, MARKUP, 1, MARKUP, {MARKUP: MARKUP, "list": [MARKUP]}, MARKUP)
    files = (report_text.FileFacts(MARKUP, 1, None, MARKUP),)
    part = html.Part(MARKUP, MARKUP, MARKUP, "invalid", (hostile,), MARKUP, ((MARKUP, MARKUP),), files)
    waiver = Waiver(MARKUP, MARKUP, MARKUP, MARKUP, MARKUP)
    text = page(
        parts=[part, html.Part(MARKUP, None, "valid", "valid", (), MARKUP, (), files)],
        worst=[html.Worst(hostile, 1)],
        waivers=[engine.WaiverUse(waiver, 0, False)],
    )
    found = Page(text)

    assert {tag for tag, _ in found.tags} & {"script", "img"} == set()
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert all(" " <= letter <= "~" or letter == "\n" for letter in text)
    assert "\x1b" not in found.words
    assert "\u202e" not in found.words


def test_a_check_is_explained_once_for_many_results() -> None:
    """A round of thousands of logs is a page that can be opened."""
    parts = [html.Part(f"r{number}", None, "not valid", "invalid", (finding(),)) for number in range(50)]
    text = page(parts=parts)

    assert text.count("Why it matters") == 1
    assert len(Page(text).words) < 60_000


def test_a_page_without_findings_lists_what_was_checked() -> None:
    """With the digests."""
    part = html.Part(
        "out", "toy_mini", "valid", "valid", (), "v1", (), (report_text.FileFacts("result_0.txt", 5, "ab" * 32),)
    )
    words = Page(page(parts=[part])).words

    assert "No findings on any result: every check in force was run" in words
    assert "result_0.txt" in words
    assert "abababababab" in words


def test_the_page_shows_every_finding_of_a_damaged_submission(tmp_path: Path) -> None:
    """With its place."""
    box = Box(tmp_path)
    find(box.runs[1], "tta_ledger").value["train_s"] = 1.0
    find(box.runs[2], "submission_org").value = MARKUP
    box.write()
    findings = box.judge()
    judged = report_text.judged(read_result(box.folder), findings, LAW)

    words = Page(page(parts=[html.part_of(judged)])).words

    assert {item.code for item in findings} >= {"TIM003", "SYS005"}
    for item in findings:
        assert item.code in words
        assert item.place.removeprefix(f"{box.folder}/") in words


@pytest.mark.parametrize("verb", ["check", "audit"])
def test_a_verb_writes_only_the_page(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is one document."""
    folder = write_submission(tmp_path / "tree")

    status = cli.main([verb, str(folder), "--ruleset", "v1", "--format", "html"])
    out = capsys.readouterr().out

    assert status in (0, 1)
    assert out.startswith("<!doctype html>")
    assert str(folder) in Page(out).words
