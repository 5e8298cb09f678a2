"""The reader of run logs: whatever the bytes, it answers with events and defects, or with one sentence."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LogError
from harness.log import run_log
from harness.log.events import CHAIN_START, TOKEN, Event, format_line, line_digest
from harness.log.parse import _plain, _strict, parse_line
from harness.log.run_log import MAX_EVENTS_PER_KEY, MAX_LINE_BYTES, Collector, RunLog
from harness.log.writer import LogWriter
from tests.fabricate import events, find, text_of
from tests.scripted import FakeClock


def read_bytes(folder: Path, data: bytes | str) -> RunLog:
    """The log with these bytes."""
    path = folder / "log.txt"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return run_log.read(path)


def defects(log: RunLog) -> list[tuple[str, int]]:
    """Kind and line of every defect."""
    return [(defect.kind, defect.lineno) for defect in log.defects]


def foreign(key: str = "a", value: Any = 1, time_ms: Any = 1, **metadata: Any) -> str:
    """A line as another program writes it: no order in its metadata."""
    return format_line(Event(time_ms, "POINT_IN_TIME", key, value, metadata, 0)) + "\n"


def line_with(**changes: Any) -> bytes:
    """A line whose record has these fields instead; a field set to ... is left out."""
    record = {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "a", "value": 1, "metadata": {}}
    record = {name: value for name, value in {**record, **changes}.items() if value is not ...}
    return (TOKEN + json.dumps(record)).encode()


def raw(value: str) -> str:
    """A line with `value` as JSON text, verbatim."""
    return f'{TOKEN}{{"time_ms": 1, "event_type": "POINT_IN_TIME", "key": "a", "value": {value}, "metadata": {{}}}}\n'


# What cannot be read at all


def test_missing_file_is_one_sentence_with_its_path(tmp_path: Path) -> None:
    """The missing file is named."""
    with pytest.raises(LogError, match=r"nowhere\.txt: cannot be read: No such file"):
        run_log.read(tmp_path / "nowhere.txt")


def test_folder_device_and_pipe_are_not_logs_and_do_not_block(tmp_path: Path) -> None:
    """Only regular files are read: a pipe would wait for ever, /dev/zero would never end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(LogError, match="is not a regular file"):
            run_log.read(path)


def test_disk_that_fails_while_it_is_read_is_one_sentence() -> None:
    """A process's memory is a regular file, and at its beginning there is nothing that could be read."""
    with pytest.raises(LogError, match=r"^/proc/self/mem: cannot be read: Input/output error$"):
        run_log.read(Path("/proc/self/mem"))


def test_link_to_a_device_is_no_log(tmp_path: Path) -> None:
    """A link is followed, and what it leads to is judged."""
    (tmp_path / "log").symlink_to("/dev/zero")

    with pytest.raises(LogError, match="is not a regular file"):
        run_log.read(tmp_path / "log")


@pytest.mark.parametrize("data", [b"hello\nworld\n", bytes(range(256)) * 10, b"\0" * 5000, b"\n" * 100, b":::MLLOG\n"])
def test_file_without_a_line_of_ours_is_not_a_log(tmp_path: Path, data: bytes) -> None:
    """Text, binary, NULs: no token, no log."""
    with pytest.raises(LogError, match="not a run log"):
        read_bytes(tmp_path, data)


def test_empty_file_says_that_it_is_empty(tmp_path: Path) -> None:
    """Zero bytes."""
    with pytest.raises(LogError, match="is empty"):
        read_bytes(tmp_path, b"")


# Other programs' lines


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\nnoise of another program\n\n"),
        lambda text: "".join(f"rank0: {line}\n" for line in text.splitlines()),
        lambda text: "\0\0\n" + text,
    ],
    ids=["byte order mark", "CRLF", "lines between", "prefix before the token", "NUL bytes"],
)
def test_what_other_programs_add_around_our_lines_changes_nothing(tmp_path: Path, change: Any) -> None:
    """Same events, no defect: the chain is over our part of our lines."""
    text = text_of(events())

    log = read_bytes(tmp_path, change(text))

    assert log.defects == ()
    assert [event.key for event in log.events] == [step.key for step in events()]


