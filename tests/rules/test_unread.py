"""MLPerf lines that cannot be read, which are counted and not reported as absent, and logs that are not read."""

from __future__ import annotations

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
    """The findings on a log of these characters."""
    box = MlperfBox(place)
    box.write()
    box.log().write_bytes(text.encode())
    return box.judge()


def lines_of(place: Path) -> list[str]:
    """The lines of a valid log, without line ends."""
    box = MlperfBox(place / "valid")
    box.write()
    return box.log().read_text().splitlines()


@pytest.mark.parametrize(
    ("text", "num_lines"),
    [
        (f"{UNTIMED}\n" * 2, 2),
        (f"{UNTIMED}\n" * 100, 100),
        (f"{UNTIMED}\n" * 101, 101),
        (f"{TOKEN}{{\n" * 1535, 1535),
        (f"{UNTIMED}\n" * 150 + f"{TOKEN}[]\n" * 7, 157),
    ],
    ids=["two", "a hundred", "one more", "not JSON", "of both kinds"],
)
def test_every_line_that_cannot_be_read_is_counted(text: str, num_lines: int, tmp_path: Path) -> None:
    """Also beyond the hundred that are kept, where the reason is no longer determined."""
    [damage] = of(judge_text(tmp_path, text), "MLP001")

    assert f", and {num_lines - 1:,} more such line{'s' if num_lines > 2 else ''}; such" in damage.message
    assert damage.evidence["num_lines"] == num_lines


@pytest.mark.parametrize(
    ("num_lines", "words"),
    [
        (1, "1 line cannot be read, next to 0 that can; time_ms"),
        (1535, "1,535 lines cannot be read, next to 0 that can"),
    ],
)
def test_the_auditor_counts_all_lines_that_cannot_be_read(num_lines: int, words: str, tmp_path: Path) -> None:
    """AUD009 has the same number as MLP001."""
    folder = tmp_path / "v100"
    folder.mkdir()
    (folder / "result_0.txt").write_text(f"{UNTIMED}\n" * num_lines)
    [found] = [item.finding for item in audit(folder) if item.finding.code == "AUD009"]

    assert found.message.startswith(words)
    assert found.evidence["lines"] == num_lines


def test_what_an_unreadable_line_may_hold_is_one_finding(tmp_path: Path) -> None:
    """In a log without any time every key is missing: one error with their number; no line is the framework's."""
    found = judge_text(tmp_path, f"{UNTIMED}\n" * 461)
    [missing] = of(found, "MLP003")

    assert [finding.message for finding in of(found, "MLP035")] == [
        "all 461 lines are MLPerf's: what the framework printed is missing"
    ]
    assert missing.severity.value == "error"
    assert missing.message == (
        "too few readable lines of 15 keys that the round requires: submission_division, cache_clear, init_start, "
        "init_stop, run_start and 10 more; 461 lines cannot be read (MLP001) and may hold them"
    )
    assert "block_start or epoch_start" in missing.evidence["keys"]
    assert len(missing.evidence["keys"]) == 15


@pytest.mark.parametrize(
    ("absent", "num_unread", "words"),
    [
        (["seed"], 1, None),
        (
            ["run_stop"],
            1,
            "too few readable lines of 1 key that the round requires: run_stop; 1 line cannot be read (ML",
        ),
        (["run_stop"], 1, " and may hold it"),
        (["run_stop", "init_stop"], 1, "too few readable lines of 2 keys that the round requires: "),
        (["run_stop", "init_stop"], 1, " and may hold some of them"),
        (["run_stop", "init_stop"], 2, "2 lines cannot be read (MLP001) and may hold them"),
    ],
)
def test_missing_keys_are_named_with_the_lines_that_may_hold_them(
    absent: list[str], num_unread: int, words: str | None, tmp_path: Path
) -> None:
    """A line usually holds one key; an optional key is not missing."""
    box = MlperfBox(tmp_path)
    for key in absent:
        drop(box.entries, key)
    box.entries[:0] = [Entry(0.0, text=UNTIMED)] * num_unread
    box.write()
    missing = of(box.judge(), "MLP003")

    assert [words is not None and words in finding.message for finding in missing] == ([True] if words else [])


