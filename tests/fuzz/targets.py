"""The targets of the fuzzer: each reads bytes as a submitter's file, and raises only if `tta` has a bug.

A refusal in the reader's own words (`TtaError`) is a success; any other exception is a crash.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.checker import engine, registry
from harness.checker.report import text as report_text
from harness.errors import LogError, RulesError, TtaError
from harness.log import run_log
from harness.log.events import Event, format_line
from harness.log.parse import parse_line
from harness.mlperf import formula
from harness.ruleset import catalog
from harness.ruleset import load as rulesets
from harness.submission import result as results
from tests import fabricate, mlperflog
from tests.rules.box import TODAY, codes

CHECKS = list(registry.checks().values())
RULESET = fabricate.ruleset(codes())
ROUND = rulesets.load_ruleset(catalog.ruleset_folder("mlperf_training/5.1.0"), "mlperf_training/5.1.0")
LOG = fabricate.text_of(fabricate.events()).encode()
VALUES = (0, 1.5, -3, "x", True, None, [1, "y"], {"BBOX": 0.4, "a": [1]}, 2**63, 1e308)


@dataclass(frozen=True, slots=True)
class Target:
    """run(data, place) reads `data` in the folder `place`. seeds: valid inputs. words: what mutations insert."""

    run: Callable[[bytes, Path], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...]


def reader(data: bytes, place: Path) -> None:
    """Any file is read or refused; what was read is the same after it is written and read again.

    Many lines read at once give the same as each line alone.
    """
    path = place / "result_0.txt"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_log, "events_of", lambda texts, linenos: None)
        patch.setattr(run_log, "has_no_time", lambda text: False)
        strictly = _read(path)
    log = _read(path)
    assert _all_of(log) == _all_of(strictly)
    if log is None:
        return
    assert log.num_bytes == len(data)
    assert sum(log.counts.values()) >= len(log.events)
    assert all(1 <= defect.lineno <= log.num_lines for defect in log.defects)
    assert [event.lineno for event in log.events] == sorted({event.lineno for event in log.events})
    for event in log.events:
        if event.event_type or event.elapsed_ns is not None:  # another program may write neither
            assert read_again(event) == event


def _read(path: Path) -> run_log.RunLog | None:
    try:
        return run_log.read(path)
    except LogError:
        return None


def _all_of(log: run_log.RunLog | None) -> object:
    """Everything that was read, numbers with their types."""
    if log is None:
        return None
    events = [
        repr((event.time_ms, event.event_type, event.key, event.value, dict(event.metadata), event.lineno))
        for event in log.events
    ]
    return events, log.defects, log.counts, log.sha256, log.num_lines, log.is_foreign


def judge(data: bytes, place: Path) -> None:
    """An MLPerf log is judged by a round's rules and shown, whatever its lines say."""
    path = place / "result_0.txt"
    path.write_bytes(data)
    try:
        result = results.read_result(path)
    except TtaError:
        return
    findings = engine.judge(result, ROUND, CHECKS, TODAY)
    shown = report_text.as_text([report_text.judged(result, findings, ROUND)], [ROUND])
    assert all(c.isprintable() or c == "\n" for c in shown)


def read_again(event: Event) -> Event:
    return parse_line(format_line(event).encode(), event.lineno)


def load(data: bytes, place: Path) -> None:
    """A file of a ruleset; the first byte says which one."""
    rules = catalog.ruleset_folder("v1").parent
    for name in RULE_FILES:
        if not (place / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(rules / name, place / name)
    changed = place / RULE_FILES[data[0] % len(RULE_FILES) if data else 0]
    valid = changed.read_bytes()
    changed.write_bytes(data[1:])
    try:
        rulesets.load_ruleset(changed.parent, "fuzzed")
    except TtaError as error:
        assert "\n" not in str(error)  # noqa: PT017  (tests the sentence, not the error)
    finally:
        changed.write_bytes(valid)


RULE_FILES = (
    "v1/ruleset.yaml",
    "v1/detection.yaml",
    "v1/prices.yaml",
    "mlperf_training/0.7.0/ruleset.yaml",
    "mlperf_training/0.7.0/ssd.yaml",
)
PARTS = ("submission.yaml", "MANIFEST.sha256", "system", "billing.yaml", "result_0.txt", "power/result_0/node_0.txt")


def submit(data: bytes, place: Path) -> None:
    """A file of a submission is read, judged by every check, and shown; the first byte says which."""
    folder = place / "tree/acme/results/box1/toy_mini"
    if not folder.exists():
        fabricate.write_submission(place / "tree", 1)
    part = PARTS[data[0] % len(PARTS) if data else 0]
    path = folder.parents[2] / "systems/box1.json" if part == "system" else folder / part
    valid = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[1:])
    try:
        result = results.read_result(folder)
        findings = engine.judge(result, RULESET, CHECKS, TODAY)
        shown = report_text.as_text([report_text.judged(result, findings, RULESET)], [RULESET])
        assert all(c.isprintable() or c == "\n" for c in shown)
        if data[1:] != valid and part != "MANIFEST.sha256":
            assert {finding.code for finding in findings} & {"PKG003", "PKG004", "PKG010", "SYS001"}, (
                f"{part}: changed unseen"
            )
    except TtaError:
        pass
    finally:
        if valid is None:
            path.unlink()
        else:
            path.write_bytes(valid)


