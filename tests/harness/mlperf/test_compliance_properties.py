"""The faults of a log under a round are those that a reader finds line by line, in whatever order they are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log import run_log
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.formula import Line
from harness.mlperf.model import KeyRule, Round
from tests.mlperflog import Entry, drop, find, put_after, retinanet, round_of, write

Fault = tuple[str, int | None, str]  # kind, line, and the key with what is said of it and of how many lines


def diffusion() -> list[Entry]:
    """A run of Stable Diffusion, two lines of which are one evaluation."""
    log = retinanet()
    find(log, "submission_benchmark").value = "stable_diffusion"
    drop(log, "eval_accuracy")
    for samples in (512_000, 1_024_000):
        for metric, value in (("FID", 95.0 - samples / 1e5), ("CLIP", 0.1 + samples / 2e7)):
            metadata = {"samples_count": samples, "metric": metric}
            put_after(log, find(log, "eval_stop"), Entry(500.0, "eval_accuracy", value, metadata=metadata))
    return log


ROUNDS = {version: round_of(version) for version in ("1.0.0", "4.0.0", "5.1.0")}


def asked_of(rule: KeyRule, earlier: dict[str, Any], event: Event, is_first: bool) -> Iterator[tuple[str, str]]:
    """The faults of one line: the kind, and the message."""
    for key in rule.after:
        if key not in earlier:
            yield "order", f"there is no {key} before it"
    for key in rule.before:
        if key in earlier:
            yield "order", f"comes after {key}; it must come before"
    for demand in (*rule.each, *(rule.first if is_first else ())):
        if demand.failure(Line(event.value, event.metadata, earlier)) is not None:
            yield "value", demand.text


def by_line(log: RunLog, round_: Round) -> tuple[Counter[Fault], Event | None]:
    """Orders, demands and targets, one line after another; and the first line in time that meets the target."""
    page, (_, benchmark) = compliance.rules_of(log, round_), compliance.benchmark_of(log, round_)
    join = None if benchmark is None else benchmark.join
    events = [*log.events, *(() if join is None else compliance.joined(log, join))]
    earlier: dict[str, Any] = {}
    num_seen: Counter[str] = Counter()
    first: dict[tuple[str, str, str], int] = {}
    num_lines: Counter[tuple[str, str, str]] = Counter()
    reached: dict[str, Event] = {}
    for event in events:
        rule = page.keys.get(event.key)
        if rule is not None:
            for kind, what in asked_of(rule, earlier, event, num_seen[event.key] == 0):
                first.setdefault((kind, event.key, what), event.lineno)
                num_lines[kind, event.key, what] += 1
            if rule.target is not None and rule.target.holds(Line(event.value, event.metadata, earlier)):
                reached[event.key] = min(reached.get(event.key, event), event, key=lambda found: found.time_ms)
        num_seen[event.key] += 1
        earlier[event.key] = event.value
    found: Counter[Fault] = Counter()
    for (kind, key, what), line in first.items():
        found[kind, line, f"{key} {num_lines[kind, key, what]}"] += 1
    for key, rule in page.keys.items():
        if rule.target is not None and num_seen[key] and key not in reached:
            found["target", log.line_of(key), f"{num_seen[key]}"] += 1
    return found, next(iter(reached.values()), None)


def reported(log: RunLog, round_: Round) -> Counter[Fault]:
    found: Counter[Fault] = Counter()
    kinds: tuple[compliance.Kind, ...] = ("order", "value")
    for kind in kinds:
        for fault in compliance.faults(log, round_, kind):
            lines = re.search(r", on ([0-9,]+) lines$", fault.message)
            key = fault.message.partition(" ")[0].rstrip(":")
            found[kind, fault.line, f"{key} {int(lines[1].replace(',', '')) if lines else 1}"] += 1
    for fault in compliance.faults(log, round_, "target"):
        found["target", fault.line, fault.message.split()[2]] += 1
    return found


VALUES: list[Any] = [None, 0, 1, 2.5, "", "closed", "lars", "retinanet", [1], {"a": 1}, True, 0.99, 256, 512_000]
NAMES = ["samples_count", "epoch_num", "first_epoch_num", "step_num", "status", "metric"]
KEYS = sorted({entry.key for entry in diffusion() if entry.key} | {"opt_name", "opt_base_learning_rate", "epoch_stop"})
_CHANGES = st.tuples(
    st.sampled_from(["drop", "double", "move", "value", "field", "bare", "key"]),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(VALUES),
    st.sampled_from(NAMES),
    st.sampled_from(KEYS),
)


def changed(log: list[Entry], changes: list[tuple[str, int, int, Any, str, str]]) -> list[Entry]:
    log = [entry for entry in log if entry.key]
    for what, place, other, value, name, key in changes:
        entry = log[place % len(log)]
        copy = Entry(entry.at_s, entry.key, entry.value, entry.event_type, dict(entry.metadata))
        if what in ("drop", "move"):
            del log[place % len(log)]
        if what in ("double", "move"):
            log.insert(other % len(log), copy)
        if what == "value":
            copy.value = value
        elif what == "field":
            copy.metadata[name] = value
        elif what == "bare":
            copy.metadata.pop(name, None)
        elif what == "key":
            copy.key = key
        if what in ("value", "field", "bare", "key"):
            log[place % len(log)] = copy
    return log


@settings(max_examples=250, deadline=None)
@given(st.booleans(), st.lists(_CHANGES, max_size=8), st.sampled_from(sorted(ROUNDS)))
def test_the_faults_are_those_found_line_by_line(
    tmp_path_factory: pytest.TempPathFactory,
    is_diffusion: bool,
    changes: list[tuple[str, int, int, Any, str, str]],
    version: str,
) -> None:
    """Lines removed, doubled, moved, with another value, field or key: the same faults at the same lines, as often."""
    path = tmp_path_factory.getbasetemp() / "result_0.txt"
    log = run_log.read(write(path, changed(diffusion() if is_diffusion else retinanet(), changes)))

    faults, reached = by_line(log, ROUNDS[version])

    assert reported(log, ROUNDS[version]) == faults
    found = compliance.first_reached(log, ROUNDS[version])
    assert (None if found is None else found.lineno) == (None if reached is None else reached.lineno)
    assert bool(compliance.reached(log, ROUNDS[version])) == (reached is not None)
