"""Findings as text and JSON: readable, whole, and harmless to a terminal."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from harness.base import files
from harness.checker import registry
from harness.checker.report import text as report_text
from harness.checker.report.text import Judged
from harness.findings import Finding, Severity
from harness.ruleset.model import RuleSet, Waiver
from harness.submission import result
from tests.fabricate import ruleset, write_submission

HOSTILE = "a\x1b[31mred\x07\r\n\x00\x9b\u202e\ud800end"
CHECKS = registry.checks()
TODAY = date(2025, 12, 1)
LAW: RuleSet = ruleset({"LOG001": "error", "QUA001": "warning", "CNV002": "note"})


def finding(code: str = "LOG001", line: int | None = 7, message: str = "it ended", **changes: Any) -> Finding:
    severities = {"LOG001": Severity.ERROR, "QUA001": Severity.WARNING, "CNV002": Severity.NOTE}
    fields: dict[str, Any] = {"path": "out/result_0.txt", "evidence": {"run_s": 1.5}, **changes}
    return Finding(code, CHECKS[code].name, severities[code], line=line, message=message, **fields)


def judged(*findings: Finding, path: str = "out", benchmark: str | None = "toy_mini") -> Judged:
    return Judged(path, benchmark, findings)


def test_text_without_findings_says_so() -> None:
    """Verdict and sum; nobody wonders whether anything was looked at."""
    assert report_text.as_text([judged()], LAW) == (
        "out (toy_mini): valid\n\n1 result, 1 valid; no findings; ruleset v1 (rrrrrrrrrrrr)\n"
    )


def test_lines_can_be_had_alone() -> None:
    """For verbs that have more to say."""
    assert report_text.findings_text([]) == "no findings"
    assert report_text.findings_text([finding()]) == "out/result_0.txt:7: LOG001 error: it ended"


def test_text_has_place_code_severity_and_message_errors_first() -> None:
    """Warnings and notes follow, and alone do not make a result invalid."""
    text = report_text.as_text(
        [judged(finding("QUA001", 3, "missed"), finding()), judged(finding("CNV002", None))], LAW
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
    """A hundred broken lines of one file do not hide what else there is; another file has a line of its own."""
    many = [finding(line=line, message=f"took {line}.5 s") for line in range(10, 110)]
    other = finding(path="out/result_1.txt", message="took 3.5 s")

    lines = report_text.as_text([judged(*many, other)], LAW).splitlines()

    assert lines[1:3] == [
        "  out/result_0.txt:10: LOG001 error: took 10.5 s (100 times, last on line 109)",
        "  out/result_1.txt:7: LOG001 error: took 3.5 s",
    ]
    assert lines[-1].startswith("1 result, 0 valid; 101 errors;")


def test_verbose_text_says_once_a_check_why_and_what_to_do() -> None:
    """After the findings, before the line that sums up; two findings of one check have one advice."""
    text = report_text.as_text([judged(finding(), finding(line=9, message="again"))], LAW, CHECKS)

    assert text.count("Why it matters:") == text.count("What to do:") == 1
    assert text.index("LOG001 error: again") < text.index("LOG001 A log does not record the end of its run\n")
    assert text.splitlines()[-1].startswith("1 result, 0 valid")


def test_the_json_says_what_each_waiver_did() -> None:
    """Who, why and until when; one that is past its day, and one that fits nothing."""
    waivers = (
        Waiver("LOG001", "acme/results", "J. Doe", "the disk was full", "2025-12-01"),
        Waiver("LOG001", "acme/results", "J. Doe", "the disk was full", "2025-11-30"),
        Waiver("QUA001", "acme/results", "J. Doe", "a mistake", "2026-01-01"),
    )
    law = ruleset(dict(LAW.codes), waivers=waivers)

    place = "out/acme/results/box1/toy_mini"
    found = judged(finding(path=f"{place}/result_0.txt"), path=place)

    document = json.loads(report_text.as_json([found], law, CHECKS, TODAY))

    assert [(item["num_findings"], item["is_expired"]) for item in document["waivers"]] == [
        (1, False),
        (1, True),
        (0, False),
    ]
    assert document["waivers"][0] == {
        "code": "LOG001",
        "path": "acme/results",
        "who": "J. Doe",
        "why": "the disk was full",
        "until": "2025-12-01",
        "is_expired": False,
        "num_findings": 1,
    }


def test_what_is_shown_of_a_result_is_whose_it_is_and_its_files(tmp_path: Path) -> None:
    """The claim's names; of a single log the log's own, and the log as its only file."""
    folder = write_submission(tmp_path / "tree")
    whole = report_text.judged(result.read_result(folder), [finding()])
    alone = report_text.judged(result.read_result(folder / "result_0.txt"), [])

    assert whole.facts == (("Submitter", "acme"), ("System", "box1"), ("Division", "closed"), ("Logs", "5"))
    assert [file.name for file in whole.files] == sorted(path.name for path in folder.iterdir())
    assert (alone.facts, [file.name for file in alone.files]) == ((*whole.facts[:3], ("Logs", "1")), ["result_0.txt"])
    assert alone.files[0].sha256 == files.sha256_of(folder / "result_0.txt")


def test_waived_findings_are_shown_and_not_counted() -> None:
    """Who reads the text sees why."""
    text = report_text.as_text([judged(finding(waived="agreed (me, until 2030-01-01)"))], LAW)

    assert "out (toy_mini): valid\n" in text
    assert "LOG001 error: it ended [waived: agreed (me, until 2030-01-01)]" in text
    assert "1 valid; 1 waived;" in text


def test_no_control_character_reaches_the_text() -> None:
    """Path, benchmark, message and waiver come from strangers."""
    found = finding(path=HOSTILE, message=HOSTILE, waived=HOSTILE)

    text = report_text.as_text([judged(found, path=HOSTILE, benchmark=HOSTILE)], LAW)

    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert len(text.splitlines()) == 4
    text.encode("utf-8")


def test_the_document_is_ascii_whatever_is_in_it() -> None:
    """Control characters are escaped, and what was there can be read back."""
    path = HOSTILE.replace("\ud800", "")  # an operating system gives no such names
    text = report_text.as_json([judged(finding(path=path, message=HOSTILE + "\x7f"), path=path)], LAW, CHECKS, TODAY)

    assert all(" " <= character <= "~" for character in text.replace("\n", ""))
    assert json.loads(text)["results"][0]["findings"][0]["message"] == HOSTILE + "\x7f"


def test_json_has_everything_of_a_finding() -> None:
    """Machines get numbers, not sentences."""
    results = [judged(finding()), judged(path="b", benchmark=None)]
    document = json.loads(report_text.as_json(results, LAW, CHECKS, TODAY))

    rule = CHECKS["LOG001"]
    assert rule.why
    assert rule.instead
    assert document == {
        "ruleset": "v1",
        "ruleset_digest": "r" * 64,
        "waivers": [],
        "checks": {"LOG001": {"title": rule.title, "why": rule.why, "instead": rule.instead}},
        "results": [
            {
                "path": "out",
                "benchmark": "toy_mini",
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
            {"path": "b", "benchmark": None, "valid": True, "findings": []},
        ],
    }
