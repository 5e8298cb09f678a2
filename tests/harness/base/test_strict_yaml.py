"""Strict YAML: texts only, each key once, or a one-line error."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.base import strict_yaml
from harness.errors import SubmissionError
from harness.submission.billing import read_billing
from harness.submission.claim import Unreadable, read_claim


def test_every_value_is_a_text() -> None:
    """Numbers, dates, truth values, nothing, tags: as they are written."""
    data = b"a: 1e3\nb: [yes, 2026-01-02, ~, null, !!int 7]\nc: {d: 0x10}\n"

    assert strict_yaml.texts(data) == {"a": "1e3", "b": ["yes", "2026-01-02", "~", "null", "7"], "c": {"d": "0x10"}}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a: 1\nb: 2\na: 1\n", "the key 'a' occurs twice"),
        (b"x:\n- {b: 1, 'b': 2}\n", "the key 'b' occurs twice"),
        (b"<<: {a: 1}\n<<: {b: 1}\n", "the key '<<' occurs twice"),
        (b'"\\e[2J": 1\n"\\e[2J": 1\n', r"x1b\[2J' occurs twice"),
        (b"a: " + b"[" * 20_000, "nested too deeply"),
        (b"a: 1\n---\nb: 2\n", "expected a single document"),
        (b"a: \xff\n", "unacceptable character"),
        (b"? [a]\n: 1\n", "while constructing a mapping"),
    ],
)
def test_what_readers_take_differently_is_refused(data: bytes, why: str) -> None:
    """In one line. Of a key that occurs twice, some readers take the first and some the last."""
    with pytest.raises(ValueError, match=why) as caught:
        strict_yaml.texts(data)

    assert "\n" not in str(caught.value)


def test_one_name_in_two_mappings_is_no_fault() -> None:
    """Nor is one that an alias brings back."""
    assert strict_yaml.texts(b"a: &a {n: 1}\nb: {n: 2}\nc: *a\n") == {"a": {"n": "1"}, "b": {"n": "2"}, "c": {"n": "1"}}


def test_files_of_a_submission_are_read_strictly(tmp_path: Path) -> None:
    """It is unknown which of two submitters or purchases is meant."""
    claim, bill, why = tmp_path / "submission.yaml", tmp_path / "billing.yaml", "not YAML: the key '{}' occurs twice"
    claim.write_text("submitter: acme\nsubmitter: mallory\n")
    bill.write_text("purchase: spot\npurchase: on_demand\nattempts: []\n")
    unreadable: list[Unreadable] = []

    assert read_claim(claim, unreadable) is None
    assert unreadable == [Unreadable(claim, why.format("submitter"))]
    with pytest.raises(SubmissionError, match=why.format("purchase")):
        read_billing(bill)