def test_missing_keys_of_a_readable_log_are_found_key_by_key(tmp_path: Path) -> None:
    """No other line could hold them."""
    box = MlperfBox(tmp_path)
    for key in ("run_stop", "init_stop"):
        drop(box.entries, key)
    box.write()

    assert [finding.message for finding in of(box.judge(), "MLP003")] == [
        "init_stop must occur once; it does not occur",
        "run_stop must occur once; it does not occur",
    ]


@pytest.mark.parametrize("last", ["", "\r", "\n"])
def test_lines_that_end_with_a_carriage_return_are_named_so(last: str, tmp_path: Path) -> None:
    """However the last one ends; together they are one line, of which nothing is read."""
    found = judge_text(tmp_path, "\r".join(lines_of(tmp_path)) + last)

    assert [finding.message for finding in of(found, "MLP001")] == [
        "a carriage return ends a line in it; a line ends with a line feed; such lines are not judged"
    ]
    assert len(of(found, "MLP003")) == 1


def test_a_carriage_return_hides_no_line(tmp_path: Path) -> None:
    """Two lines joined by one used to be read as the second alone."""
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
    """MLCommons' checker refuses the first three."""
    box = MlperfBox(tmp_path)
    box.write()
    box.log().write_text(box.log().read_text() + tail)

    assert [finding.message for finding in of(box.judge(), "MLP001")] == [
        "the last line is cut off; such lines are not judged"
    ]


@pytest.mark.parametrize(("tail", "is_excused"), [(TOKEN + "{", True), (TOKEN + "{\n", False)])
def test_a_run_that_was_killed_while_it_wrote_may_be_the_one_that_fails(
    tail: str, is_excused: bool, tmp_path: Path
) -> None:
    """Its last line is cut off and `run_stop` is absent; a line damaged in another way is never excused."""
    box = RoundBox(tmp_path)
    box.write()
    lines = box.log(2).read_text().splitlines()
    box.log(2).write_text("\n".join(line for line in lines if '"run_stop"' not in line) + f"\n{tail}")
    found = [item for item in box.judge() if item.path.endswith("result_2.txt") and item.code in ("MLP001", "MLP003")]

    assert sorted(item.code for item in found) == ["MLP001", "MLP003"]
    assert [item.severity.value for item in found] == ["warning" if is_excused else "error"] * 2


def test_every_defect_is_counted_and_a_hundred_of_a_kind_are_kept(tmp_path: Path) -> None:
    """In `tta`'s own reader."""
    (tmp_path / "result_0.txt").write_text(f"{UNTIMED}\n" * 300 + TOKEN)
    log = run_log.read(tmp_path / "result_0.txt")

    assert log.defect_counts == {"malformed": 300, "cut_off": 1}
    assert (len(log.defects), log.num_unread) == (101, 301)


NAMED, FOLDED = "a log with this name is not read; it must be", "a log in a subfolder of the result is not read"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("result_10.txt.bak", NAMED),
        ("result_10.txt.gz", NAMED),
        ("old_result_3.txt", NAMED),
        ("a100_1.log", NAMED),
        ("failed/result_0.txt", FOLDED),
        ("failed/2024/result_0.txt.gz", FOLDED),
        ("failed/power/result_0.txt", FOLDED),
        ("power/result_0/node_0.txt", None),
        ("power/result_0.txt", None),
        ("failed/driver.log", None),
        ("compliance_result.out", None),
        ("README.md", None),
    ],
)
def test_a_log_that_is_not_read_is_a_note(name: str, words: str | None, tmp_path: Path) -> None:
    """MLR002 on the file; a folder of failed runs may be honest, so it is only a note."""
    box = RoundBox(tmp_path)
    box.write()
    box.put(name, "a run\n")
    found = [item for item in box.judge() if item.code == "MLR002"]

    assert [(Path(item.path), item.severity.value) for item in found] == (
        [(box.folder / name, "note")] if words else []
    )
    assert all(words in item.message for item in found if words)
