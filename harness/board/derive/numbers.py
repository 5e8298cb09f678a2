"""Every number that is shown of a result, with its formula in words and the lines of the files it comes from. Pure.

The values are what `harness.scoring.score` computes from the logs; no total that a submission states is used.
`harness.board.derive.stated` compares those totals with these values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.base.values import is_number
from harness.board.derive.formulas import Formula, formula_of
from harness.board.leaderboard import Row
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules
from harness.scoring.run_result import RunResult
from harness.submission.layout import BILLING_NAME, CAMPAIGN_NAME
from harness.submission.result import Result

_MONEY = re.compile(r".*(usd|usd_per_hour|bill\.seconds)")
_AMOUNT = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_INDEX = re.compile(r"\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a number comes from. lines: of the file at `path`; empty: the whole file. what: the content read."""

    path: str
    lines: tuple[int, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Derived:
    """A number that is shown. formula: None where the table has no formula for it, which is a bug in `tta`."""

    name: str
    value: int | float | str
    formula: Formula | None
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A result with its row. rules_path: of the benchmark's rules; prices_path: of the price book, None without one."""

    result: Result
    row: Row
    rules: BenchmarkRules | None
    rules_path: str
    prices_path: str | None = None

    def log_of(self, run: RunResult) -> RunLog:
        """The log of a run."""
        return next(log for log in self.result.runs if str(log.path) == run.path)


def numbers(document: object, name: str = "") -> Iterator[tuple[str, int | float | str]]:
    """Every number of a JSON document by name, including amounts of money as text."""
    if isinstance(document, Mapping):
        for inner, value in document.items():
            yield from numbers(value, f"{name}.{inner}" if name else str(inner))
    elif isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from numbers(value, f"{name}[{index}]")
    elif _is_number(name, document):
        assert isinstance(document, int | float | str)
        yield name, document


def _is_number(name: str, value: object) -> bool:
    if isinstance(value, str):
        return _MONEY.fullmatch(name) is not None and _AMOUNT.fullmatch(value) is not None
    return is_number(value)


def derive(subject: Subject, documents: Mapping[str, object]) -> list[Derived]:
    """Every number of `documents`, which are keyed by prefix: "" for the row of `tta score`, "summary" and "board"."""
    return [
        Derived(name, value, formula := formula_of(name), _places(subject, formula, name))
        for prefix, document in documents.items()
        for name, value in numbers(document, prefix)
    ]


def _places(subject: Subject, formula: Formula | None, name: str) -> tuple[Place, ...]:
    if formula is None:
        return ()
    return tuple(_FINDERS[formula.places](subject, [int(index) for index in _INDEX.findall(name)]))


Finder = Callable[[Subject, list[int]], Iterator[Place]]


def _lines(log: RunLog, *names: str) -> Place:
    """The lines of all events with these keys."""
    lines = sorted(event.lineno for name in names for event in log.all(name))
    return Place(str(log.path), tuple(lines), ", ".join(names))


def _runs(subject: Subject, indices: list[int]) -> Sequence[RunResult]:
    """The run that the first index names; without an index, all runs."""
    runs = subject.row.score.runs
    return [runs[index] for index in indices[:1]] or runs


def _of_run(*names: str) -> Finder:
    """Finds the lines of these events in the run, or in all runs."""

    def find(subject: Subject, indices: list[int]) -> Iterator[Place]:
        for run in _runs(subject, indices):
            yield _lines(subject.log_of(run), *names)

    return find


def _evaluation(subject: Subject, indices: list[int]) -> Iterator[Place]:
    run = subject.row.score.runs[indices[0]]
    yield Place(run.path, (run.evaluations[indices[1]].line,), keys.EVAL_ACCURACY)


def _decisive(subject: Subject, indices: list[int]) -> Iterator[Place]:
    """The deciding evaluation; all evaluations of a run that missed its target."""
    for run in _runs(subject, indices):
        deciding = [
            item.line for item in run.evaluations if item.samples == run.samples and item.quality == run.quality
        ]
        lines = deciding[:1] if run.seconds is not None else [item.line for item in run.evaluations]
        yield Place(run.path, tuple(lines), keys.EVAL_ACCURACY)


def _every(finder: Finder) -> Finder:
    """Applies a finder to all runs, whatever the index."""
    return lambda subject, indices: finder(subject, [])


def _power(subject: Subject, indices: list[int]) -> Iterator[Place]:
    """The power logs of a run: all readings between start and stop, and the line that relates the clocks."""
    for run in _runs(subject, indices):
        log = subject.log_of(run)
        if not log.nodes:
            continue
        yield _lines(log, keys.TTA_CLOCK, keys.RUN_START, keys.RUN_STOP)
        for node in log.nodes:
            yield Place(str(node.path), (), "power_reading from run_start to run_stop")


def _idle(subject: Subject, indices: list[int]) -> Iterator[Place]:
    paths = {str(node.path) for log in subject.result.runs for node in log.idle}
    for path in sorted(paths):
        yield Place(path, (), "power_reading")


def _rules(subject: Subject, indices: list[int]) -> Iterator[Place]:
    if subject.rules is not None:
        yield Place(subject.rules_path, (), f"suites: {subject.rules.suite}")


def _convergence(subject: Subject, indices: list[int]) -> Iterator[Place]:
    if subject.rules is not None:
        yield Place(subject.rules_path, (), f"suites: {subject.rules.suite}: reference_convergence")
    yield from _decisive(subject, [])
    yield from _of_run(keys.GLOBAL_BATCH_SIZE)(subject, [])


def _price(subject: Subject, indices: list[int]) -> Iterator[Place]:
    yield from _WINDOW(subject, indices)
    if subject.prices_path is not None:
        yield Place(subject.prices_path, (), "the price named in the system description")
    if subject.result.system_path is not None:
        yield Place(str(subject.result.system_path), (), "number_of_nodes and the name of the price")


def _findings(subject: Subject, indices: list[int]) -> Iterator[Place]:
    for finding in subject.row.findings:
        yield Place(finding.path, () if finding.line is None else (finding.line,), f"{finding.code} {finding.severity}")


def _billing(subject: Subject, indices: list[int]) -> Iterator[Place]:
    yield Place(str(subject.result.path / BILLING_NAME), (), "as declared")
    if subject.prices_path is not None:
        yield Place(subject.prices_path, (), "list prices")


def _campaign(subject: Subject, indices: list[int]) -> Iterator[Place]:
    yield Place(str(subject.result.path / CAMPAIGN_NAME), (), "tried")


def _files(subject: Subject, indices: list[int]) -> Iterator[Place]:
    for name in sorted(subject.result.files):
        yield Place(str(subject.result.path / name), (), "size")


def _tree(subject: Subject, indices: list[int]) -> Iterator[Place]:
    yield from _WINDOW(subject, [])
    yield Place(str(subject.result.path), (), "and the same for every result it is ranked with")


_WINDOW = _of_run(keys.RUN_START, keys.RUN_STOP)
_BLOCKS = _of_run(keys.BLOCK_START, keys.BLOCK_STOP, keys.TRACKED_STATS)
_FINDERS: dict[str, Finder] = {
    "seed": _of_run(keys.SEED),
    "window": _WINDOW,
    "windows": _every(_WINDOW),
    "decisive": _decisive,
    "decisives": _every(_decisive),
    "evaluation": _evaluation,
    "init": _of_run(keys.INIT_START, keys.INIT_STOP),
    "data": _of_run(keys.TTA_DATA_OPEN_START, keys.TTA_DATA_OPEN_STOP, keys.TRACKED_STATS),
    "resumptions": _of_run(keys.TTA_RESUME),
    "opening": _every(_of_run(keys.TTA_DATA_OPEN_START, keys.TTA_DATA_OPEN_STOP)),
    "blocks": _BLOCKS,
    "evals": _of_run(keys.EVAL_START, keys.EVAL_STOP),
    "power": _power,
    "powers": _every(_power),
    "idle": _idle,
    "rules": _rules,
    "convergence": _convergence,
    "price": _price,
    "prices": _every(_price),
    "findings": _findings,
    "billing": _billing,
    "campaign": _campaign,
    "files": _files,
    "tree": _tree,
}
