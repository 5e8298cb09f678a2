"""A log reads the same however it is read: many lines at once, or each by itself with `parse_line`.

Same events with the same types, same defects, counts, numbers of lines and digest, wherever the pieces of the file end.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.base import strict_json
from harness.log import run_log
from harness.log.events import CHAIN_START, EVENT_TYPES, TOKEN, Event
from harness.log.parse import events_of, is_foreign_event, parse_line
from harness.log.run_log import MAX_DEFECTS_PER_KIND, Collector
from tests import fabricate

MARK = TOKEN.encode()
FIELDS = {
    "namespace": '""',
    "time_ms": "1763683200123",
    "event_type": '"POINT_IN_TIME"',
    "key": '"a"',
    "value": "1",
    "metadata": '{"file": "f.py", "lineno": 3}',
}


def record(event: Event) -> tuple[Any, ...]:
    """Everything in it, as a text where 1, 1.0, True and -0.0 are four things."""
    fields = (event.time_ms, event.event_type, event.key, event.value, dict(event.metadata), event.lineno)
    return event.elapsed_ns, event.samples_count, repr(fields)


def summary(found: Collector) -> dict[str, Any]:
    """All that a reader knows when it is done; defects by kind, in the order of the file."""
    defects: dict[str, list[tuple[int, str]]] = {}
    for defect in found.defects:
        defects.setdefault(defect.kind, []).append((defect.lineno, defect.message))
    return {
        "events": [record(event) for event in found.events],
        "by key": {key: [record(event) for event in events] for key, events in found.by_key.items()},
        "counts": dict(found.counts),
        "defects": defects,
        "num_malformed": found.defects_by_kind.get("malformed", 0),
        "sizes": (found.num_bytes, found.num_lines),
        "sha256": found.sha256.hexdigest(),
        "is_chained": found.is_chained,
    }


def read(
    data: bytes, piece_bytes: int | None = None, is_bulk: bool = True, limits: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Reads the bytes of a log; limits: of `harness.log.run_log`, made small enough to be met."""
    collector = Collector()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (limits or {}).items():
            patch.setattr(run_log, name, value)
        if piece_bytes is not None:
            patch.setattr(run_log, "_PIECE_BYTES", piece_bytes)
        if not is_bulk:
            patch.setattr(run_log, "events_of", lambda texts, linenos: None)
        collector.read(io.BytesIO(data))
    return summary(collector)