def test_bytes_that_are_not_utf8_between_our_lines_are_nobodys_business(tmp_path: Path) -> None:
    """Only our lines must be UTF-8."""
    assert read_bytes(tmp_path, b"\xff\xfe\n" + text_of(events()).encode() + b"\xc3\x28\n").defects == ()


def test_line_numbers_count_every_line_of_the_file(tmp_path: Path) -> None:
    """The event after three foreign lines is on line 4; counting is by line feed."""
    log = read_bytes(tmp_path, "x\n\ny\n" + foreign() + "z\n" + foreign("b"))

    assert [(event.key, event.lineno) for event in log.events] == [("a", 4), ("b", 6)]
    assert log.num_lines == 6


def test_last_of_two_events_on_a_line_counts(tmp_path: Path) -> None:
    """As two writers of MLPerf's without a lock leave them, and as MLPerf's parser reads them."""
    log = read_bytes(tmp_path, foreign("b") + foreign("c").rstrip("\n") + foreign())

    assert defects(log) == []
    assert log.counts == {"b": 1, "a": 1}


def test_line_of_ours_is_not_taken_from_the_middle_of_another(tmp_path: Path) -> None:
    """The writer of `tta` does not share its file."""
    chained = line_with(metadata={"seq": 0, "elapsed_ns": 0, "prev": CHAIN_START}).decode()
    log = read_bytes(tmp_path, foreign("b") + foreign("c").rstrip("\n") + chained + "\n")

    assert defects(log) == [("malformed", 2)]
    assert log.counts == {"b": 1}


def test_token_inside_a_value_is_part_of_the_value(tmp_path: Path) -> None:
    """The first token of a line counts."""
    assert read_bytes(tmp_path, foreign(value=TOKEN)).value("a") == TOKEN


# The end of the file


def test_last_line_cut_off_anywhere_is_seen(tmp_path: Path) -> None:
    """For every number of bytes left of the last line: whole without it, or a defect; never a crash."""
    text = text_of(events()).encode()
    begin = text.rstrip(b"\n").rindex(b"\n") + 1
    last_line = text.count(b"\n")

    for end in range(begin, len(text)):
        log = read_bytes(tmp_path, text[:end])
        assert log.counts.get("tta_end") is None
        assert defects(log) == ([] if end == begin else [("cut_off", last_line)]), text[begin:end]


def test_whole_last_line_without_an_end_is_read_in_a_log_of_mlperfs(tmp_path: Path) -> None:
    """Some programs write no end of line after `run_stop`; MLPerf's parser reads it."""
    log = read_bytes(tmp_path, foreign("b") + foreign().rstrip("\n"))

    assert defects(log) == []
    assert (log.counts, log.num_lines) == ({"b": 1, "a": 1}, 2)


def test_log_that_is_nothing_but_a_cut_off_line_is_a_log_with_a_defect(tmp_path: Path) -> None:
    """The first line was cut off; that does not make it another program's file."""
    log = read_bytes(tmp_path, foreign().rstrip("\n")[:-1])

    assert defects(log) == [("cut_off", 1)]
    assert (log.events, log.num_lines) == ((), 1)


# Lines that are too long


@pytest.mark.parametrize("end", ["\n", "", "\n" + foreign()])
@pytest.mark.parametrize("size", [MAX_LINE_BYTES, 2 * MAX_LINE_BYTES, 3 * MAX_LINE_BYTES + 17])
def test_overlong_line_is_one_defect_and_no_event(tmp_path: Path, size: int, end: str) -> None:
    """With a line end, without one, and with an event after it."""
    log = read_bytes(tmp_path, "first\n" + foreign(value="x" * size).rstrip("\n") + end)

    assert defects(log) == [("overlong", 2)]
    assert [event.lineno for event in log.events] == ([3] if foreign() in end else [])


