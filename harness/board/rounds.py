"""Folders of MLPerf rounds -> RoundBoard: every result judged, scored and audited once, by as many processes as cores.

What is kept of a result is small: a round has thousands of logs, and none of them is in memory once its result is
judged. Copies of the logs are not part of the site; it names their places and digests.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from harness.base.stats import Estimate, rank_intervals
from harness.base.values import finite_number
from harness.board.charts.lines import thinned
from harness.board.index import (
    NotPlaced,
    log_header,
    relative_finding,
    relative_place,
    results_of,
    unused,
    why_no_benchmark,
    without_root,
)
from harness.board.mlperf_table import CATEGORIES, RoundRow, row_document, row_of
from harness.board.pages.time_view import accelerators_of
from harness.board.pages.words import slug, value_words
from harness.checker import engine, parallel, registry
from harness.checker.audit import engine as audit_engine
from harness.checker.audit import read as audit_read
from harness.checker.audit.facts import RunDigest, Subject, Tree
from harness.checker.audit.rules import load_audit
from harness.checker.audit.signals import AuditRules, Signal, Suspicion
from harness.checker.results import Rulesets
from harness.errors import InputError
from harness.findings import Finding, LogPlace, Rule, Severity, message_shape, sort_key
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.model import Round, RoundBenchmark, last_day
from harness.mlperf.rcp import RoundVerdict
from harness.mlperf.score import RoundScore, is_closed, run_seconds, run_window
from harness.ruleset.model import RuleSet
from harness.scoring.round_energy import RoundEnergy
from harness.submission import layout
from harness.submission.result import Result, beyond_limit

MAX_POINTS = 60  # of a run's curve; more make no visible difference in a chart with many runs
MAX_SETTINGS = 80  # settings of a log and lines of a system description that a page shows
MAX_NOTES = 4  # findings of one check on one result that a page shows; `tta check` reports all
_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
_PART = re.compile(r"value\.(\w+)")
_POSITIONS = {"step_num": "steps", "epoch_num": "epochs", "samples_count": "samples"}


@dataclass(frozen=True, slots=True)
class Note:
    """What one check or signal found on one result. messages: the first, or the worst, each with its place.

    count: of all its findings. score: of a signal of the audit, from 0 to 100; None for a check.
    """

    code: str
    name: str
    severity: Severity
    messages: tuple[tuple[str, str], ...]
    count: int
    waived: str | None = None
    score: float | None = None

    @property
    def counts(self) -> bool:
        """Whether it makes the result invalid."""
        return self.severity is Severity.ERROR and self.waived is None


@dataclass(frozen=True, slots=True)
class RoundRunFacts:
    """A run, without its log. amount: epochs or samples to target. points: pairs of a position and a quality."""

    name: str
    sha256: str
    num_bytes: int
    started: str | None
    seconds: float | None
    amount: float | None
    complies: bool
    status: str | None
    points: array[float] = field(compare=False)

    @property
    def curve(self) -> list[tuple[float, float]]:
        return list(zip(self.points[::2], self.points[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class RoundEntry:
    """A result of a round with everything that its page shows. Texts are as logged: untrusted.

    place: relative to the folder of the round; root: that folder's name. ruleset: the one it was judged by.
    division: "open", or "closed" for whatever else is logged. category: one of `CATEGORIES`, from `status` of the
    system description. accelerator, num_accelerators, num_nodes: as the description says; None where it does not.
    num_dropped: runs that the mean leaves out at either end.
    estimate: the score with its errors; None without a score. ranks: the first and the last that it may have among the
    valid results of its table. quality, position: what the curves are of, and over. phases: mean
    seconds of the runs that comply. document: as that of `tta score --format json`.
    """

    place: str
    root: str
    ruleset: str
    benchmark: str
    division: str
    category: str
    submitter: str
    system: str
    status: str | None
    accelerator: str | None
    num_accelerators: int | None
    num_nodes: int | None
    batch_size: str
    num_runs: int | None
    num_dropped: int
    seconds: float | None
    raw_seconds: float | None
    factor: float
    why_not: str | None
    code: RoundVerdict | None
    rules: RoundVerdict | None
    estimate: Estimate | None
    runs: tuple[RoundRunFacts, ...]
    quality: str
    position: str
    phases: Mapping[str, float]
    target: float | None
    direction: str
    energy: RoundEnergy | None
    num_errors: int
    num_warnings: int
    findings: tuple[Note, ...]
    suspicions: tuple[Note, ...]
    settings: tuple[tuple[str, str], ...]
    description: tuple[tuple[str, str], ...]
    unreadable: tuple[tuple[str, str], ...]
    document: Mapping[str, Any]
    slug: str = ""
    ranks: tuple[int, int] | None = None

    @property
    def is_ranked(self) -> bool:
        return self.seconds is not None and not self.num_errors

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.estimate is None else self.estimate.interval()

    @property
    def table(self) -> tuple[str, str, str, str]:
        """What is compared: one round, benchmark, division and category."""
        return self.ruleset, self.benchmark, self.division, self.category

    @property
    def machine(self) -> tuple[str, str, int | None]:
        """What makes results of different rounds those of the same machine, however its name is written."""
        name = self.accelerator or self.system
        return key_of(self.submitter), key_of(name), self.num_accelerators

    @property
    def line(self) -> tuple[object, ...]:
        """What a history is of: a machine on a benchmark in a division."""
        return (*self.machine, self.benchmark, self.division)


@dataclass(frozen=True, slots=True)
class RoundTable:
    """The results that are compared with each other, the ranked ones first, fastest first."""

    ruleset: str
    benchmark: str
    division: str
    category: str
    rows: tuple[RoundEntry, ...]

    @property
    def ranked(self) -> tuple[RoundEntry, ...]:
        return tuple(row for row in self.rows if row.is_ranked)

    @property
    def others(self) -> tuple[RoundEntry, ...]:
        return tuple(row for row in self.rows if not row.is_ranked)


@dataclass(frozen=True, slots=True)
class RoundPart:
    """A round of the site. state: SHA-256 over the sorted lines that `sha256sum` prints of all its logs."""

    ruleset: RuleSet
    round: Round
    tables: tuple[RoundTable, ...]
    state: str

    @property
    def name(self) -> str:
        """`5.1` of `mlperf_training/5.1.0`."""
        return short_name(self.ruleset.version)

    @property
    def entries(self) -> list[RoundEntry]:
        return [row for table in self.tables for row in table.rows]


@dataclass(frozen=True, slots=True)
class RoundBoard:
    """Everything that the site shows, newest round first. signals: those of the audit, in the form of checks.

    not_placed: results that are in no table; their places begin with the name of the round's folder.
    """

    rounds: tuple[RoundPart, ...]
    not_placed: tuple[NotPlaced, ...]
    rules: Mapping[str, Rule]
    signals: Mapping[str, Rule]
    audit_version: str

    @property
    def entries(self) -> list[RoundEntry]:
        return [entry for part in self.rounds for entry in part.entries]


def short_name(ruleset: str) -> str:
    """`5.1` of `mlperf_training/5.1.0`; the name itself where it is not a version."""
    parts = ruleset.rpartition("/")[2].split(".")
    return ".".join(parts[:2]) if len(parts) == 3 and all(part.isdigit() for part in parts) else ruleset


def key_of(name: str) -> str:
    """The letters and digits of a name, which is written differently from round to round."""
    return re.sub(r"[^a-z0-9]+", "", name.casefold()) or name


@dataclass(frozen=True, slots=True)
class Read:
    """A result as a process leaves it. runs, logs: what the audit and the check compare with those of other results."""

    path: str
    item: RoundEntry | NotPlaced
    runs: tuple[RunDigest, ...]
    logs: tuple[LogPlace, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Makes the entry of a judged result of the tree at `tree`. It goes to the processes that judge.

    is_audited: whether the entry has what the audit finds.
    """

    tree: Path
    today: date
    is_audited: bool = True

    def __call__(self, result: Result, findings: list[Finding], ruleset: RuleSet, why: str) -> Read:
        path, place = str(result.path), relative_place(result.path, self.tree)
        logs = result.log_places
        round_ = ruleset.round
        if round_ is None:
            why_not = (
                f"it is judged by ruleset {ruleset.version}, which is not an MLPerf round; "
                "build a separate board for it"
            )
            return Read(path, NotPlaced(place, (why_not,)), (), logs)
        row = row_of(result, ruleset, round_, findings)
        score = row.score
        benchmark = round_.benchmark(score.benchmark) if result.runs else None
        if benchmark is None:
            reasons = why_no_benchmark(result, f"round {ruleset.version}", self.tree)
            return Read(path, NotPlaced(place, reasons), (), logs)
        rules, signals = _audit()
        subject = audit_read.subject(result, ruleset, rules, self.today)
        tree = Tree()
        suspicions: list[Suspicion] = []
        if self.is_audited:
            tree.add(subject)
            suspicions = audit_engine.audit(subject, rules, signals)
        own = [relative_finding(finding, self.tree) for finding in findings]
        quality, position, curves = _curves(subject, benchmark)
        submitter, system = _names(result, place)
        description = result.system or {}
        accelerator, num_accelerators = accelerators_of(description)
        entry = RoundEntry(
            place=place,
            root=self.tree.absolute().name,
            ruleset=ruleset.version,
            benchmark=benchmark.name,
            division="closed" if is_closed(score.division) else "open",
            category=row.category,
            submitter=submitter,
            system=system,
            status=_text(description.get("status")),
            accelerator=_text(accelerator),
            num_accelerators=num_accelerators,
            num_nodes=result.num_nodes,
            batch_size=value_words(score.batch_size)[:40],
            num_runs=score.num_runs,
            num_dropped=benchmark.drop,
            seconds=score.seconds,
            raw_seconds=score.raw_seconds,
            factor=score.factor,
            why_not=None if score.why_not is None else without_root(score.why_not, self.tree),
            code=score.code,
            rules=score.rules,
            estimate=row.estimate,
            runs=_runs(score, curves),
            quality=quality,
            position=position,
            phases=_phases(score),
            target=subject.standard.target,
            direction=subject.standard.direction,
            energy=None if row.energy is None else replace(row.energy, runs=()),
            num_errors=row.num_errors,
            num_warnings=_num_warnings(own),
            findings=_notes(own),
            suspicions=_suspicions(suspicions, self.tree),
            settings=_settings(result.runs[0]),
            description=_described(description),
            unreadable=tuple(
                (relative_place(part.path, self.tree), without_root(part.message, self.tree))
                for part in result.unreadable
            ),
            document=_document(row, place),
        )
        return Read(path, entry, tuple(tree.runs), logs)


