"""Lines of MLPerf's that cannot be read: all are counted, and what they may say is not told as absent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.findings import Finding
from harness.log import run_log
from harness.log.events import TOKEN
from tests.auditing import audit
from tests.mlperflog import Entry, drop
from tests.rules.mlperfbox import MlperfBox
from tests.rules.roundbox import RoundBox

UNTIMED = TOKEN + '{"namespace": "main", "time_s": 0.0, "key": "cache_clear", "value": "true", "metadata": {}}'


def of(found: list[Finding], code: str) -> list[Finding]:
    return [finding for finding in found if finding.code == code]


def judge_text(place: Path, text: str) -> list[Finding]:
    """What is found on a log with these characters."""
    box = MlperfBox(place)
    box.write()
    box.log().write_bytes(text.encode())
    return box.judge()


def lines_of(place: Path) -> list[str]:
    """Of a valid log, without their ends."""
    box = MlperfBox(place / "sound")
    box.write()
    return box.log().read_text().splitlines()


@pytest.mark.parametrize(
    ("line", "num_lines"), [(UNTIMED, 100), (UNTIMED, 101), (UNTIMED, 461), (TOKEN + "{", 101), (TOKEN + "{", 1535)]
)
def test_every_line_that_cannot_be_read_is_counted(line: str, num_lines: int, tmp_path: Path) -> None:
    """Also beyond the hundred of which each is kept, and where the reason is no longer asked for."""
    [damage] = of(judge_text(tmp_path, f"{line}\n" * num_lines), "MLP001")

    assert f", and {num_lines - 1:,} more such lines; " in damage.message
    assert damage.evidence["num_lines"] == num_lines


def test_a_line_that_has_no_time_is_counted_beside_others(tmp_path: Path) -> None:
    """Those beyond the hundred that are looked at, and those that are looked at all the same, are in one sum."""
    [damage] = of(judge_text(tmp_path, f"{UNTIMED}\n" * 150 + f"{TOKEN}[]\n" * 7), "MLP001")

    assert ", and 156 more such lines; " in damage.message


def test_one_more_is_one_line(tmp_path: Path) -> None:
    """In words that a person would write."""
    [damage] = of(judge_text(tmp_path, f"{UNTIMED}\n" * 2), "MLP001")

    assert damage.message.startswith("time_ms is missing or not a number, and 1 more such line; what such lines say")


@pytest.mark.parametrize(
    ("num_lines", "words"),
    [(1, "1 line cannot be read, beside 0 that can; time_ms"), (1535, "1,535 lines cannot be read, beside 0 that can")],
)
def test_the_auditor_counts_all_lines_that_cannot_be_read(num_lines: int, words: str, tmp_path: Path) -> None:
    """AUD009 says the same number as MLP001."""
    folder = tmp_path / "v100"
    folder.mkdir()
    (folder / "result_0.txt").write_text(f"{UNTIMED}\n" * num_lines)
    [found] = [item.finding for item in audit(folder) if item.finding.code == "AUD009"]

    assert found.message.startswith(words)
    assert found.evidence["lines"] == num_lines


def test_lines_that_cannot_be_read_are_none_of_the_framework(tmp_path: Path) -> None:
    """MLP035 subtracts them all, not the first hundred."""
    found = judge_text(tmp_path, f"{UNTIMED}\n" * 461)

    assert [finding.message for finding in of(found, "MLP035")] == [
        "all 461 lines are MLPerf's: what the framework printed is missing"
    ]


def test_what_may_be_on_a_line_that_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    """Of a log without one time every key is missing: told once, an error as before, with the number of keys."""
    found = judge_text(tmp_path, f"{UNTIMED}\n" * 461)
    [missing] = of(found, "MLP003")

    assert missing.severity.value == "error"
    assert missing.message == (
        "of 15 keys that must be there too few lines can be read: submission_division, cache_clear, init_start, "
        "init_stop, run_start and 10 more; 461 lines cannot be read (MLP001) and may hold them"
    )
    assert "block_start or epoch_start" in missing.evidence["keys"]
    assert len(missing.evidence["keys"]) == 15


@pytest.mark.parametrize(
    ("absent", "num_unread", "words"),
    [
        (["seed"], 1, None),
        (["run_stop"], 1, "of 1 key that must be there too few lines can be read: run_stop; 1 line cannot be read (ML"),
        (["run_stop"], 1, " and may hold it"),
        (["run_stop", "init_stop"], 1, "of 2 keys that must be there too few lines can be read: "),
        (["run_stop", "init_stop"], 1, " and may hold some of them"),
        (["run_stop", "init_stop"], 2, "2 lines cannot be read (MLP001) and may hold them"),
    ],
)
def test_what_is_missing_is_named_beside_the_lines_that_may_hold_it(
    absent: list[str], num_unread: int, words: str | None, tmp_path: Path
) -> None:
    """A line holds one key as a rule; a key that need not be there is not missed."""
    box = MlperfBox(tmp_path)
    for key in absent:
        drop(box.entries, key)
    box.entries[:0] = [Entry(0.0, text=UNTIMED)] * num_unread
    box.write()
    missing = of(box.judge(), "MLP003")

    assert [words is not None and words in finding.message for finding in missing] == ([True] if words else [])


def test_what_is_missing_from_a_log_that_can_be_read_is_told_key_by_key(tmp_path: Path) -> None:
    """Nothing else could hold it."""
    box = MlperfBox(tmp_path)
    for key in ("run_stop", "init_stop"):
        drop(box.entries, key)
    box.write()

    assert [finding.message for finding in of(box.judge(), "MLP003")] == [
        "init_stop must occur once; it does not occur",
        "run_stop must occur once; it does not occur",
    ]


def test_times_that_are_texts_are_a_fault_of_the_lines_only(tmp_path: Path) -> None:
    """One finding of each line's form and one of what is missing, not one for each key."""
    lines = [re.sub(r'("time_ms": )(\d+)', r'\1"\2"', line) for line in lines_of(tmp_path)]
    found = judge_text(tmp_path, "\n".join(lines) + "\n")

    assert len(of(found, "MLP001")) == len(of(found, "MLP003")) == 1
    assert of(found, "MLP001")[0].message.startswith("time_ms is missing or not a number, and ")