@pytest.mark.parametrize("offset", [0, 1, 1000, MAX_LINE_BYTES // 2, MAX_LINE_BYTES - 1])
@pytest.mark.parametrize("surplus", [0, 1])
def test_longest_permitted_line_does_not_depend_on_where_it_lies(tmp_path: Path, offset: int, surplus: int) -> None:
    """Exactly 1 MiB is read, one byte more is refused, wherever the reader's pieces end."""
    line = foreign(value="").rstrip("\n")
    line = foreign(value="x" * (MAX_LINE_BYTES - len(line) + surplus))
    assert len(line) - 1 == MAX_LINE_BYTES + surplus

    log = read_bytes(tmp_path, "n" * offset + "\n" + line)

    assert defects(log) == ([("overlong", 2)] if surplus else [])


@pytest.mark.parametrize("begin", [0, 700_000])
@pytest.mark.parametrize("before", [MAX_LINE_BYTES - 4, MAX_LINE_BYTES + 200_000, 3 * MAX_LINE_BYTES - 3])
def test_token_far_out_in_a_long_line_is_seen(tmp_path: Path, begin: int, before: int) -> None:
    """A line with the token cannot hide behind a megabyte of something else; the token may span two pieces."""
    log = read_bytes(tmp_path, "n" * begin + "\n" + "x" * before + foreign() + foreign("b"))

    assert defects(log) == [("overlong", 2)]
    assert [(event.key, event.lineno) for event in log.events] == [("b", 3)]


def test_long_line_of_another_program_is_no_defect(tmp_path: Path) -> None:
    """A progress bar of three megabytes without a line feed is ignored."""
    log = read_bytes(tmp_path, "x" * (3 * MAX_LINE_BYTES) + "\n" + foreign())

    assert (defects(log), log.events[0].lineno) == ([], 2)


def test_chain_does_not_pass_over_an_overlong_line(tmp_path: Path) -> None:
    """What follows a line that was not read is not chained to anything."""
    steps = events()
    steps[3].value = "x" * MAX_LINE_BYTES

    assert defects(read_bytes(tmp_path, text_of(steps))) == [("overlong", 4), ("sequence", 5), ("chain", 5)]


@pytest.mark.slow
def test_sparse_file_of_two_gigabytes_needs_little_memory(tmp_path: Path) -> None:
    """A "line" of 2 GB of nothing is read in pieces and kept nowhere."""
    import tracemalloc

    path = tmp_path / "log.txt"
    path.write_text(foreign())
    os.truncate(path, 2 << 30)

    tracemalloc.start()
    try:
        log = run_log.read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (log.num_bytes, log.counts, defects(log)) == (2 << 30, {"a": 1}, [])
    assert peak < 16 << 20


# One line


def test_line_of_ours_is_an_event() -> None:
    """All five fields, with the given line number."""
    event = parse_line(line_with(value={"x": [1, 2.5, None, True, "é"]}, metadata={"samples_count": 7}), 12)

    assert event == Event(1, "POINT_IN_TIME", "a", {"x": [1, 2.5, None, True, "é"]}, {"samples_count": 7}, 12)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"time_ms": ...}, "time_ms"),
        ({"time_ms": "1"}, "time_ms"),
        ({"time_ms": True}, "time_ms"),
        ({"time_ms": None}, "time_ms"),
        ({"event_type": "POINT"}, "event_type"),
        ({"event_type": ["INTERVAL_START"]}, "event_type"),
        ({"key": ...}, "key"),
        ({"key": ""}, "key"),
        ({"key": 5}, "key"),
        ({"key": None}, "key"),
        ({"value": ...}, "value"),
        ({"metadata": ...}, "metadata"),
        ({"metadata": None}, "metadata"),
        ({"metadata": []}, "metadata"),
        ({"metadata": "x"}, "metadata"),
    ],
)
def test_field_of_a_wrong_type_is_named(changes: dict[str, Any], what: str) -> None:
    """A truth value is not a number, a list is not a text, missing is not null."""
    with pytest.raises(ValueError, match=what):
        parse_line(line_with(**changes), 1)