@functools.cache
def _audit() -> tuple[AuditRules, Mapping[str, Signal]]:
    """The rules and signals of the audit; read once in each process."""
    return load_audit(registry.audit_file()), registry.signals()


def read_rounds(trees: Sequence[Path], ruleset_name: str, today: date, jobs: int | None = None) -> RoundBoard:
    """The board of all results below the `trees`, each judged by its ruleset (`harness.checker.results`).

    jobs: the number of processes; None: one per core where there is enough to do.

    Raises:
        SubmissionError: a tree is not a folder, or has too many files or folders itself. UsageError: there is no such
            ruleset.
    """
    rules, signals = _audit()
    rules.refuse_unknown(signals)
    used: dict[str, RuleSet] = {}
    read: list[tuple[str, RoundEntry]] = []
    logs: list[LogPlace] = []
    not_placed: list[NotPlaced] = []
    for tree in trees:
        rulesets = Rulesets.named(ruleset_name, [tree])
        for one in _read_tree(tree, rulesets, today, jobs):
            logs.extend(one.logs)
            if isinstance(one.item, NotPlaced):
                not_placed.append(replace(one.item, place=f"{tree.absolute().name}/{one.item.place}"))
                continue
            used.setdefault(one.item.ruleset, rulesets.load(one.item.ruleset))
            read.append((one.path, one.item))
    taken: set[str] = set()
    entries: dict[str, list[RoundEntry]] = {}
    together = {
        name: engine.judge_together(logs, ruleset, parallel.checks_of(ruleset).values(), today)
        for name, ruleset in used.items()
    }
    for path, entry in read:
        own = unused(slug([short_name(entry.ruleset), entry.submitter, entry.system, entry.benchmark]), taken)
        taken.add(own)
        more = [_relative_to_all(finding, path, entry, trees) for finding in together[entry.ruleset].get(path, ())]
        entries.setdefault(entry.ruleset, []).append(_with_findings(replace(entry, slug=own), more))
    rounds = [_part(used[name], own) for name, own in entries.items()]
    rounds.sort(key=lambda part: (last_day(part.round.published), part.ruleset.version), reverse=True)
    return RoundBoard(
        rounds=tuple(rounds),
        not_placed=tuple(not_placed),
        rules=registry.checks(),
        signals={code: signal.as_rule for code, signal in signals.items()},
        audit_version=rules.version,
    )