def read_by_line(data: bytes) -> dict[str, Any]:
    """The log as `parse_line` alone reads it, if no line exceeds a limit."""
    events, malformed, cut_off = [], [], []
    *lines, last = data.split(b"\n")
    text = last[last.index(MARK) :] if MARK in last else b""
    is_whole = b"\r" + MARK in text or is_foreign_event(text)
    for lineno, line in enumerate([*lines, last] if is_whole else lines, 1):
        if MARK in line:
            try:
                events.append(parse_line(line[line.index(MARK) :].rstrip(b"\r"), lineno))
            except ValueError as error:
                malformed.append((lineno, str(error)))
    if not is_whole and (text or (last and MARK.startswith(last))):
        cut_off.append((len(lines) + 1, "the last line is cut off"))
    by_key: dict[str, list[Any]] = {}
    for event in events:
        by_key.setdefault(event.key, []).append(record(event))
    return {
        "events": [record(event) for event in events],
        "by key": by_key,
        "counts": dict(Counter(event.key for event in events)),
        "malformed": malformed[:MAX_DEFECTS_PER_KIND],
        "num_malformed": len(malformed),
        "cut_off": cut_off,
        "sizes": (len(data), len(lines) + bool(last)),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def assert_reads_the_same(data: bytes, piece_bytes: int | None = None) -> None:
    at_once, by_line = read(data, piece_bytes), read_by_line(data)

    assert at_once["defects"].get("malformed", []) == by_line.pop("malformed")
    assert at_once["defects"].get("cut_off", []) == by_line.pop("cut_off")
    assert {name: at_once[name] for name in by_line} == by_line
    assert at_once == read(data, is_bulk=False)  # order and chain, too


def line(colon: str = ": ", drop: str | None = None, more: str = "", **changes: str) -> bytes:
    """A line as MLPerf's logger writes it, with other JSON in some of its fields; more: pairs at its end."""
    fields = {name: value for name, value in {**FIELDS, **changes}.items() if name != drop}
    return MARK + ("{" + ", ".join(f'"{name}"{colon}{value}' for name, value in fields.items()) + more + "}").encode()


GOOD = line()
ORDER = line(metadata=f'{{"seq": 0, "prev": "{CHAIN_START}", "elapsed_ns": 0}}')  # the first line of a log of tta
ORDERED = fabricate.text_of(fabricate.events()).encode().splitlines()
NUMBERS = [
    *("0", "-0", "-0.0", "1.0", "1E5", "1e-400", "5e-324", "1.7976931348623157e308", "9007199254740993.0"),
    *("0.1000000000000000055511151231257828", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    "18446744073709551616",
    *("9" * 20, "-" + "9" * 20, "9" * 21, "1" + "0" * 400, "1e400", "-1e400", "NaN", "Infinity", "-Infinity"),
    *("01", "1.", ".5", "+1", "0x1", "1_000", "--1", ""),
]  # fmt: skip
TEXTS = [
    *('"a"', '"é"', '"\\u00e9"', '":"', '"a\\":"', '" :"', '"\\\\"', '"\\/"', '"\\ud83d\\ude00"', '"\u2028"'),
    *('"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\x41"', '"\\u12"', '"\t"', '"\x00"', '"\x7f"', "'a'", '"a'),
    *("true", "True", "null"),
    f'"{TOKEN}"',
    f'"{TOKEN}{{"',
]  # fmt: skip
OBJECTS = [
    *("{}", "[]", "[[]]", '{"a": {"b": {"c": [1, {"d": null}]}}}', '{"a": {"b": [1]}, "c": {"b": [1]}}'),
    *('{"a": 1, "a": 1}', '{"a": 1, "\\u0061": 1}', '[{"a": 1, "a": 2}]', '{"a": {"b": 1, "b": 1}, "c": ":"}'),
    *('{"a" : 1, "a": ":"}', '{"": 1}', '{"a": 1,}', "[1,]", '{"a"}', "{1: 2}", "[1 2]", '{"a": 1} {"b": 2}'),
    *('[{"b" :1,"b":2}],"c":"\\":"', '[{"z":1.5},null]'),
    *("/* */ 1", '{"a" : 1, "a": 2}', '{"a"\t: 1, "a": 2}', '{"a"\r: 1, "a": 2}'),
    *("[" * depth + "]" * depth for depth in (3, 4, 5, 49, 50, 60)),
    *('{"a": ' * depth + "1" + "}" * depth for depth in (3, 4, 5, 48, 49, 60)),
]  # fmt: skip
VALUES = [*NUMBERS, *TEXTS, *OBJECTS]
METADATA = [
    *("{}", "[]", "null", '"a"', '{"file": null}', '{"elapsed_ns": 5}', '{"elapsed_ns": true}', '{"elapsed_ns": 1e3}'),
    *('{"elapsed_ns": null}', '{"elapsed\\u005fns": 5}', '{"seq": 0}', '{"prev": "0"}', '{"samples_count": 7}'),
    *('{"samples_count": true}', '{"seq": 0, "elapsed_ns": 5, "prev": "' + "0" * 64 + '"}', '{"seq": 0, "seq": 0}'),
    *('{"text": "elapsed_ns"}', '{"deep": {"elapsed_ns": 5}}'),
    *OBJECTS,
]  # fmt: skip
COLONS = (": ", ":", " :", "\t: ", "\r:", "  :  ")
NO_UTF8 = (b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc0\x80"')
FIRST, SECOND = (GOOD, GOOD[:40], MARK + b"x"), (GOOD, GOOD[:40], MARK, line(metadata='{"elapsed_ns": 1}'))
STRANGE = [
    *(line(namespace=value) for value in VALUES),
    *(line(value=value) for value in VALUES),
    *(line(value='{"x": ' + value + "}") for value in VALUES),
    *(line(metadata=value) for value in METADATA),
    *(line(metadata=value, drop="event_type") for value in METADATA),
    *(line(metadata='{"x": ' + value + "}") for value in VALUES),
    *(line(time_ms=value) for value in [*VALUES, "true", '"1"']),
    *(line(event_type=value) for value in ["null", '""', '"POINT"', '"POINT_IN_\\u0054IME"', "0", "false", *OBJECTS]),
    *(line(event_type=value, metadata='{"elapsed_ns": 5}') for value in ["null", '""', '"INTERVAL_END"']),
    *(line(key=value) for value in ['""', "null", "1", '["a"]', '"b"', *TEXTS]),
    *(line(drop=name) for name in FIELDS),
    *(line(drop=name, more=', "more": 1') for name in FIELDS),
    *(line(more=f', "{name}": {value}') for name, value in FIELDS.items()),
    *(line(more=f', "\\u{ord(name[0]):04x}{name[1:]}": {value}') for name, value in FIELDS.items()),
    *(line(drop=name, more=f', "\\u{ord(name[0]):04x}{name[1:]}": {FIELDS[name]}') for name in FIELDS),
    *(line(drop="time_ms", more=f', "{name}": 1.5') for name in ("time_s", "time", "TIME_MS")),
    *(line(more=f', "{name}": 1') for name in ("more", "lineno", "(lineno)", "", "event_type ", "time_s")),
    *(line(drop="namespace", more=f', "{name}": 1') for name in ("more", "lineno", "(lineno)")),
    *(line(colon, value=value) for colon in COLONS for value in ("1", '{"x": ":"}', '"a:b"')),
    *(GOOD + end for end in (b"\r", b" \r", b"\r\r", b" ", b"\t", b"\x0c", b"\xa0", b",", b"}", b" 1", b"//", b"\x00")),
    *(MARK + begin + GOOD[len(MARK) :] for begin in (b" ", b"\t", b"\xef\xbb\xbf", b"\x0b", b"x", b"\xff")),
    *(GOOD.replace(b'"f.py"', text) for text in NO_UTF8),
    *(GOOD.replace(b'"a"', text) for text in (b'"\xff"', b'"\xc3\xa9"')),
    *(GOOD[:end] for end in (9, 10, 20, 60, len(GOOD) - 2, len(GOOD) - 1)),
    *(MARK + rest for rest in (b"", b"[]", b"null", b"x", b"{}", b"\xff", b"{", b'"a"', b"1")),
    *(first + gap + second for first in FIRST for gap in (b" ", b"\r") for second in SECOND),
    *(b"10%\r" + GOOD, b"10%\r" + GOOD[:40]),
    *(b"rank 0: " + GOOD, b"\xff" + GOOD, MARK.strip() + GOOD, GOOD[1:], GOOD.replace(b" ", b"", 1)),
    *(b"", b"loss 0.5", b":::MLLO", b":" * 9, b"\xff\xfe"),
]  # fmt: skip


def strictly(line: bytes) -> tuple[Any, ...] | None:
    """The event in a line by the rules for one, each for itself: strict JSON, five fields with their types."""
    try:
        found = strict_json.loads(line[len(MARK) :])
    except ValueError:
        found = None
    if isinstance(found, dict) and "value" in found:
        time_ms, key, metadata = found.get("time_ms"), found.get("key"), found.get("metadata")
        is_number = isinstance(time_ms, int | float) and not isinstance(time_ms, bool)
        is_key = isinstance(key, str) and isinstance(metadata, dict) and (key or "elapsed_ns" not in metadata)
        if is_number and isinstance(key, str) and is_key and isinstance(metadata, dict):
            event_type = found.get("event_type")
            if event_type is None and "elapsed_ns" not in metadata:
                event_type = ""
            elif event_type not in EVENT_TYPES:
                return None
            return record(Event(found["time_ms"], event_type, key, found["value"], metadata, 1))
    return None


def assert_is_read_by_the_rules(line: bytes) -> None:
    """Of two events on a line, the last one counts if the first is invalid and the last is another program's.

    None counts if a carriage return separates them.
    """
    text = line[line.find(MARK) :] if MARK in line else MARK
    try:
        found = record(parse_line(text, 1))
    except ValueError:
        found = None
    wanted, last = strictly(text), text.rfind(MARK)
    if wanted is None and last > 0 and b"\r" not in text and (second := strictly(text[last:])) and second[0] is None:
        wanted = second

    assert found == wanted, line


def test_every_strange_line_is_read_by_the_rules_for_a_line() -> None:
    """`parse_line` agrees with the rules written down plainly, for several hundred lines."""
    for strange in STRANGE:
        assert_is_read_by_the_rules(strange)


def test_sound_lines_are_read_at_once() -> None:
    """Even with colons in texts, nested objects and white space at the end."""
    texts = [GOOD, line(value='"10:30"'), line(value='{"x": [{"z": 1.5}, null]}'), line(key='"é"') + b" \r"]

    events = events_of([text[len(MARK) :] for text in texts], [3, 4, 9, 10])

    assert events is not None
    assert [*map(record, events)] == [record(parse_line(*each)) for each in zip(texts, [3, 4, 9, 10], strict=True)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_every_strange_line_among_good_ones_reads_as_alone(end: bytes) -> None:
    """Each of some hundred, before, after and between good lines, with and without an end of the last."""
    assert len(set(STRANGE)) > 400
    for strange in STRANGE:
        data = end.join((GOOD, strange, GOOD, b""))
        assert_reads_the_same(data)
        assert_reads_the_same(end.join((GOOD, strange)))


def test_all_strange_lines_in_one_log() -> None:
    """More malformed lines than are listed, in blocks of any length; the last by itself."""
    data = b"\n".join((*STRANGE, GOOD, b""))

    for piece_bytes in (1 << 17, 4096, 200, 1):
        assert_reads_the_same(data, piece_bytes)
    assert len(read(data)["defects"]["malformed"]) == MAX_DEFECTS_PER_KIND
    assert len(read_by_line(data)["events"]) > 100


@pytest.mark.parametrize("fault", [MARK + b"x", line(drop="time_ms"), line(drop="time_ms", more=', "time_s": 1.5')])
def test_after_more_malformed_lines_than_are_listed_all_is_read_as_before(fault: bytes) -> None:
    """Defects that are no longer listed are still counted, and events are still events."""
    for num_before in (MAX_DEFECTS_PER_KIND - 1, MAX_DEFECTS_PER_KIND, MAX_DEFECTS_PER_KIND + 1):
        assert_reads_the_same((fault + b"\n") * num_before + b"\n".join((*STRANGE, GOOD, b"")))


@pytest.mark.parametrize(
    "texts",
    [
        [GOOD[len(MARK) :] * 2, b""],
        [b"", GOOD[len(MARK) :] + b" " + GOOD[len(MARK) :]],
        [*GOOD[len(MARK) :].split(b" ", 1), GOOD[len(MARK) :] * 2],
        [*line(metadata='{"x"|: 1, "x": 2}')[len(MARK) :].split(b"|"), GOOD[len(MARK) :] * 2],
    ],
    ids=["two and none", "none and two", "half, half and two", "a key twice, half a line apart"],
)
def test_as_many_objects_as_lines_are_not_one_on_each_line(texts: list[bytes]) -> None:
    """Where one line has two and another none, both are malformed, as by `parse_line`."""
    assert events_of(texts, range(1, 1 + len(texts))) is None
    assert_reads_the_same(b"".join(MARK + text + b"\n" for text in texts))


_KEYS = st.sampled_from(["a", "b", "é", ":", '"', "elapsed_ns"])
_JSON = st.recursive(
    st.sampled_from([*NUMBERS[:24], *TEXTS[:11]])
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.integers().map(str)
    | st.text(max_size=8).map(json.dumps)
    | st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False)),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(_KEYS, st.sampled_from([": ", ":", " :", "\t: "]), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{json.dumps(name)}{colon}{value}" for name, colon, value in pairs) + "}"
        )
    ),
    max_leaves=6,
)  # fmt: skip
_TYPES = st.sampled_from(['"POINT_IN_TIME"', '"INTERVAL_START"', '"INTERVAL_END"'])
_LINES = st.one_of(
    st.just(GOOD),
    st.builds(line, value=_JSON, event_type=_TYPES),
    st.builds(line, drop=st.just("event_type"), metadata=_JSON.map(lambda value: f'{{"x": {value}}}')),
    st.builds(line, st.sampled_from([":", " :", ": "]), value=_JSON, namespace=st.sampled_from(['""', "null", "5"])),
    st.builds(line, key=st.sampled_from(['"a"', '"b"', '"c"'])),
    st.sampled_from(STRANGE),
    st.binary(max_size=12).filter(lambda data: b"\n" not in data and data.strip()).map(lambda data: MARK + b"x" + data),
)
_LOGS = st.builds(
    lambda parts, end: b"".join(line + stop for line, stop in parts) + end,
    st.lists(
        st.tuples(_LINES, st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\nother\n", b"\n:::MLL\nOG \n"])),
        max_size=12,
    ),
    st.sampled_from([b"", b"", GOOD, GOOD + b"\r", GOOD[:50], MARK[:5], line(metadata='{"elapsed_ns": 5}')]),
)


@settings(max_examples=400, deadline=None)
@given(_LINES)
def test_any_line_is_read_by_the_rules_for_a_line(data: bytes) -> None:
    """As for the strange lines above."""
    assert_is_read_by_the_rules(data)


@settings(max_examples=250, deadline=None)
@given(_LOGS, st.sampled_from([1, 7, 64, 300, 1 << 17]))
@example(b"\n" * 3 + GOOD + b"\n", 1)
def test_any_mix_of_lines_reads_the_same(data: bytes, piece_bytes: int) -> None:
    """Wherever the pieces of the file end."""
    assert_reads_the_same(data, piece_bytes)


@settings(max_examples=200, deadline=None)
@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", fullmatch=True))
@example("2.2250738585072011e-308")
@example("0.500000000000000166533453693773481063544750213623046875")
@example("9007199254740992.99999999999999999999")
def test_a_number_of_any_length_is_the_same_number(text: str) -> None:
    """To the last bit, whole ones as whole ones; in time, value and metadata."""
    data = line(time_ms=text, value=text, metadata=f'{{"m": {text}}}') + b"\n"

    assert_reads_the_same(data)
    for event in events_of([data[len(MARK) : -1]], [1]) or ():
        assert (event.value, type(event.value)) == (json.loads(text), type(json.loads(text)))


TAMPERING = ["drop", "double", "swap", "change", "insert"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 28), st.sampled_from(TAMPERING)), max_size=4),
    st.sampled_from([99, 1000, 1 << 17]),
)
def test_a_chained_log_that_was_tampered_with_has_the_same_defects(
    changes: list[tuple[int, str]], piece_bytes: int
) -> None:
    """Lines removed, doubled, swapped, changed and inserted: order, chain and clocks give the same defects."""
    lines = [*ORDERED]
    for place, change in changes:
        if change == "drop":
            del lines[place]
        elif change == "double":
            lines.insert(place, lines[place])
        elif change == "swap":
            lines[place], lines[place + 1] = lines[place + 1], lines[place]
        elif change == "change":
            lines[place] = lines[place].replace(b'"lineno": 1', b'"lineno": 2')
        else:
            lines.insert(place, line(drop="event_type"))

    data = b"\n".join((*lines, b""))

    assert_reads_the_same(data, piece_bytes)
    assert read(data)["is_chained"]
    if not changes:
        assert read(data)["defects"] == {}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", "tracked_stats"]), st.integers(0, 400)), max_size=30),
    st.sampled_from([1, 300, 1500, 1 << 17]),
    st.fixed_dictionaries(
        {},
        optional={
            "MAX_EVENTS_PER_KEY": st.integers(1, 8),
            "_MAX_KEYS": st.integers(1, 3),
            "MAX_KEPT_BYTES": st.integers(100, 3000),
            "MAX_LINE_BYTES": st.integers(250, 500),
            "MAX_DEFECTS_PER_KIND": st.integers(1, 3),
        },
    ),
    st.booleans(),
)
@example([("a", 100)], 1, {"MAX_LINE_BYTES": 250}, True)
def test_what_is_too_much_is_too_much_however_it_is_read(
    lines: list[tuple[str, int]], piece_bytes: int, limits: dict[str, int], is_tta: bool
) -> None:
    """Events of a key, keys, bytes, the length of a line, defects: the same are kept and reported.

    Of a key, all lines of another program are kept but those of `tracked_stats`.
    """
    data = ORDER + b"\n" if is_tta else b""
    data += b"".join(line(key=f'"{key}"', value=f'"{"x" * size}"') + b"\n" for key, size in lines)

    found = read(data, piece_bytes, limits=limits)

    assert found == read(data, is_bulk=False, limits=limits)
    assert found["is_chained"] == is_tta
    limited = found["by key"] if is_tta else {"tracked_stats"} & found["by key"].keys()
    assert all(len(found["by key"][key]) <= limits.get("MAX_EVENTS_PER_KEY", 30) for key in limited)