@pytest.mark.parametrize("event_type", [..., None])
def test_event_of_another_program_may_have_no_type(event_type: Any) -> None:
    """Google's in rounds 0.7 and 1.0; MLPerf's parser ignores it. A line of `tta` must have it."""
    chained = {"seq": 0, "elapsed_ns": 0, "prev": CHAIN_START}

    assert parse_line(line_with(event_type=event_type), 1).event_type == ""
    with pytest.raises(ValueError, match="event_type"):
        parse_line(line_with(event_type=event_type, metadata=chained), 1)


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1" * 21,
        "-" + "1" * 5000,
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        '{"a":' * 100 + "1" + "}" * 100,
        "01",
        "1,",
        "",
        "'x'",
        '"\x01"',
        "1} {",
        "tru",
    ],
    ids=lambda value: value[:12] or "nothing",
)
def test_value_that_json_leaves_open_is_malformed(tmp_path: Path, value: str) -> None:
    """No infinity, no integer without bound, no key twice, no depth that a later json.dumps gives up at."""
    log = read_bytes(tmp_path, foreign() + raw(value) + foreign())

    assert defects(log) == [("malformed", 2)]
    assert log.counts == {"a": 2}


@pytest.mark.parametrize(
    "value", ["18446744073709551615", "-1", "1e308", "[" * 40 + "]" * 40, '"\\ud800"', '"\\u0000"']
)
def test_value_at_the_edge_is_kept(tmp_path: Path, value: str) -> None:
    """The seeds of real logs have 64 bits."""
    assert read_bytes(tmp_path, raw(value)).value("a") == json.loads(value)


@pytest.mark.parametrize("time_ms", [1, 1.5])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_whole_number_has_at_most_twenty_digits(time_ms: float, sign: int) -> None:
    """Wherever it is, and whatever other numbers the line has."""
    assert parse_line(line_with(value=sign * (10**20 - 1), time_ms=time_ms), 1).value == sign * (10**20 - 1)
    for number in (10**20, 10**21):
        with pytest.raises(ValueError, match="digits"):
            parse_line(line_with(value=sign * number, time_ms=time_ms), 1)


@pytest.mark.parametrize("line", [b"\xff", b'"\xc3\x28"', b"\xed\xa0\x80", b"\0", b"[]", b"5", b"null", b'"x"', b""])
def test_line_that_is_no_object_in_utf8_is_malformed(tmp_path: Path, line: bytes) -> None:
    """Bytes after the token that are anything else."""
    assert defects(read_bytes(tmp_path, TOKEN.encode() + line + b"\n")) == [("malformed", 1)]


@pytest.mark.parametrize("name", ["time_ms", "elapsed_ns", "seq"])
@pytest.mark.parametrize("number", ["9" * 400, "1e999", "9" * 20, "-" + "9" * 20, "1e300", "true", "0.5", "null"])
def test_number_of_any_size_in_any_place_ends_in_defects(tmp_path: Path, name: str, number: str) -> None:
    """An integer that no float can hold is arithmetic's problem nowhere."""
    lines = text_of(events()).splitlines()
    head, _, tail = lines[5].partition(f'"{name}": ')
    lines[5] = f'{head}"{name}": {number}{tail[tail.index(",") :]}'

    log = read_bytes(tmp_path, "\n".join(lines) + "\n")

    assert log.defects
    assert {lineno for _, lineno in defects(log)} <= {6, 7}


def test_object_with_many_keys_and_one_twice_takes_no_time() -> None:
    """A line of 100,000 keys, the last one twice: linear, not quadratic."""
    pairs = ",".join(f'"{i}":0' for i in range(90_000))
    line = f'{TOKEN}{{{pairs},"89999":0}}'.encode()
    assert len(line) < MAX_LINE_BYTES

    with pytest.raises(ValueError, match="'89999' occurs twice"):
        parse_line(line, 1)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_after_the_token_crash_the_reader(data: bytes) -> None:
    """An event or a ValueError, nothing else."""
    try:
        parse_line(TOKEN.encode() + data, 1)
    except ValueError:
        return


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1), json_values, st.dictionaries(st.text(), json_values, max_size=3))
def test_written_line_is_read_as_it_was(key: str, value: Any, metadata: dict[str, Any]) -> None:
    """format_line and parse_line are each other's inverse, and no line has a line feed in it."""
    line = format_line(Event(5, "POINT_IN_TIME", key, value, metadata, 3))

    assert "\n" not in line
    assert parse_line(line.encode(), 3) == Event(5, "POINT_IN_TIME", key, value, metadata, 3)