def _relative_to_all(finding: Finding, path: str, entry: RoundEntry, trees: Iterable[Path]) -> Finding:
    """The finding on the result at `path`; its message may name a log of any tree."""
    message = finding.message
    for tree in trees:
        message = without_root(message, tree.parent)
    return replace(finding, path=entry.place + finding.path.removeprefix(path), message=message)


def _with_findings(entry: RoundEntry, more: Sequence[Finding]) -> RoundEntry:
    """The entry with findings that only all results together give."""
    if not more:
        return entry
    num_errors = entry.num_errors + sum(finding.counts for finding in more)
    is_valid = entry.document["is_valid"] and not num_errors
    return replace(
        entry,
        num_errors=num_errors,
        num_warnings=entry.num_warnings + _num_warnings(more),
        findings=tuple(sorted((*entry.findings, *_notes(more)), key=lambda note: _SEVERITIES.index(note.severity))),
        document={**entry.document, "num_errors": num_errors, "is_valid": is_valid},
    )


def _num_warnings(findings: Iterable[Finding]) -> int:
    return sum(finding.severity is Severity.WARNING and finding.waived is None for finding in findings)


def _read_tree(tree: Path, rulesets: Rulesets, today: date, jobs: int | None) -> Iterator[Read]:
    """Every result of a tree, with what the audit finds over all of them."""
    listed = results_of(tree)
    found = [path for path in listed if path.is_dir()]
    refused = beyond_limit(found)
    paths = [path for path in found if path not in refused]
    for path in (path for path in listed if not path.is_dir()):
        yield _not_read(path, "is a log by itself; its place is results/<system>/<benchmark>", tree)
    for path, error in refused.items():
        yield _not_read(path, str(error), tree)
    judge = parallel.Judge(rulesets, today, Reader(tree, today))
    digests = Tree()
    kept: list[Read] = []
    with parallel.without_collector():
        outcomes = parallel.in_order(paths, judge, parallel.jobs_for(paths, jobs))
        for path, outcome in zip(paths, outcomes, strict=True):
            if isinstance(outcome, InputError):
                yield _not_read(path, str(outcome), tree)
            else:
                digests.runs.extend(outcome.runs)
                kept.append(replace(outcome, runs=()))
    rules, signals = _audit()
    found_later: dict[str, list[Suspicion]] = {}
    for folder, suspicion in audit_engine.audit_tree(digests, rules, signals):
        found_later.setdefault(folder, []).append(suspicion)
    for one in kept:
        extra = _suspicions(found_later.get(one.path, []), tree)
        if isinstance(one.item, RoundEntry) and extra:
            order = sorted([*one.item.suspicions, *extra], key=lambda note: -(note.score or 0.0))
            one = replace(one, item=replace(one.item, suspicions=tuple(order)))
        yield one


