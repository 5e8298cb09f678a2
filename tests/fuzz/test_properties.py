"""Properties of any input: of the reader, a log's lines, submissions, rules and formulas."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.base import strict_json
from harness.errors import LogError, RulesError
from harness.log import run_log
from harness.log.events import EVENT_TYPES, Event, format_line
from harness.log.parse import parse_line
from harness.mlperf import formula
from tests.fuzz import targets
from tests.fuzz.__main__ import GUIDED_BY, mutated

ROOM = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
events = st.builds(
    Event,
    time_ms=st.integers(0, 2**53) | finite,
    event_type=st.sampled_from(EVENT_TYPES),
    key=st.text(min_size=1, max_size=30),
    value=values,
    metadata=st.dictionaries(st.text(max_size=8), values, max_size=5),
    lineno=st.integers(1, 10**6),
)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_the_modules_that_guide_the_fuzzer_exist() -> None:
    """A stale name would guide nothing."""
    assert GUIDED_BY.keys() == targets.TARGETS.keys()
    assert all(importlib.util.find_spec(module) is not None for modules in GUIDED_BY.values() for module in modules)


@ROOM
@given(event=events)
def test_an_event_written_and_read_is_the_same(event: Event) -> None:
    """Every text, number and nesting that a log can hold, on one line."""
    line = format_line(event)

    assert "\n" not in line
    assert parse_line(line.encode(), event.lineno) == event


@ROOM
@given(value=values)
def test_json_written_and_read_strictly_is_the_same(value: Any) -> None:
    """Nothing valid in a description is refused."""
    assert strict_json.loads(json.dumps(value).encode()) == value


@ROOM
@given(data=st.binary(max_size=400))
@example(b'{"a": 1, "a": 1}')
@example(b"NaN")
@example(b"1e999")
@example(b"9" * 21)
@example(b"[" * 5000)
@example(b"[" * 51 + b"]" * 51)
def test_json_is_read_or_refused(data: bytes) -> None:
    """Only ValueError; and what it returns has one text."""
    try:
        value = strict_json.loads(data)
    except ValueError:
        return
    assert strict_json.loads(json.dumps(value, allow_nan=False).encode()) == value


@ROOM
@given(data=st.binary(max_size=2000) | st.builds(lambda rest: b":::MLLOG " + rest, st.binary(max_size=500)))
@example(b"")
@example(b":::MLLO")
@example(b":::MLLOG {}\n:::MLLOG ")
def test_the_reader_reads_or_refuses(place: Path, data: bytes) -> None:
    """Only LogError; every event it yields can be written and read again."""
    targets.reader(data, place)


@ROOM
@given(seed=st.integers(0, 2**32))
def test_a_mutated_log_gives_defects_or_the_same_events(place: Path, seed: int) -> None:
    """In a log with a chain no change to one of `tta`'s lines goes unseen."""
    data = mutated(targets.LOG, [targets.LOG], targets.TARGETS["reader"].words, random.Random(seed))
    valid, path = place / "valid.txt", place / "mutated.txt"
    valid.write_bytes(targets.LOG)
    path.write_bytes(data)
    before = run_log.read(valid)
    try:
        after = run_log.read(path)
    except LogError:
        return
    same = [(event.key, event.value) for event in before.events]
    found = [(event.key, event.value) for event in after.events]
    # A log whose last lines are gone has no defect: its missing end is a finding of LOG001. The last line is in no
    # `prev`.
    assert after.defects or found[:-1] == same[: len(found) - 1] or not any(event.elapsed_ns for event in after.events)


@ROOM
@given(seed=st.integers(0, 2**32), name=st.sampled_from(["submission", "loader"]))
def test_a_mutated_tree_is_read_or_refused(place: Path, seed: int, name: str) -> None:
    """Only TtaError, from reading, judging and showing; no change to a listed file goes unseen."""
    target = targets.TARGETS[name]
    chance = random.Random(seed)
    seeds = SEEDS.setdefault(name, target.seeds())

    target.run(mutated(chance.choice(seeds), seeds, target.words, chance), place)


SEEDS: dict[str, list[bytes]] = {}


@ROOM
@given(text=st.text(max_size=600) | st.text("value0123456789+-*/().,[]<>=! andornotifelsinf'\"", max_size=80))
@example("value ** 64 ** 64 ** 64")
@example("value" + " + value" * 60)
@example("(" * 200 + "value" + ")" * 200)
@example("not " * 120 + "value")
@example("'x' * 9999999999")
@example("value.__class__")
@example("1if value else 2")
def test_a_formula_is_parsed_or_refused_and_then_answers(place: Path, text: str) -> None:
    """Only RulesError, and never because of a line's content; no warning either."""
    targets.formulate(text.encode("utf-8", "surrogatepass"), place)


def test_a_formula_of_great_numbers_answers_at_once() -> None:
    """Powers of powers do not exhaust memory."""
    for text in ("value ** 64 ** 64 == 1", "2 ** 64 ** 64 == 1", "abs(value ** 64) ** 64 > 0", "[value] * 99 == 1"):
        try:
            demand = formula.parse(text)
        except RulesError:
            continue
        started_s = time.process_time()
        for value in (2**63, 1e308, -1, math.pi):
            demand.failure(formula.Line(value))
        assert time.process_time() - started_s < 1


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_a_target_accepts_its_own_seeds_and_runs(name: str, tmp_path: Path) -> None:
    """The fuzzer's loop, for a few inputs, with a seed."""
    target = targets.TARGETS[name]
    seeds = target.seeds()
    assert seeds
    for data in seeds:
        target.run(data, tmp_path)

    chance = random.Random(4)
    for _ in range(20):
        target.run(mutated(chance.choice(seeds), seeds, target.words, chance), tmp_path)


def test_crashes_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An input that raises anything else is saved and counted, and the exit status is 1."""
    from tests.fuzz import __main__

    def crashes(data: bytes, place: Path) -> None:
        raise KeyError("x")

    broken = targets.Target(crashes, lambda: [b"x"], (b"y",))

    assert __main__.loop("reader", broken, 3, 1, tmp_path / "kept") == 3
    assert len(list((tmp_path / "kept").iterdir())) == 3
    assert "3 crashes" in capsys.readouterr().out
