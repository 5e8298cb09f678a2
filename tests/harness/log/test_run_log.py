"""The reader of run logs: whatever the bytes, it answers with events and defects, or with one sentence."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import LogError
from harness.log import power_log, run_log
from harness.log.events import TOKEN, Event, format_line
from harness.log.parse import parse_line
from harness.log.run_log import MAX_EVENTS_PER_KEY, MAX_LINE_BYTES, RunLog
from harness.log.tail import Tail
from harness.log.writer import LogWriter
from tests import fabricate
from tests.fabricate import Step, events, find, text_of
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


def changed(line: str) -> str:
    """The line with another `lineno` in its metadata."""
    assert '"lineno": 1,' in line
    return line.replace('"lineno": 1,', '"lineno": 2,')


def raw(value: str) -> str:
    """A line with `value` as JSON text, verbatim."""
    return f'{TOKEN}{{"time_ms": 1, "event_type": "POINT_IN_TIME", "key": "a", "value": {value}, "metadata": {{}}}}\n'


READERS: dict[str, Callable[[Path], object]] = {
    "run log": run_log.read,
    "power log": power_log.read,
    "growing log": lambda path: list(Tail(path).events()),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("link to a device", "is not a regular file"),
        ("log/below", "cannot be read: Not a directory"),
    ],
)
def test_only_a_regular_file_is_read(tmp_path: Path, read: Callable[[Path], object], name: str, why: str) -> None:
    """A pipe would block forever and /dev/zero never ends: both are refused with one sentence."""
    (tmp_path / "log").write_text(text_of(events()))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link to a device").symlink_to("/dev/zero")

    with pytest.raises(LogError, match=f"^{tmp_path / name}: {why}$"):
        read(tmp_path / name)


@pytest.mark.parametrize("read", [run_log.read, power_log.read])
@pytest.mark.parametrize(
    ("path", "why"), [("/nowhere/log.txt", "No such file or directory"), ("/proc/self/mem", "Input/output error")]
)
def test_system_error_is_one_sentence_with_the_path(read: Callable[[Path], object], path: str, why: str) -> None:
    """A missing file; and a process's memory, a regular file whose first byte cannot be read."""
    with pytest.raises(LogError, match=f"^{path}: cannot be read: {why}$"):
        read(Path(path))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"hello\nworld\n", "not a run log"),
        (bytes(range(256)) * 10, "not a run log"),
        (b"\0" * 5000, "not a run log"),
        (b":::MLLOG\n", "not a run log"),
    ],
    ids=["empty", "text", "binary", "NUL bytes", "token without its space"],
)
def test_file_without_the_token_is_not_a_log(tmp_path: Path, data: bytes, why: str) -> None:
    """The message distinguishes an empty file from another program's file."""
    with pytest.raises(LogError, match=why):
        read_bytes(tmp_path, data)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\nnoise of another program\n\n"),
        lambda text: b"".join(b"rank0: " + line + b"\n" for line in text.splitlines()),
        lambda text: b"\0\0\n" + text,
        lambda text: b"\xff\xfe\n" + text + b"\xc3\x28\n",
    ],
    ids=["byte order mark", "CRLF", "lines between", "prefix before the token", "NUL bytes", "not UTF-8"],
)
def test_what_other_programs_write_around_the_lines_changes_nothing(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """Same events, no defect: the chain covers each line from its token on."""
    log = read_bytes(tmp_path, change(text_of(events()).encode()))

    assert log.defects == ()
    assert [event.key for event in log.events] == [step.key for step in events()]


def test_last_line_cut_off_anywhere_is_seen(tmp_path: Path) -> None:
    """For every number of bytes left of the last line: whole without it, or a defect; never a crash."""
    text = text_of(events()).encode()
    begin = text.rstrip(b"\n").rindex(b"\n") + 1
    last_line = text.count(b"\n")

    for end in range(begin, len(text)):
        log = read_bytes(tmp_path, text[:end])
        assert log.counts.get("tta_end") is None
        assert defects(log) == ([] if end == begin else [("cut_off", last_line)]), text[begin:end]


@pytest.mark.parametrize(
    ("text", "found", "counts"),
    [
        (foreign("b") + foreign().rstrip("\n"), [], {"b": 1, "a": 1}),
        (foreign("b") + foreign().rstrip("\n")[:-1], [("cut_off", 2)], {"b": 1}),
        (foreign().rstrip("\n")[:-1], [("cut_off", 1)], {}),
    ],
    ids=["whole", "cut off", "cut off and alone"],
)
def test_last_line_of_another_program_needs_no_end(
    tmp_path: Path, text: str, found: list[tuple[str, int]], counts: dict[str, int]
) -> None:
    """Some programs write no line end after `run_stop`, and MLPerf's parser reads it; a partial line is a defect."""
    log = read_bytes(tmp_path, text)

    assert (defects(log), log.counts) == (found, counts)
    assert log.num_lines == text.count("\n") + 1


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


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"time_ms": True}, "time_ms is missing or not a number"),
        ({"event_type": "POINT"}, "event_type is 'POINT'; it must be one of INTERVAL_START, "),
        ({"key": None}, "key is missing or not a text"),
        ({"key": "", "metadata": {"elapsed_ns": 1}}, "key is missing or not a text"),
        ({"value": ...}, "value is missing"),
        ({"metadata": []}, "metadata is missing or not an object"),
    ],
)
def test_message_names_the_field_that_is_wrong(change: dict[str, Any], why: str) -> None:
    """Each of the five fields has a message of its own."""
    with pytest.raises(ValueError, match=f"^{why}"):
        parse_line(line_with(**change), 1)


