"""Findings as SARIF: what a code host reads, harmless whatever a log holds; alike ones as one result with a count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.checker import registry
from harness.checker.report import sarif
from harness.findings import Finding, Severity, grouped

HOSTILE = "a\x1b[31mred\x07\r\n\x00\x9b\u202e\u007fend"
CHECKS = registry.checks()
LEVELS = {"LOG001": "error", "QUA001": "warning", "CNV002": "note"}


def finding(code: str = "LOG001", line: int | None = 7, message: str = "it ended", **changes: Any) -> Finding:
    fields: dict[str, Any] = {"path": "out/result_0.txt", "evidence": {"run_s": 1.5}, **changes}
    return Finding(code, CHECKS[code].name, Severity(LEVELS[code]), line=line, message=message, **fields)


def written(*findings: Finding, rank: float | None = None) -> str:
    found = [(group, rank) for group in grouped(findings)]
    return sarif.as_sarif(found, CHECKS.values(), LEVELS, {"ruleset": "v1"}, Path("/home/me"))


def run(*findings: Finding, rank: float | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(*findings, rank=rank))
    assert (document["version"], document["$schema"]) == ("2.1.0", sarif.SCHEMA)
    [found] = document["runs"]
    assert isinstance(found, dict)
    return found


def test_the_document_is_ascii_whatever_is_in_it() -> None:
    """Path and message come from strangers."""
    text = written(finding(path=HOSTILE, message=HOSTILE, waived=HOSTILE))

    assert all(" " <= character <= "~" for character in text.replace("\n", ""))
    assert "\\u001b" not in json.loads(text)["runs"][0]["results"][0]["message"]["text"]


def test_sarif_describes_the_checks_in_force() -> None:
    """Identifier, name, text and level of each; a result points at its rule."""
    found = run(finding("QUA001"))
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
    """The line where there is one, none where there is none."""
    without, with_line = run(finding(), finding(line=None, message="it never began"))["results"]

    assert (with_line["level"], with_line["message"]) == ("error", {"text": "it ended"})
    place = with_line["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "out/result_0.txt"}, "region": {"startLine": 7}}
    assert "region" not in without["locations"][0]["physicalLocation"]


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
    """To the folder in which the command ran, with what is no letter of an address escaped."""
    place = run(finding(path=path))["results"][0]["locations"][0]["physicalLocation"]

    assert place["artifactLocation"] == {"uri": uri}


def test_sarif_suppresses_what_is_waived() -> None:
    """A viewer of SARIF does not show it, and knows why."""
    result = run(finding(waived="agreed"))["results"][0]

    assert result["suppressions"] == [{"kind": "external", "justification": "agreed"}]


def test_four_hundred_equal_lines_are_one_result() -> None:
    """On the first line; twenty more and the last are related, none of them twice, and the number is there."""
    lines = [7, 7, *range(8, 406)]
    [result] = run(*[finding(line=line, message=f"seq is {line}") for line in lines])["results"]

    assert (result["occurrenceCount"], result["message"]["text"]) == (400, "seq is 7")
    assert [place["physicalLocation"]["region"]["startLine"] for place in result["locations"]] == [7]
    related = [place["physicalLocation"]["region"]["startLine"] for place in result["relatedLocations"]]
    assert related == [*range(8, 27), 405]


def test_a_result_that_occurs_once_has_no_count() -> None:
    """Nor a rank, where nothing ranks it."""
    [alone] = run(finding())["results"]
    [ranked] = run(finding(), rank=62.5)["results"]

    assert {"occurrenceCount", "relatedLocations", "rank"} & set(alone) == set()
    assert ranked["rank"] == 62.5