def _not_read(path: Path, why: str, tree: Path) -> Read:
    return Read(str(path), NotPlaced(relative_place(path, tree), (without_root(why, tree),)), (), ())


def _part(ruleset: RuleSet, entries: list[RoundEntry]) -> RoundPart:
    tables: dict[tuple[str, str, str, str], list[RoundEntry]] = {}
    for entry in entries:
        tables.setdefault(entry.table, []).append(entry)
    order = sorted(tables, key=lambda key: (key[1], key[2], CATEGORIES.index(key[3])))
    lines = sorted(f"{run.sha256}  {entry.root}/{entry.place}/{run.name}\n" for entry in entries for run in entry.runs)
    assert ruleset.round is not None
    return RoundPart(
        ruleset=ruleset,
        round=ruleset.round,
        tables=tuple(RoundTable(*key, rows=_ranked(tables[key])) for key in order),
        state=hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest(),
    )


def _ranked(rows: Iterable[RoundEntry]) -> tuple[RoundEntry, ...]:
    ordered = sorted(rows, key=lambda row: (not row.is_ranked, row.seconds or 0.0, row.submitter, row.place))
    ranked = [row for row in ordered if row.is_ranked]
    ranks = rank_intervals([row.estimate for row in ranked if row.estimate is not None])
    placed = [
        replace(row, ranks=own, document={**row.document, "ranks": own}) for row, own in zip(ranked, ranks, strict=True)
    ]
    return (*placed, *ordered[len(ranked) :])


