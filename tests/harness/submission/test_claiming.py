"""The claim for a result as `tta run` left it: what it is made of, and what is said where it cannot be made."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SubmissionError, TtaError, UsageError
from harness.submission.claim import Claim
from harness.submission.claiming import claim_of
from harness.submission.result import read_result
from tests import fabricate

DAY = date(2025, 11, 22)


def claimed(folder: Path, system: dict[str, Any] | None = None, **options: Any) -> Claim:
    """The claim for a result whose system description has these fields changed; None removes one."""
    fabricate.write_result(folder)
    described = {**fabricate.SYSTEM, **(system or {})}
    text = json.dumps({name: value for name, value in described.items() if value is not None})
    (folder / "system.json").write_text(text)
    return claim_of(read_result(folder), "v1", DAY, **options)


@pytest.mark.parametrize(
    ("status", "category"),
    [
        ("Available on-premise", "available"),
        ("Available cloud", "available"),
        ("Preview", "preview"),
        ("x", "research"),
    ],
)
def test_a_claim_says_what_logs_and_description_say(tmp_path: Path, status: str, category: str) -> None:
    """Whose and of which system, what was trained, and the category that the status stands for."""
    found = claimed(tmp_path / "r", {"status": status}, notes="a line")

    assert (found.submitter, found.system, found.benchmark, found.division) == ("acme", "box1", "toy_mini", "closed")
    assert (found.category, found.ruleset, found.submitted, found.notes) == (category, "v1", "2025-11-22", "a line")
    assert claimed(tmp_path / "s", {"status": status}, category="preview", submitter="acme").category == "preview"


@pytest.mark.parametrize(
    ("system", "options", "error", "why"),
    [
        ({"submitter": None}, {}, SubmissionError, "'submitter' is missing or not a string"),
        ({"system_name": 3}, {}, SubmissionError, "'system_name' is missing or not a string"),
        ({}, {"category": "best"}, UsageError, "unknown category"),
        ({}, {"submitter": "bits"}, UsageError, "the runs were made under the name 'acme'"),
        ({}, {"weights_at": "https://a.example/"}, UsageError, "has weights that are too large"),
    ],
)
def test_a_claim_that_cannot_be_made_is_a_sentence(
    tmp_path: Path, system: dict[str, Any], options: dict[str, str], error: type[TtaError], why: str
) -> None:
    """It names the file or the choice."""
    with pytest.raises(error, match=why):
        claimed(tmp_path / "r", system, **options)


def test_a_folder_without_a_log_that_can_be_read_has_no_claim(tmp_path: Path) -> None:
    """With the reason, where there is a log at all."""
    empty, broken = tmp_path / "empty", tmp_path / "broken"
    empty.mkdir()
    broken.mkdir()
    (broken / "result_0.txt").write_bytes(b"\xff\n")

    with pytest.raises(SubmissionError, match=r"can be read$"):
        claim_of(read_result(empty), "v1", DAY)
    with pytest.raises(SubmissionError, match=r"can be read: .*result_0.txt: "):
        claim_of(read_result(broken), "v1", DAY)
