"""Totals that a submission or a published board states, compared with those that follow from the logs. Pure.

A stated total is never used: it is read and compared, and it agrees or differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base import strict_json
from harness.base.files import line_of, small_file
from harness.base.values import finite_number
from harness.board.derive.numbers import Derived, Subject, numbers
from harness.errors import SubmissionError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.scoring import timeline
from harness.scoring.run_result import RunResult
from harness.submission.layout import CLAIM_NAME

SCALING_NAME = "scaling.json"  # of MLCommons' package checker: {"scaling_factor": 1.02}
LEDGER = (0.01, 0.001)  # relative and in seconds: the referee's own clock edges; TIM003 allows the same
ENERGY = (0.001, 0.0)  # as PWR003
THROUGHPUT = (0.01, 0.0)  # as TIM010
EXACT = (1e-9, 1e-9)
RULES_OF_BOARD = ("ruleset", "ruleset_digest", "prices_digest")  # fields of a board's data, next to its tables
_NOTHING = "nothing"
# What depends on the other results of a tree: ranks, and the reproductions among them.
_OF_TREE = re.compile(r"board\.(((cost|energy)\.)?ranks\[[01]\]|(reproduced|reproductions|originals)[.\[].*)")
_LOCATION = re.compile(r".*\.(place|page|path|submitter|system)")  # depend on the tree's place or identify the row
_STATED = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*:\s*['\"]?(-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)['\"]?\s*")


@dataclass(frozen=True, slots=True)
class Stated:
    """A stated total. derived: None where the logs give nothing to compare it with; `why` then gives the reason.

    tolerance: relative and absolute difference within which the two agree.
    """

    name: str
    stated: float | str
    derived: float | str | None
    path: str
    line: int | None
    tolerance: tuple[float, float] = EXACT
    why: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether stated and derived agree; None: nothing to compare with."""
        if self.derived is None:
            return None
        if isinstance(self.stated, str) or isinstance(self.derived, str):
            return self.stated == self.derived
        relative, absolute = self.tolerance
        return abs(self.stated - self.derived) <= relative * abs(self.derived) + absolute + 1e-9


def stated_totals(subject: Subject, derived: Iterable[Derived]) -> list[Stated]:
    """Every total that the logs and the claim state; `stated_scaling` has that of scaling.json."""
    found: list[Stated] = []
    results = {run.path: (index, run) for index, run in enumerate(subject.row.score.runs)}
    for log in subject.result.runs:
        if str(log.path) in results:
            index, run = results[str(log.path)]
            found += _of_log(log, f"score.runs[{index}]", run)
        found += _counts(log)
    return [*found, *_of_claim(subject, {item.name: item.value for item in derived})]


def _of_log(log: RunLog, name: str, run: RunResult) -> Iterator[Stated]:
    path = str(log.path)
    ledger = {**run.ledger, "run": run.run_s}
    for phase, stated in _fields(log, keys.TTA_LEDGER):
        # An aborted run may have ended inside a block, which only one of the two counts.
        is_whole = run.status == timeline.SUCCESS
        value = ledger.get(phase.removesuffix("_s")) if is_whole else None
        why = "nothing of this name is derived" if is_whole else "the run was aborted"
        yield Stated(f"{name}: tta_ledger.{phase}", stated, value, path, log.line_of(keys.TTA_LEDGER), LEDGER, why)
    energy = run.energy
    known = (
        {}
        if energy is None
        else {"energy_j": energy.joules, "u95_j": energy.uncertainty_j, "coverage": energy.coverage}
    )
    for field, stated in _fields(log, keys.TTA_ENERGY):
        why = "no power log gives it"
        yield Stated(
            f"{name}: tta_energy.{field}", stated, known.get(field), path, log.line_of(keys.TTA_ENERGY), ENERGY, why
        )
    stop = log.first(keys.RUN_STOP)
    if stop is not None and stop.samples_count is not None and run.evaluations:
        last = max(item.samples for item in run.evaluations)
        derived = run.samples if run.samples is not None else last
        yield Stated(f"{name}: run_stop.samples_count", stop.samples_count, derived, path, stop.lineno)


def _fields(log: RunLog, name: str) -> Iterator[tuple[str, float]]:
    value = log.value(name)
    for field, stated in value.items() if isinstance(value, dict) else ():
        number = finite_number(stated)
        if number is not None:
            yield str(field), number


def _counts(log: RunLog) -> Iterator[Stated]:
    path = str(log.path)
    for event, start, stop in timeline.block_stats(log):
        stated = finite_number(event.value.get("throughput")) if isinstance(event.value, dict) else None
        block_s = log.seconds(start, stop)
        if stated is None or start.samples_count is None or stop.samples_count is None or block_s <= 0:
            continue
        derived = (stop.samples_count - start.samples_count) / block_s
        yield Stated("tracked_stats.throughput", stated, derived, path, event.lineno, THROUGHPUT)
    stated = finite_number(log.field(keys.TTA_END, "num_events"))
    if stated is not None:
        yield Stated("tta_end.num_events", stated, sum(log.counts.values()), path, log.line_of(keys.TTA_END))