@pytest.mark.parametrize("last", ["", "\r", "\n"])
def test_lines_that_end_with_a_carriage_return_are_named_so(last: str, tmp_path: Path) -> None:
    """Whatever ends the last; what they say is one line to us, of which nothing is taken."""
    found = judge_text(tmp_path, "\r".join(lines_of(tmp_path)) + last)

    assert [finding.message for finding in of(found, "MLP001")] == [
        "a carriage return ends a line in it; a line ends with a line feed; what such lines say is not judged"
    ]
    assert len(of(found, "MLP003")) == 1


def test_a_carriage_return_hides_no_line(tmp_path: Path) -> None:
    """Two lines that one joins were read as the second alone."""
    framework, first, second, *rest = lines_of(tmp_path)
    found = judge_text(tmp_path, "\n".join([framework, f"{first}\r{second}", *rest]) + "\n")

    assert [finding.line for finding in of(found, "MLP001")] == [2]


@pytest.mark.parametrize("before", ["", " 10%|#         |\r", "\x1b[0m\r"])
def test_what_a_progress_bar_leaves_before_a_line_is_not_part_of_it(before: str, tmp_path: Path) -> None:
    """Nor is a carriage return before the line feed."""
    lines = [f"{before}{line}\r" if "MLLOG" in line else line for line in lines_of(tmp_path)]

    assert judge_text(tmp_path, "\n".join(lines) + "\n") == []


@pytest.mark.parametrize("tail", [TOKEN, TOKEN + "{", TOKEN + '{"key": "eval_accuracy", "val', TOKEN[:6]])
def test_a_log_that_ends_within_a_line_is_cut_off(tail: str, tmp_path: Path) -> None:
    """MLCommons' checker refuses the first three; what the line would have said nobody knows."""
    box = MlperfBox(tmp_path)
    box.write()
    box.log().write_text(box.log().read_text() + tail)

    assert [finding.message for finding in of(box.judge(), "MLP001")] == [
        "the last line is cut off; what such lines say is not judged"
    ]


@pytest.mark.parametrize(("tail", "is_excused"), [(TOKEN + "{", True), (TOKEN + "{\n", False)])
def test_a_run_that_was_killed_while_it_wrote_may_be_the_one_that_fails(
    tail: str, is_excused: bool, tmp_path: Path
) -> None:
    """Its last line is cut off and `run_stop` is not there; a line that is damaged otherwise is excused in no run."""
    box = RoundBox(tmp_path)
    box.write()
    lines = box.log(2).read_text().splitlines()
    box.log(2).write_text("\n".join(line for line in lines if '"run_stop"' not in line) + f"\n{tail}")
    found = [item for item in box.judge() if item.path.endswith("result_2.txt") and item.code in ("MLP001", "MLP003")]

    assert sorted(item.code for item in found) == ["MLP001", "MLP003"]
    assert [item.severity.value for item in found] == ["warning" if is_excused else "error"] * 2


def test_every_defect_is_counted_and_a_hundred_of_a_kind_are_kept(tmp_path: Path) -> None:
    """What a log of ours has is counted in the same manner."""
    (tmp_path / "result_0.txt").write_text(f"{UNTIMED}\n" * 300 + TOKEN)
    log = run_log.read(tmp_path / "result_0.txt")

    assert log.defect_counts == {"malformed": 300, "cut_off": 1}
    assert (len(log.defects), log.num_unread) == (101, 301)