# Order, chain and clock


def test_writer_and_reader_agree(tmp_path: Path) -> None:
    """What LogWriter writes has no defect, and every event is as it was given."""
    clock = FakeClock()
    writer = LogWriter(tmp_path / "log", clock)
    writer.event("seed", 7)
    clock.advance(1.5)
    writer.start("run_start", {"samples_count": 0})
    clock.advance(0.0000004)
    writer.stop("run_stop", {"status": "success", "text": "é\n:::MLLOG "})
    writer.close()
    writer.close()

    log = run_log.read(tmp_path / "log")

    assert log.defects == ()
    assert [(event.key, event.event_type, event.elapsed_ns) for event in log.events] == [
        ("seed", "POINT_IN_TIME", 0),
        ("run_start", "INTERVAL_START", 1_500_000_000),
        ("run_stop", "INTERVAL_END", 1_500_000_400),
    ]
    assert log.one("run_stop").metadata["text"] == "é\n:::MLLOG "
    assert (writer.num_events, log.num_lines) == (3, 3)
    assert log.sha256 == hashlib.sha256((tmp_path / "log").read_bytes()).hexdigest()


def test_wall_time_of_the_writer_never_disagrees_with_its_own_clock(tmp_path: Path) -> None:
    """Rounding to milliseconds stays within what the reader accepts."""
    clock = FakeClock()
    writer = LogWriter(tmp_path / "log", clock)
    for _ in range(500):
        clock.now_ns += random.Random(1).randrange(3_000_000)
        writer.event("tracked_stats", {})
    writer.close()

    assert run_log.read(tmp_path / "log").defects == ()


def test_changed_value_breaks_the_chain_at_the_next_line(tmp_path: Path) -> None:
    """The line after the changed one shows it: it has the digest of the original."""
    lines = text_of(events()).splitlines()
    number = next(i for i, line in enumerate(lines) if '"key": "seed"' in line)
    lines[number] = lines[number].replace('"value": 100', '"value": 101')

    assert defects(read_bytes(tmp_path, "\n".join(lines) + "\n")) == [("chain", number + 2)]


def test_last_line_changed_is_not_in_the_chain(tmp_path: Path) -> None:
    """Known and documented: the chain shows casual edits, and nothing follows the last line."""
    text = text_of(events()).replace('"wall_drift_ms": 0', '"wall_drift_ms": 9')

    assert read_bytes(tmp_path, text).defects == ()


def test_removed_line_is_a_gap_and_a_break(tmp_path: Path) -> None:
    """One line less: seq jumps, and prev is of a line that is not there."""
    lines = text_of(events()).splitlines()
    del lines[10]

    assert defects(read_bytes(tmp_path, "\n".join(lines) + "\n")) == [("sequence", 11), ("chain", 11)]


def test_removed_first_line_is_seen(tmp_path: Path) -> None:
    """The first line must be number 0 and begin the chain."""
    lines = text_of(events()).splitlines()[1:]

    assert defects(read_bytes(tmp_path, "\n".join(lines) + "\n")) == [("sequence", 1), ("chain", 1)]


def test_doubled_and_swapped_lines_are_seen(tmp_path: Path) -> None:
    """A line twice, and two lines in the wrong order."""
    lines = text_of(events()).splitlines()

    twice = read_bytes(tmp_path, "\n".join([*lines[:5], lines[4], *lines[5:]]) + "\n")
    swapped = read_bytes(tmp_path, "\n".join([*lines[:4], lines[5], lines[4], *lines[6:]]) + "\n")

    assert ("sequence", 6) in defects(twice)
    assert ("chain", 6) in defects(twice)
    assert [lineno for kind, lineno in defects(swapped) if kind == "sequence"] == [5, 6, 7]