def _of_claim(subject: Subject, known: Mapping[str, float | str]) -> Iterator[Stated]:
    """The digest in a claim, and any number that was added to it: a claim has no field for one."""
    result = subject.result
    path = result.path / CLAIM_NAME
    if result.claim is not None and result.system_sha256 is not None:
        stated = result.claim.system_sha256
        yield Stated("system_sha256", stated, result.system_sha256, str(path), line_of(path, "system_sha256"))
    if CLAIM_NAME not in result.files:
        return
    try:
        lines = small_file(path).decode("utf-8", "replace").splitlines()
    except SubmissionError:
        return
    for number, line in enumerate(lines, 1):
        match = _STATED.fullmatch(line)
        if match is not None and math.isfinite(float(match[2])):
            derived = known.get(f"score.{match[1]}", known.get(f"summary.{match[1]}"))
            value = None if derived is None else float(derived)
            yield Stated(match[1], float(match[2]), value, str(path), number, why="nothing of this name is derived")


def stated_scaling(subject: Subject) -> list[Stated]:
    """Every number in a result's scaling.json; none without the file.

    Raises:
        SubmissionError: it cannot be read.
    """
    path, score = subject.result.path / SCALING_NAME, subject.row.score
    if SCALING_NAME not in subject.result.files:
        return []
    factor = None if score.seconds is None else 1.0  # no file changes a score
    values = [(name, finite_number(stated)) for name, stated in numbers(_json(small_file(path), path))]
    return [
        Stated(f"{SCALING_NAME}: {name}", value, factor, str(path), None, why="the result has no score")
        for name, value in values
        if value is not None
    ]


def against_board(
    data: bytes, path: Path, subject: Subject, board: Mapping[str, Any], is_tree_given: bool
) -> list[Stated]:
    """The result's row in a published board (`data`, from the file at `path`), compared with `board`, its row computed
    from the logs.

    Raises:
        SubmissionError: the file is not a board.
    """
    document = _json(data, path)
    tables = document.get("tables") if isinstance(document, dict) else None
    if not isinstance(tables, list):
        raise SubmissionError(f"{path}: is not the data of a board: it has no 'tables'")
    table, row = _row(tables, subject)
    if row is None:
        return [Stated("the row of this result", "none", "one", str(path), None)]
    stated = {name: table.get(name) for name in ("target", "num_runs", "drop", "without_training")}
    stated |= {**{name: document.get(name) for name in RULES_OF_BOARD}, **row}
    derived = dict(numbers(board, "board"))
    found = []
    for name, value in numbers(stated, "board"):
        is_of_tree = _OF_TREE.fullmatch(name) is not None
        other = None if is_of_tree and not is_tree_given else derived.get(name)
        what = "a rank" if "ranks[" in name else "a reproduction"
        why = f"{what} needs the tree: --tree" if is_of_tree else "nothing of this name is derived"
        found.append(Stated(name, float(value), None if other is None else float(other), str(path), None, why=why))
    missing = sorted(set(derived) - dict(numbers(stated, "board")).keys())
    found += [Stated(name, _NOTHING, str(derived[name]), str(path), None) for name in missing]
    words, own = (
        {name: text for name, text in _words(document, "board") if is_tree_given or not _OF_TREE.fullmatch(name)}
        for document in (stated, board)
    )
    return [*found, *_compared_words(words, own, str(path))]


def _compared_words(stated: Mapping[str, str], derived: Mapping[str, str], path: str) -> Iterator[Stated]:
    """The values that are not numbers: validity, reasons, rules, files."""
    for name in sorted(stated.keys() | derived.keys()):
        text, other = stated.get(name, _NOTHING), derived.get(name)
        if text != _NOTHING or other not in (None, _NOTHING):
            yield Stated(name, text, other, path, None, why="nothing of this name is derived")


def _words(document: object, name: str) -> Iterator[tuple[str, str]]:
    """Every text and truth value of a JSON document by name, except for amounts of money; null is "nothing"."""
    if isinstance(document, Mapping):
        for inner, value in document.items():
            yield from _words(value, f"{name}.{inner}")
    elif isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from _words(value, f"{name}[{index}]")
    elif not _LOCATION.fullmatch(name) and not any(numbers(document, name)):
        yield name, _NOTHING if document is None else document if isinstance(document, str) else str(document).lower()


def _row(tables: list[Any], subject: Subject) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The table of the result's benchmark and division, and its row, found by submitter and system.

    Of several, which a reproduction and its submitter's own result are, the one with these logs, else the first.
    """
    row = subject.row
    digest = None if row.repeatable is None else row.repeatable.digest
    for table in tables:
        wanted = {"benchmark": row.score.benchmark, "division": row.score.division}
        if not isinstance(table, dict) or any(table.get(name) != value for name, value in wanted.items()):
            continue
        rows = table.get("rows")
        found = [
            item
            for item in (rows if isinstance(rows, list) else ())
            if isinstance(item, dict) and (item.get("submitter"), item.get("system")) == (row.submitter, row.system)
        ]
        if found:
            return table, next((item for item in found if item.get("digest") == digest), found[0])
    return {}, None


def _json(data: bytes, path: Path) -> Any:
    try:
        return strict_json.loads(data)
    except ValueError as error:
        raise SubmissionError(f"{path}: cannot be read: {printable(error)}") from None