@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"1" + b"0" * 20,
        b"-" + b"1" * 5000,
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b"[" * 100_000,
        b"[" * 50 + b"]" * 50,
        b'{"a":' * 50 + b"1" + b"}" * 50,
        b"01",
        b"",
        b'"\x01"',
        b"1} {",
        b'"\xff"',
        b'"\xed\xa0\x80"',
    ],
    ids=lambda value: repr(value)[2:14],
)
def test_value_that_json_leaves_open_is_malformed(tmp_path: Path, value: bytes) -> None:
    """No infinity, no unbounded integer, no key twice, no depth that a later json.dumps gives up at; only UTF-8."""
    line = raw("null").encode().replace(b"null", value)
    log = read_bytes(tmp_path, foreign().encode() + line + foreign().encode())

    assert defects(log) == [("malformed", 2)]
    assert log.counts == {"a": 2}


@pytest.mark.parametrize(
    "value", ["18446744073709551615", "9" * 20, "-" + "9" * 20, "1e308", "[" * 49 + "]" * 49, '"\\ud800"', '"\\u0000"']
)
def test_value_at_the_edge_is_kept(tmp_path: Path, value: str) -> None:
    """The seeds of real logs have 64 bits; twenty digits are read, whatever they are."""
    assert read_bytes(tmp_path, raw(value)).value("a") == json.loads(value)


@pytest.mark.parametrize("name", ["time_ms", "elapsed_ns", "seq"])
@pytest.mark.parametrize("number", ["9" * 400, "1e999", "9" * 20, "-" + "9" * 20, "1e300", "true", "0.5", "null"])
def test_number_of_any_size_in_any_place_ends_in_defects(tmp_path: Path, name: str, number: str) -> None:
    """An integer that no float can hold is a defect of its line or the next, not an arithmetic error."""
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
    clock, dice = FakeClock(), random.Random(1)
    writer = LogWriter(tmp_path / "log", clock)
    for _ in range(500):
        clock.now_ns += dice.randrange(3_000_000)
        writer.event("tracked_stats", {})
    writer.close()

    assert run_log.read(tmp_path / "log").defects == ()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        pytest.param(lambda lines: [*lines[:10], changed(lines[10]), *lines[11:]], [("chain", 12)], id="line changed"),
        pytest.param(lambda lines: [*lines[:-1], changed(lines[-1])], [], id="last line changed"),
        pytest.param(lambda lines: lines[:10] + lines[11:], [("sequence", 11), ("chain", 11)], id="line removed"),
        pytest.param(lambda lines: lines[1:], [("sequence", 1), ("chain", 1)], id="first line removed"),
        pytest.param(lambda lines: lines[:5] + lines[4:], [("sequence", 6), ("chain", 6)], id="line twice"),
        pytest.param(
            lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
            [(kind, lineno) for lineno in (5, 6, 7) for kind in ("sequence", "chain")],
            id="lines swapped",
        ),
        pytest.param(
            lambda lines: lines * 2,
            [(kind, len(events()) + 1) for kind in ("sequence", "chain", "backwards")],
            id="second log after the first",
        ),
    ],
)
def test_damage_to_the_order_of_lines_is_seen(
    tmp_path: Path, damage: Callable[[list[str]], list[str]], found: list[tuple[str, int]]
) -> None:
    """At the first line that does not follow the one before it; the last line is in no later line's `prev`."""
    lines = damage(text_of(events()).splitlines())

    assert defects(read_bytes(tmp_path, "\n".join(lines) + "\n")) == found


def test_clock_that_goes_back_is_seen_and_equal_times_are_not(tmp_path: Path) -> None:
    """Events may come faster than the clock ticks."""
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
def test_line_without_order_in_an_ordered_log_is_seen_wherever_it_is(tmp_path: Path, nth: int) -> None:
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


def test_a_key_of_another_program_may_be_empty(tmp_path: Path) -> None:
    """MLPerf's parser skips such a line; nothing asks for it here either."""
    log = read_bytes(tmp_path, foreign("") + foreign("a"))

    assert (defects(log), [event.key for event in log.events]) == ([], ["", "a"])