def test_more_lines_without_order_than_are_listed_before_the_first_that_has_it() -> None:
    """Whether they are read at once or one by one, the first hundred are listed."""
    ordered = b"\n".join((*ORDERED, b""))
    for num_before in (MAX_DEFECTS_PER_KIND - 1, MAX_DEFECTS_PER_KIND, MAX_DEFECTS_PER_KIND + 5):
        data = (GOOD + b"\n") * num_before + ordered

        assert_reads_the_same(data)
        assert_reads_the_same(data, 500)
        listed = read(data)["defects"]["unchained"]
        assert [lineno for lineno, _ in listed] == list(range(1, 1 + min(num_before, MAX_DEFECTS_PER_KIND)))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("num_before", [1, 50, MAX_DEFECTS_PER_KIND + 50])
@pytest.mark.parametrize("drop", [None, "event_type", "time_ms", "key"])
def test_prev_is_of_the_line_before_whatever_it_is(drop: str | None, num_before: int, end: bytes) -> None:
    """An event, read at once or by itself, or a malformed line, listed or only counted; without its line end."""
    before = [line(drop=drop, value=str(number)) for number in range(num_before)]
    linked = line(metadata=f'{{"seq": 0, "elapsed_ns": 5, "prev": "{hashlib.sha256(before[-1]).hexdigest()}"}}')
    loose = linked.replace(b'"prev": "', b'"prev": "0')

    for last, has_break in ((linked, False), (loose, True)):
        data = end.join((*before, last, b""))
        assert_reads_the_same(data)
        assert_reads_the_same(data, len(data) - len(last + end))  # the lines before in a piece of their own
        assert ("chain" in read(data)["defects"]) == has_break
