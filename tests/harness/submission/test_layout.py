"""Where a result of MLPerf's lies, and what its control files claim."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.submission import claim, layout
from tests.rules.roundbox import RoundBox


def test_a_description_lies_where_the_results_of_a_submitter_lie() -> None:
    """At systems/<system>.json beside results/<system>/<benchmark>; of any other folder there is none."""
    assert layout.system_file(Path("/r/acme/results/box/bert")) == Path("/r/acme/systems/box.json")
    for folder in ("/r/acme/box/bert", "/r/acme/results/bert", "/results/bert", "/r/acme/results/box/bert/run"):
        assert layout.system_file(Path(folder)) is None


def test_logs_are_in_the_order_of_their_numbers() -> None:
    """As a person counts; what is no log is none."""
    names = ["result_10.txt", "result_2.txt", "result_b1.txt", "result_.txt", "result_1.log", "xresult_1.txt"]

    assert layout.log_names([*names, "result_a2.txt", "result_a10.txt", "result_2a.txt"]) == [
        *("result_2.txt", "result_2a.txt", "result_10.txt", "result_a2.txt", "result_a10.txt", "result_b1.txt")
    ]


def test_what_lies_deeper_is_no_log() -> None:
    """MLPerf's programs look for logs in the folder of the result alone: a run beside them would be one for us only."""
    assert layout.log_names(["result_4/log.txt", "result_0.txt", "result_\n.txt", "power/result_0/node_0.txt"]) == [
        "result_0.txt"
    ]


def test_a_log_in_a_folder_of_a_logs_name_is_no_run(tmp_path: Path) -> None:
    """Five logs, one of them moved into result_4/: the result has four runs, and that is said."""
    box = RoundBox(tmp_path)
    box.write()
    (box.folder / "result_4").mkdir()
    box.log(4).rename(box.folder / "result_4" / "log.txt")

    assert [log.path.name for log in box.result().runs] == [f"result_{number}.txt" for number in range(4)]
    assert "MLR001" in {finding.code for finding in box.judge()}


def test_a_place_is_where_results_of_a_submitter_lie() -> None:
    """Two folders below results/, itself below somebody."""
    assert layout.is_result_place(Path("/r/acme/results/box/bert"))
    assert layout.is_result_place(Path("/results/box/bert"))
    for folder in ("/", "/results", "/results/bert", "/r/results/bert", "/r/results/a/b/c", "/results/box/bert/run"):
        assert not layout.is_result_place(Path(folder))


@pytest.mark.parametrize(
    ("place", "names", "is_described", "is_bare"),
    [
        ("results/box/bert", [], True, True),
        ("results/box/bert", ["scaling.json"], True, True),
        ("results/box/bert", ["result_0.txt"], True, False),
        ("results/box/bert", [], False, False),
        ("results/bert", [], True, False),
        ("other/box/bert", [], True, False),
    ],
)
def test_a_result_without_logs_is_one_where_systems_are_described(
    tmp_path: Path, place: str, names: list[str], is_described: bool, is_bare: bool
) -> None:
    """In its place, beside systems/; a folder with a log is a result of another kind."""
    if is_described:
        (tmp_path / "systems").mkdir()

    assert layout.is_result_without_logs(tmp_path / place, names) is is_bare


@pytest.mark.parametrize(
    ("text", "factor", "why"),
    [
        ('{"scaling_factor": 1.5}', 1.5, ""),
        ('{"scaling_factor": 2, "more": []}', 2.0, ""),
        ('{"scaling_factor": true}', None, "scaling_factor is not a number"),
        ('{"scaling_factor": "1.5"}', None, "scaling_factor is not a number"),
        ('{"factor": 1.5}', None, "scaling_factor is not a number"),
        ("[1.5]", None, "scaling_factor is not a number"),
        ('{"scaling_factor": NaN}', None, "NaN is not a JSON number"),
        ('{"scaling_factor": 1.5, "scaling_factor": 1}', None, "the key 'scaling_factor' occurs twice"),
        ("", None, "not JSON: Expecting value at column 1"),
    ],
)
def test_a_factor_is_one_number(tmp_path: Path, text: str, factor: float | None, why: str) -> None:
    """What else stands there is no factor, and it is said why."""
    (tmp_path / "scaling.json").write_text(text)

    assert claim.claimed_factor(tmp_path / "scaling.json") == (factor, why)


def test_a_factor_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    """A pipe is not waited for."""
    os.mkfifo(tmp_path / "scaling.json")

    factor, why = claim.claimed_factor(tmp_path / "scaling.json")

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

    assert claim.excerpt(tmp_path / "f") == words
    assert claim.excerpt(tmp_path) == "not readable"