def test_second_log_behind_the_first_begins_again_from_zero(tmp_path: Path) -> None:
    """Two runs in one file are one log with a break where the second begins."""
    text = text_of(events())
    num_lines = text.count("\n")

    log = read_bytes(tmp_path, text + text)

    assert defects(log)[:3] == [(kind, num_lines + 1) for kind in ("sequence", "chain", "backwards")]


def test_clock_that_goes_back_is_seen_and_a_standing_one_is_not(tmp_path: Path) -> None:
    """Equal times are permitted: events may come faster than the clock ticks."""
    steps = events()
    stop = find(steps, "block_stop")
    stop.at_s = find(steps, "block_start").at_s - 0.001
    line = steps.index(stop) + 1

    log = read_bytes(tmp_path, text_of(steps))

    assert defects(log) == [("backwards", line)]
    assert "0.001000 s" in log.defects[0].message


@pytest.mark.parametrize(("moved_ms", "kinds"), [(2, []), (3, ["wall"]), (-3, ["wall"]), (3_600_000, ["wall"])])
def test_wall_clock_that_leaves_the_monotonic_one_is_seen(tmp_path: Path, moved_ms: int, kinds: list[str]) -> None:
    """Two milliseconds are rounding, more is not."""
    lines = text_of(events()).splitlines()
    record = json.loads(lines[-1].removeprefix(TOKEN))
    record["time_ms"] += moved_ms
    lines[-1] = TOKEN + json.dumps(record)

    log = read_bytes(tmp_path, "\n".join(lines) + "\n")

    assert [kind for kind, _ in defects(log)] == kinds


@pytest.mark.parametrize("nth", [0, 1, 7, -1])
def test_line_without_order_in_an_ordered_log_is_seen_wherever_it_stands(tmp_path: Path, nth: int) -> None:
    """Also as the very first line: one line of another program must not switch the chain off."""
    lines = text_of(events()).splitlines()
    position = nth if nth >= 0 else len(lines)
    lines.insert(position, foreign().rstrip("\n"))

    log = read_bytes(tmp_path, "\n".join(lines) + "\n")

    assert ("unchained", position + 1) in defects(log)
    assert not log.is_foreign


@pytest.mark.parametrize("name", ["seq", "elapsed_ns", "prev"])
@pytest.mark.parametrize("value", [None, True, "1", 1.5, []])
def test_part_of_the_order_that_is_missing_or_of_a_wrong_type_is_unchained(
    tmp_path: Path, name: str, value: Any
) -> None:
    """All three, each of its type; a truth value is not a number."""
    steps = events()
    steps[4].metadata[name] = value

    log = read_bytes(tmp_path, text_of(steps))

    expected = "chain" if name == "prev" and value == "1" else "unchained"
    assert (expected, 5) in defects(log)


def test_log_of_another_program_has_no_order_and_no_defect(tmp_path: Path) -> None:
    """MLPerf's logs have wall time only; seconds are then by that."""
    log = read_bytes(tmp_path, foreign("run_start", time_ms=1000) + foreign("run_stop", time_ms=3500.5))

    assert (defects(log), log.is_foreign, log.has_monotonic_time) == ([], True, False)
    assert log.seconds(log.one("run_start"), log.one("run_stop")) == 2.5005


def test_defects_of_one_kind_are_listed_up_to_a_hundred(tmp_path: Path) -> None:
    """A log of nothing but damage does not fill the memory or the screen."""
    log = read_bytes(tmp_path, (TOKEN + "x\n") * 1000)

    assert len(log.defects) == 100
    assert log.num_lines == 1000


# Pieces


class Pieces(io.BytesIO):
    """A stream that returns its bytes in pieces of the given lengths, then the rest."""

    def __init__(self, data: bytes, lengths: list[int]) -> None:
        self._rest, self._lengths = data, list(lengths)

    def read(self, size: int | None = -1) -> bytes:
        length = self._lengths.pop(0) if self._lengths else len(self._rest)
        piece, self._rest = self._rest[:length], self._rest[length:]
        return piece


