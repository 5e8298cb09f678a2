"""Where a result of MLPerf's lies, and what its control files claim."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import roundplace


def test_a_description_lies_where_the_results_of_a_submitter_lie() -> None:
    """At systems/<system>.json beside results/<system>/<benchmark>; of any other folder there is none."""
    assert roundplace.system_file(Path("/r/acme/results/box/bert")) == Path("/r/acme/systems/box.json")
    for folder in ("/r/acme/box/bert", "/r/acme/results/bert", "/results/bert", "/r/acme/results/box/bert/run"):
        assert roundplace.system_file(Path(folder)) is None


def test_logs_are_in_the_order_of_their_numbers() -> None:
    """As a person counts; what is no log is none."""
    names = ["result_10.txt", "result_2.txt", "result_b1.txt", "result_.txt", "result_1.log", "xresult_1.txt"]

    assert roundplace.log_names([*names, "result_a2.txt", "result_a10.txt", "result_2a.txt"]) == [
        *("result_2.txt", "result_2a.txt", "result_10.txt", "result_a2.txt", "result_a10.txt", "result_b1.txt")
    ]


@pytest.mark.parametrize(
    ("text", "factor", "why"),
    [
        ('{"scaling_factor": 1.5}', 1.5, ""),
        ('{"scaling_factor": 2, "more": []}', 2.0, ""),
        ('{"scaling_factor": true}', None, "it has no number scaling_factor"),
        ('{"scaling_factor": "1.5"}', None, "it has no number scaling_factor"),
        ('{"factor": 1.5}', None, "it has no number scaling_factor"),
        ("[1.5]", None, "it has no number scaling_factor"),
        ('{"scaling_factor": NaN}', None, "NaN is not a JSON number"),
        ('{"scaling_factor": 1.5, "scaling_factor": 1}', None, "the key 'scaling_factor' stands twice"),
        ("", None, "not JSON: Expecting value at column 1"),
    ],
)
def test_a_factor_is_one_number(tmp_path: Path, text: str, factor: float | None, why: str) -> None:
    """What else stands there is no factor, and it is said why."""
    (tmp_path / "scaling.json").write_text(text)

    assert roundplace.claimed_factor(tmp_path / "scaling.json") == (factor, why)


def test_a_factor_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    """A pipe is not waited for."""
    os.mkfifo(tmp_path / "scaling.json")

    factor, why = roundplace.claimed_factor(tmp_path / "scaling.json")

    assert factor is None
    assert why.endswith("scaling.json: is not a regular file")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b" --rcp_bypass \n", "--rcp_bypass"),
        (b"--a\n--b\x1b[2J\xff", "--a\\n--b\\x1b[2J\ufffd"),
        (b"x" * 60, "x" * 60),
        (b"x" * 61, "x" * 59 + "…"),
        (b" \n", "empty"),
        (b"", "empty"),
        (b"x" * ((1 << 20) + 1), "not readable"),
    ],
)
def test_the_first_words_of_a_file_fit_into_a_message(tmp_path: Path, data: bytes, words: str) -> None:
    """On one line, without a control character, 60 at most; a file that is none has no words."""
    (tmp_path / "f").write_bytes(data)

    assert roundplace.first_words(tmp_path / "f") == words
    assert roundplace.first_words(tmp_path) == "not readable"