def formulate(data: bytes, place: Path) -> None:
    """A constraint is parsed or refused; one that was parsed is met or not met, whatever the line has."""
    try:
        demand = formula.parse(data.decode("utf-8", "surrogateescape"))
    except RulesError:
        return
    for value in VALUES:
        why = demand.failure(formula.Line(value, {"epoch_num": value, "a": 3}, dict.fromkeys(demand.names, value)))
        assert why is None or isinstance(why, str)


def _submission_seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = fabricate.write_submission(Path(place), 1)
        for number, part in enumerate(PARTS):
            path = folder.parents[2] / "systems/box1.json" if part == "system" else folder / part
            if path.exists():
                yield bytes([number]) + path.read_bytes()
    yield b"\x03attempts:\n- {node: n0, provisioned: 2026-11-20T10:00:00Z, released: 2026-11-20T11:30:05Z}\nnotes: x\n"
    with tempfile.TemporaryDirectory() as place:
        metered = fabricate.write_submission(Path(place), 1, power="node")
        for path in sorted(metered.glob("power/result_0/*")):
            yield b"\x05" + path.read_bytes()


def _loader_seeds() -> list[bytes]:
    rules = catalog.ruleset_folder("v1").parent
    return [bytes([number]) + (rules / name).read_bytes() for number, name in enumerate(RULE_FILES)]


def _round_seeds() -> list[bytes]:
    """Another program's log: whole, line by line, and as Google wrote it, without event types."""
    log = "".join(f"{entry.line()}\n" for entry in mlperflog.retinanet()).encode()
    bare = re.sub(rb'"event_type": "[A-Z_]+", ', b"", log)
    return [log] * 20 + [bare] * 10 + [*log.splitlines(keepends=True), *bare.splitlines(keepends=True)]


_FORMULAS = (
    "value == ceil(1200000 * 1152 / global_batch_size) - opt_learning_rate_warmup_steps",
    "value['BBOX'] >= 0.377 and value['SEGM'] >= 0.339",
    "metadata.epoch_num in [1, 2, 3] or has(metadata.a) and not is_integer(value)",
    "abs(value ** 2) <= inf if value != none else len(value) == 3",
)
_JSON = (*b'null NaN 1e999 -1 {} [[[[ "\\ud800" \xff \x00 \x1b[2J'.split(), b"9" * 400, b"\n")
_YAML = (
    b"&a ",
    b"*a",
    b"!!python/name:os.system ",
    b"<<: ",
    b"? ",
    b"${oc.env:HOME}",
    b"- ",
    b"!!int x",
    b"|\n",
    b"{",
    b"[",
)

TARGETS = {
    "reader": Target(
        reader,
        lambda: [LOG] * 20 + LOG.splitlines(keepends=True) + _round_seeds(),
        (b":::MLLOG ", b'"key": "run_stop"', b'"time_s"', b'"elapsed_ns": 1, ', b'"event_type": "", ', *_JSON),
    ),
    "round": Target(judge, _round_seeds, (b":::MLLOG ", b'"key": "eval_accuracy"', b'"metadata": {', *_JSON)),
    "loader": Target(load, _loader_seeds, _YAML + _JSON),
    "submission": Target(submit, lambda: list(_submission_seeds()), (b"../../", *_YAML, *_JSON)),
    "formula": Target(
        formulate,
        lambda: [text.encode() for text in _FORMULAS],
        (b"value", b"metadata.", b"**", b"(" * 90, b"lambda:", b"[x for x in value]", b"__class__", b"9" * 99, *_JSON),
    ),
}