def _names(result: Result, place: str) -> tuple[str, str]:
    """Submitter and system: by the folders in MLPerf's layout, elsewhere as logged."""
    parts = result.path.absolute().parts
    if layout.is_result_place(result.path) and len(parts) > 4:
        return parts[-4], parts[-2]
    logged = [
        next((text for log in result.runs if isinstance(text := log.value(key), str) and text), None)
        for key in (keys.SUBMISSION_ORG, keys.SUBMISSION_PLATFORM)
    ]
    return logged[0] or "unknown", logged[1] or place


def _text(value: object) -> str | None:
    return value[:300] if isinstance(value, str) and value.strip() else None


def _runs(score: RoundScore, curves: Sequence[array[float]]) -> tuple[RoundRunFacts, ...]:
    found = []
    for run, points in zip(score.runs, curves, strict=True):
        header = log_header(run.log)
        found.append(
            RoundRunFacts(
                name=run.log.path.name,
                sha256=run.log.sha256,
                num_bytes=run.log.num_bytes,
                started=header.started,
                seconds=run.seconds,
                amount=run.amount,
                complies=run.complies,
                status=run.status,
                points=points,
            )
        )
    return tuple(found)


def _curves(subject: Subject, benchmark: RoundBenchmark) -> tuple[str, str, list[array[float]]]:
    """What the curves are of, over what, and each run's: seconds since its start, or what the log counts.

    A benchmark whose evaluations are made afterwards from checkpoints has no quality while the clock runs. Of an
    evaluation in parts, the first that the target names is drawn.
    """
    target, join = benchmark.target(), benchmark.join
    if join is not None:
        part = _PART.search("" if target is None else target.text)
        name = "quality" if part is None else part[1]
        lines = [[event.value for event in compliance.joined(run.log, join)] for run in subject.runs]
        over = _POSITIONS.get(join.by, join.by)
        return name, over, [_packed([(line.get(join.by), line.get(name)) for line in own]) for own in lines]
    points = [list(run.curve) for run in subject.runs]
    late = [
        sum(point.at_s > (run_seconds(run.log) or 0.0) + 1 for point in own)
        for run, own in zip(subject.runs, points, strict=True)
    ]
    if 2 * sum(late) <= sum(map(len, points)):
        return (
            "quality",
            "seconds since run_start",
            [_packed([(item.at_s, item.value) for item in own]) for own in points],
        )
    units = {item.unit for own in points for item in own if item.position is not None}
    over = units.pop() if len(units) == 1 else "position"
    return "quality", over, [_packed([(item.position, item.value) for item in own]) for own in points]