def naive(data: bytes) -> list[tuple[int, bytes]]:
    """The lines with a token by the simplest means: the whole text, split at line feeds."""
    *lines, _ = data.split(b"\n")
    token = TOKEN.encode()
    return [(number, line[line.index(token) :].rstrip(b"\r")) for number, line in enumerate(lines, 1) if token in line]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([TOKEN, TOKEN + "{}", ":::MLL", "OG ", "\n", "\n\n", "\r\n", "x", "a:::MLLOG b", "é"]),
        max_size=30,
    ),
    st.lists(st.integers(1, 12), max_size=60),
)
def test_lines_do_not_depend_on_where_the_pieces_end(parts: list[str], lengths: list[int]) -> None:
    """Read in pieces of any lengths, the numbered lines are those of a reader that has the whole text."""
    data = "".join(parts).encode()
    collector = Collector()

    batches = list(collector.batches(Pieces(data, lengths)))

    lines = [
        (number, TOKEN.encode() + text.rstrip(b"\r")) for batch in batches for number, text in zip(*batch, strict=True)
    ]

    rest = data.rpartition(b"\n")[2]
    assert lines == naive(data)
    assert collector.num_lines == data.count(b"\n") + bool(rest)
    assert collector.num_bytes == len(data)
    assert collector.sha256.hexdigest() == hashlib.sha256(data).hexdigest()
    assert bool(collector.defects) == (TOKEN.encode() in rest or (bool(rest) and TOKEN.encode().startswith(rest)))


# Asking


def test_all_first_one_and_field_answer_by_key(tmp_path: Path) -> None:
    """What is missing is empty, None or an error, depending on the accessor."""
    log = read_bytes(tmp_path, foreign("a", {"x": 1}) + foreign("b", 2) + foreign("a", 3))

    assert [event.value for event in log.all("a")] == [{"x": 1}, 3]
    assert log.all("c") == ()
    assert (log.value("b"), log.value("c"), log.line_of("b"), log.line_of("c")) == (2, None, 2, None)
    assert (log.field("a", "x"), log.field("a", "y"), log.field("b", "x"), log.field("c", "x")) == (1, None, None, None)
    assert log.first("c") is None
    assert log.one("b").value == 2
    assert log.counts == {"a": 2, "b": 1}
    with pytest.raises(LogError, match=r"log\.txt:3: a second 'a'"):
        log.one("a")
    with pytest.raises(LogError, match="has no 'c'"):
        log.one("c")


def test_events_beyond_the_limit_of_a_key_are_counted_but_not_kept(tmp_path: Path) -> None:
    """One defect where the limit is passed; of statistics there may be any number."""
    over = MAX_EVENTS_PER_KEY + 2

    log = read_bytes(tmp_path, foreign("a") * over + foreign("tracked_stats") * over + foreign("power_reading") * over)

    assert defects(log) == [("too_many", MAX_EVENTS_PER_KEY + 1)]
    assert log.counts == {"a": over, "tracked_stats": over, "power_reading": over}
    assert len(log.all("a")) == len(log.all("tracked_stats")) == MAX_EVENTS_PER_KEY
    assert len(log.all("power_reading")) == MAX_EVENTS_PER_KEY  # of logs made before there were power logs


def test_keys_without_number_are_not_kept(tmp_path: Path) -> None:
    """No run has more than a thousand different keys."""
    log = read_bytes(tmp_path, "".join(foreign(f"k{i}") for i in range(1005)))

    assert log.defects[0].lineno == 1001
    assert len(log.counts) == 1000