def test_of_statistics_as_many_are_kept_as_of_a_key_and_the_others_counted(tmp_path: Path) -> None:
    """In another program's log, any number of lines of any other key is kept: every process may log its start."""
    over = MAX_EVENTS_PER_KEY + 2

    log = read_bytes(tmp_path, foreign("a") * over + foreign("tracked_stats") * over + foreign("power_reading") * over)

    assert defects(log) == []
    assert log.counts == {"a": over, "tracked_stats": over, "power_reading": over}
    assert len(log.all("a")) == over
    assert len(log.all("tracked_stats")) == MAX_EVENTS_PER_KEY
    assert len(log.all("power_reading")) == MAX_EVENTS_PER_KEY  # of logs made before there were power logs


@pytest.mark.parametrize("num_loose", [0, MAX_EVENTS_PER_KEY + 2])
def test_in_a_log_of_tta_no_key_has_more_events_than_the_limit(tmp_path: Path, num_loose: int) -> None:
    """One defect where the limit is passed, also if the lines before have no order; of statistics any number may be."""
    over, steps = MAX_EVENTS_PER_KEY + 2, events()
    place = 2
    steps[place:place] = [Step(1.0, key, 1) for key in ("note", "tracked_stats") for _ in range(over - num_loose)]
    log = read_bytes(tmp_path, foreign("note") * num_loose + foreign("tracked_stats") * num_loose + text_of(steps))
    first = MAX_EVENTS_PER_KEY + 1 + (0 if num_loose else place)

    assert [(item.kind, item.lineno) for item in log.defects if item.kind == "too_many"] == [("too_many", first)]
    assert (log.counts["note"], log.counts["tracked_stats"] >= over) == (over, True)
    assert len(log.all("tracked_stats")) == MAX_EVENTS_PER_KEY


def test_events_of_the_first_thousand_keys_are_kept(tmp_path: Path) -> None:
    """The thousandth key is permitted, the next is not, and further events of a known key are kept."""
    log = read_bytes(tmp_path, "".join(foreign(f"k{i}") for i in (*range(1000), 5, 1000, 999, 0)))

    assert [(defect.kind, defect.lineno) for defect in log.defects] == [("too_many", 1002)]
    assert [log.counts[f"k{i}"] for i in (0, 5, 999)] == [2, 2, 2]
    assert len(log.counts) == 1000
    assert len(log.events) == 1003


@pytest.mark.parametrize(("num_over", "missing"), [(0, 0), (0, 1), (2, 0)])
@pytest.mark.parametrize("text", [foreign("a", 1) * 4, text_of(events())], ids=["another program's", "tta's"])
def test_bytes_of_events_up_to_the_limit_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, num_over: int, missing: int
) -> None:
    """The limit itself is permitted, line ends do not count, and the excess is reported once."""
    sizes = [len(line) for line in text.splitlines()]
    num_kept = len(sizes) - num_over - missing
    monkeypatch.setattr(run_log, "MAX_KEPT_BYTES", sum(sizes[: len(sizes) - num_over]) - missing)

    log = read_bytes(tmp_path, text)

    assert defects(log) == ([("too_many", num_kept + 1)] if num_kept < len(sizes) else [])
    assert len(log.events) == num_kept


def test_what_is_computed_of_a_log_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    """By function and arguments; a copy of the log begins with nothing."""
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


def test_what_an_interruption_lost_is_kept_apart(tmp_path: Path) -> None:
    """The block after the checkpoint and the line that says why; the counts are those of the file."""
    steps = fabricate.events()
    fabricate.interrupt(steps)

    log = run_log.read(fabricate.write_log(tmp_path / "log", steps))

    assert [event.key for event in log.lost] == ["block_start", "tta_interrupted"]
    assert len(log.events) == len(steps) - 2
    assert len(log.all("block_start")) == 3
    assert (log.counts["block_start"], log.defects) == (4, ())


@pytest.mark.parametrize("value", [None, {"checkpoint": 2}, {"checkpoint": None}])
def test_nothing_is_lost_without_the_checkpoint(tmp_path: Path, value: object) -> None:
    """A line alone must not make others disappear."""
    steps = fabricate.events()
    fabricate.interrupt(steps)
    fabricate.find(steps, "tta_resume").value = value

    log = run_log.read(fabricate.write_log(tmp_path / "log", steps))

    assert (log.lost, len(log.events)) == ((), len(steps))


def test_other_programs_may_use_the_words(tmp_path: Path) -> None:
    """Their logs are read as they are."""
    line = b':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "tta_resume", '
    (tmp_path / "log").write_bytes(line + b'"value": {"checkpoint": 1}, "metadata": {}}\n')

    assert run_log.read(tmp_path / "log").lost == ()