def _phases(score: RoundScore) -> dict[str, float]:
    """Mean seconds of the runs that comply: before the clock, in training, and in evaluations."""
    found = []
    for run in score.runs:
        window = run_window(run.log)
        if run.complies and window is not None:
            start, stop = window
            first = run.log.first(keys.INIT_START) or start
            run_s, eval_s = (stop.time_ms - start.time_ms) / 1e3, _evaluating_s(run.log, start, stop)
            found.append((max(0.0, (start.time_ms - first.time_ms) / 1e3), run_s - eval_s, eval_s))
    columns = zip(*found, strict=True)
    return {name: math.fsum(own) / len(own) for name, own in zip(("init", "train", "eval"), columns, strict=False)}


def _evaluating_s(log: RunLog, start: Event, stop: Event) -> float:
    """Seconds of a run between each eval_start and the next eval_stop, by the clock that MLPerf's programs use."""
    since_ms, total_ms = None, 0.0
    for event in log.events:
        if start.lineno < event.lineno < stop.lineno and event.key == keys.EVAL_START:
            since_ms = event.time_ms if since_ms is None else since_ms
        elif start.lineno < event.lineno < stop.lineno and event.key == keys.EVAL_STOP and since_ms is not None:
            total_ms, since_ms = total_ms + event.time_ms - since_ms, None
    return min(max(0.0, total_ms), stop.time_ms - start.time_ms) / 1e3


def _packed(points: Sequence[tuple[object, object]]) -> array[float]:
    """The points with two finite numbers, in order of the first, at most `MAX_POINTS`."""
    numbers = [(finite_number(x), finite_number(y)) for x, y in points]
    kept = sorted((x, y) for x, y in numbers if x is not None and y is not None)
    return array("d", [number for point in thinned(kept, MAX_POINTS) for number in point])


def _notes(findings: Sequence[Finding]) -> tuple[Note, ...]:
    """One note per check, severity and waiver, errors first."""
    groups: dict[tuple[Severity, str, str | None], list[Finding]] = {}
    for finding in sorted(findings, key=sort_key):
        groups.setdefault((finding.severity, finding.code, finding.waived), []).append(finding)
    return tuple(_note(group, None) for group in groups.values())


def _suspicions(suspicions: Sequence[Suspicion], tree: Path) -> tuple[Note, ...]:
    """One note per signal, its strongest evidence first."""
    groups: dict[str, list[Suspicion]] = {}
    for item in sorted(suspicions, key=audit_engine.order):
        groups.setdefault(item.finding.code, []).append(item)
    return tuple(
        _note([relative_finding(item.finding, tree) for item in group], group[0].score) for group in groups.values()
    )


def _note(findings: Sequence[Finding], score: float | None) -> Note:
    first = findings[0]
    shapes: dict[str, Finding] = {}
    for finding in findings:
        shapes.setdefault(message_shape(finding), finding)
    shown = list(shapes.values())[:MAX_NOTES]
    return Note(
        first.code,
        first.name,
        first.severity,
        tuple((finding.message[:1000], finding.place[:300]) for finding in shown),
        len(findings),
        first.waived,
        score,
    )


def _settings(log: RunLog) -> tuple[tuple[str, str], ...]:
    """What the first log states before its run starts: one value per key, the last."""
    start = log.first(keys.RUN_START)
    found: dict[str, str] = {}
    for event in log.events:
        if start is not None and event.lineno >= start.lineno:
            break
        if event.value is not None and not event.key.startswith(("submission_", "init_", "run_", "cache_clear")):
            found[event.key] = value_words(event.value)[:200]
    return tuple(sorted(found.items())[:MAX_SETTINGS])


def _described(description: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    shown = [(name[:100], value_words(value)[:400]) for name, value in description.items()]
    return tuple([(name, value) for name, value in shown if value.strip() not in ("", "none")][:MAX_SETTINGS])


def _document(row: RoundRow, place: str) -> dict[str, Any]:
    document = row_document(row)
    for run, facts in zip(document["runs"], row.score.runs, strict=True):
        run["path"] = f"{place}/{facts.log.path.name}"
        run["sha256"] = facts.log.sha256
    return {**document, "path": place}