def test_a_key_that_is_known_is_kept_however_many_there_are(tmp_path: Path) -> None:
    """The thousandth is permitted, and a key that occurs twice counts once."""
    log = read_bytes(tmp_path, "".join(foreign(f"k{i}") for i in (*range(1000), 5, 1000, 999, 0)))

    assert [(defect.kind, defect.lineno) for defect in log.defects] == [("too_many", 1002)]
    assert [log.counts[f"k{i}"] for i in (0, 5, 999)] == [2, 2, 2]
    assert len(log.events) == 1003


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("text", [foreign("a", 1) * 3, text_of(events())])
def test_as_many_bytes_of_events_as_are_permitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, missing: int
) -> None:
    """The limit itself is permitted, in a log of `tta` and of another program; line ends do not count."""
    lines = [line for line in text.splitlines() if TOKEN in line]
    monkeypatch.setattr(run_log, "MAX_KEPT_BYTES", sum(len(line[line.index(TOKEN) :]) for line in lines) - missing)
    log = read_bytes(tmp_path, text)

    assert [kind for kind, _ in defects(log)] == ["too_many"] * missing
    assert len(log.events) == len(lines) - missing


def test_events_of_a_megabyte_each_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Beyond 64 MiB of lines nothing is kept; this is reported once."""
    line = foreign("a", "x" * (MAX_LINE_BYTES - 200))

    log = read_bytes(tmp_path, line * 70)

    assert [kind for kind, _ in defects(log)] == ["too_many"]
    assert 60 < len(log.events) < 70
    assert log.counts == {"a": 70}


def test_chain_begins_with_zeros_and_goes_from_token_to_brace() -> None:
    """What anybody needs to check the chain by hand."""
    first, second = text_of(events()).splitlines()[:2]

    assert json.loads(first.removeprefix(TOKEN))["metadata"]["prev"] == CHAIN_START
    assert json.loads(second.removeprefix(TOKEN))["metadata"]["prev"] == line_digest(first)


# The fast way through a line: the same as the strict way, or nothing

_SCALARS = st.one_of(
    st.sampled_from(["NaN", "-Infinity", "1e999", "-1e400", "1e5", "0.1", "-0", "true", "null", "[]", "{}", '"\\""']),
    st.integers(-(10**22), 10**22).map(str),
    st.sampled_from(['"a:b"', '"\\":"', '"\\\\"', '"{"', '"\\ud800"', '"\x01"', '"é"']),
    st.text(max_size=4).map(json.dumps),
)
_PAIR = st.tuples(
    st.sampled_from(['"a"', '"b"', '"c"', '"a:"', '"\\u0061"']), st.sampled_from([":", " :", ": ", "\t:\t"])
)


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(_PAIR, values).map(lambda pair: pair[0][0] + pair[0][1] + pair[1])
    return st.lists(pairs, max_size=4).map(lambda found: "{" + ", ".join(found) + "}")


_VALUES = st.recursive(
    _SCALARS,
    lambda inner: _objects(inner) | st.lists(inner, max_size=3).map(lambda found: "[" + ",".join(found) + "]"),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(_objects(_VALUES), st.sampled_from([b"", b" ", b"x", b"\xff", b"}"]))
def test_the_fast_way_agrees_with_the_strict_way(text: str, end: bytes) -> None:
    """Or nothing: for double keys at any depth, NaN, bounds, colons in texts, invalid bytes."""
    line = TOKEN.encode() + text.encode("utf-8", "surrogatepass") + end

    fast = _plain(line)

    assert fast is None or repr(fast) == repr(_strict(line))


@pytest.mark.parametrize(
    "text", ['{"a" :1,"a":2}', '{"a":1,"a" :":"}', '{"a":[{"b" :1,"b":2}],"c":"\\":"}', '{"a":NaN}']
)
def test_a_key_twice_is_never_read_fast(text: str) -> None:
    """However its colons and those in texts are set."""
    assert _plain(TOKEN.encode() + text.encode()) is None


def test_what_is_computed_of_a_log_is_kept_by_function_and_arguments_until_it_is_forgotten(tmp_path: Path) -> None:
    calls: list[int] = []

    def times(log: RunLog, factor: int) -> int:
        calls.append(factor)
        return log.num_lines * factor

    log = read_bytes(tmp_path, foreign() * 2)

    assert [log.cached(times, factor) for factor in (1, 3, 1, 3)] == [2, 6, 2, 6]
    assert calls == [1, 3]
    assert replace(log).cached(times, 3) == 6
    log.forget()
    assert log.cached(times, 1) == 2
    assert calls == [1, 3, 3, 1]
