"""Many lines at once: the events are those of `parse_line` line by line, or there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log import run_log
from harness.log.events import TOKEN, Event
from harness.log.parse import events_of, parse_line

GOOD = b'{"namespace":"","time_ms":1,"event_type":"POINT_IN_TIME","key":"a","value":{"x":[1]},"metadata":{"file":"f"}}'


def record_of(event: Event) -> str:
    """Everything in it, numbers with their types."""
    return repr((event.time_ms, event.event_type, event.key, event.value, dict(event.metadata), event.lineno))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"time_ms":1', b'"time_ms":1,"time_ms":1'),
        (b'"x":[1]', b'"x":[1],"x":[1]'),
        (b'"x":[1]', b'"x":[{"y":1,"y":1}]'),
        (b'"x":[1]', b'"x" :1,"x":":"'),
        (b'"x":[1]', b'"x"\t:1,"x":":"'),
        (b'"x":[1]', b'"x"\r:1,"x":":"'),
        (b'"x":[1]', b'"x":NaN'),
        (b'"x":[1]', b'"x":1e999'),
        (b'"x":[1]', b'"x":18446744073709551615'),
        (b'"x":[1]', b'"x":[[[[1]]]]'),
        (b'"x":[1]', b'"x":"\xff"'),
        (b'"x":[1]', b'"x":"\\":"'),
        (b'"namespace":"",', b""),
        (b'"namespace":"",', b'"key":"b",'),
        (b'"namespace":"",', b'"(lineno)":5,'),
        (b'"namespace":"",', b'"(lineno)":5,"namespace":"",'),
        (b'"namespace":"",', b'"more":1,"namespace":"",'),
        (b'"key":"a"', b'"key":""'),
        (b'"time_ms":1', b'"time_ms":true'),
        (b'"time_ms":1', b'"time_ms":99999999999999999999'),
        (b"POINT_IN_TIME", b"POINT"),
        (b'"metadata":{"file":"f"}', b'"metadata":null'),
        (GOOD, b""),
        (GOOD, GOOD + b" " + GOOD),
        (GOOD, GOOD + b"\n" + GOOD),
        (GOOD, GOOD[:-1]),
    ],
)
def test_one_uncertain_line_leaves_all_to_the_strict_way(old: bytes, new: bytes) -> None:
    """Keys twice, numbers out of bounds, depth, bytes that are not text, fields missing or unknown."""
    assert old in GOOD

    assert events_of([GOOD, GOOD.replace(old, new), GOOD], [3, 4, 5]) is None


def test_certain_lines_become_events_with_their_numbers() -> None:
    """Even with colons in texts and nested objects."""
    texts = [
        GOOD,
        GOOD.replace(b'"f"', b'"10:30"'),
        GOOD.replace(b"[1]", b'[{"z":1.5},null]'),
        GOOD.replace(b'"a"', b'"\xc3\xa9"') + b" \r",
    ]

    events = events_of(texts, [3, 4, 9, 10])

    assert events is not None
    wanted = [parse_line(TOKEN.encode() + text, number) for text, number in zip(texts, [3, 4, 9, 10], strict=True)]
    assert [record_of(event) for event in events] == [record_of(event) for event in wanted]


_KEYS = st.sampled_from(["a", "b", "key", "value", "time_ms", "é", ":", '"'])
_NUMBERS = st.sampled_from(["1", "-0", "1.0", "1e3", "1e999", "NaN", "9" * 20, "9" * 21, "-9223372036854775809"])
_TEXTS = st.sampled_from(['"a"', '":"', '" :"', '"\\":"', '"\\ud800"', '"é"', "true", "null"])
_VALUES = st.recursive(
    _NUMBERS | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{','.join(found)}]")
        | st.lists(st.tuples(_KEYS, st.sampled_from([":", " :", ": ", "\t: "]), inner), max_size=3).map(
            lambda found: "{" + ",".join(json.dumps(name) + colon + value for name, colon, value in found) + "}"
        )
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(_VALUES, _VALUES), min_size=1, max_size=3))
def test_the_fast_way_agrees_with_the_strict_way(pairs: list[tuple[str, str]]) -> None:
    """Or gives nothing, whatever value and metadata are."""
    head = '{"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "a", '
    texts = [f'{head}"value": {value}, "metadata": {{"m": {other}}}}}'.encode() for value, other in pairs]

    events = events_of(texts, range(len(texts)))

    if events is not None:
        wanted = [parse_line(TOKEN.encode() + text, number) for number, text in enumerate(texts)]
        assert [record_of(event) for event in events] == [record_of(event) for event in wanted]


def test_a_log_reads_the_same_without_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of every kind, in pieces: same events, defects, counts and line numbers."""
    lines: list[Any] = [GOOD, b"{}", GOOD.replace(b"[1]", b"NaN"), GOOD + b"\r", b"x", GOOD.replace(b'"a"', b'"b"')]
    text = b"".join(b"other\n" * (place % 3) + TOKEN.encode() + line + b"\n" for place, line in enumerate(lines * 40))
    (tmp_path / "log").write_bytes(text)
    monkeypatch.setattr(run_log, "_PIECE_BYTES", 1000)
    fast = run_log.read(tmp_path / "log")

    monkeypatch.setattr(run_log, "events_of", lambda texts, linenos: None)
    strict = run_log.read(tmp_path / "log")

    assert [*map(record_of, fast.events)] == [*map(record_of, strict.events)]
    assert (fast.defects, fast.counts, fast.num_lines) == (strict.defects, strict.counts, strict.num_lines)
    assert len(fast.events) == 120
    assert fast.is_foreign
