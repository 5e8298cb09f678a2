"""A tree of submissions -> Board: every result read, judged and scored once; what cannot be is listed with why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.base.values import mapping_or_empty
from harness.board.leaderboard import Leaderboard, Row
from harness.board.pages.power_facts import RunPower, run_power
from harness.board.pages.words import slug, value_words
from harness.cost.price_book import NoPrice, Price, PriceBook, PriceBooks, Quote
from harness.errors import InputError, SubmissionError
from harness.findings import Finding, Rule
from harness.log.power_files import POWER_PATTERN
from harness.log.run_log import RunLog
from harness.ruleset.model import RuleSet
from harness.scoring.cost import book_of, price_of, quote_of
from harness.submission.claim import Claim
from harness.submission.layout import (
    BILLING_NAME,
    CLAIM_NAME,
    CODE_NAME,
    MANIFEST_NAME,
    NAME_PATTERN,
    RESULT_PATTERN,
    SIGNATURE_NAME,
    SYSTEM_NAME,
)
from harness.submission.result import Result, find_results, read_result

_LAST_MS = 253_402_300_800_000  # the year 10000


@dataclass(frozen=True, slots=True)
class LogHeader:
    """What the head of a log says beside its score. Values are as logged: untrusted."""

    name: str
    sha256: str
    num_bytes: int
    started: str | None  # a date, YYYY-MM-DD, in UTC
    config: Mapping[str, Any]
    facts: tuple[tuple[str, str], ...]


def log_header(log: RunLog) -> LogHeader:
    config = log.value("tta_config")
    start = log.first("run_start") or log.first("init_start")
    facts: list[tuple[str, str]] = []

    def note(name: str, value: object) -> None:
        if value is not None:
            facts.append((name, value_words(value)))

    note("harness", log.field("tta_format", "harness"))
    note("run", log.field("tta_format", "run_id"))
    note("ruleset named", log.field("tta_rules", "ruleset"))
    note("digest of the benchmark's terms", log.field("tta_rules", "terms_digest"))
    note("digest of the data", log.field("tta_data", "digest"))
    note("cache cleared", log.value("cache_clear"))
    world = log.value("tta_world")
    if isinstance(world, list):
        note("processes", len(world))
        ranks = [rank for rank in world if isinstance(rank, dict)]
        note("devices", sorted({str(rank.get("device")) for rank in ranks}))
        note("versions", next((rank.get("versions") for rank in ranks), None))
    note("energy", log.value("tta_energy"))
    return LogHeader(
        name=log.path.name,
        sha256=log.sha256,
        num_bytes=log.num_bytes,
        started=None if start is None else _day(start.time_ms),
        config=mapping_or_empty(config),
        facts=tuple(facts),
    )


def _day(time_ms: float) -> str | None:
    """The date in UTC; None for a number that is no time of ours."""
    return datetime.fromtimestamp(time_ms / 1e3, UTC).date().isoformat() if 0 <= time_ms < _LAST_MS else None


_OUR_NAMES = (BILLING_NAME, CLAIM_NAME, MANIFEST_NAME, SIGNATURE_NAME, SYSTEM_NAME)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Rate = Callable[[Result], Row]
Rank = Callable[[Sequence[Row]], Leaderboard]


@dataclass(frozen=True, slots=True)
class Download:
    """A file that the site carries a copy of. target: its path in the site, safe in a file system and in a URL."""

    source: Path
    name: str
    target: str
    num_bytes: int
    sha256: str

    @property
    def href(self) -> str:
        return quote(self.target)


@dataclass(frozen=True, slots=True)
class Entry:
    """One result with all that its page shows. place: its folder, relative to the tree.

    price: of one node, as the book has it. quote: the same with the rows that are in it, or why there is none.
    prices_digest: of the price book of the result; None where it has none.
    power: of the runs that were metered, in the order of the runs.
    """

    slug: str
    place: str
    row: Row
    price: Price | None
    quote: Quote | NoPrice
    prices_digest: str | None
    logs: tuple[LogHeader, ...]
    power: tuple[RunPower, ...]
    claim: Claim | None
    system: Mapping[str, Any] | None
    system_place: str | None
    has_manifest: bool
    downloads: tuple[Download, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def date(self) -> str | None:
        """The day it was submitted, as claimed; the day of its last run where nobody claimed one."""
        if _DATE.fullmatch(self.row.submitted):
            return self.row.submitted
        return max((log.started for log in self.logs if log.started), default=None)

    @property
    def folder(self) -> str:
        """The folder of its copies in the site, in the shape of a submission tree."""
        return f"files/{self.slug}"


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """A result in no table: what could not be read of it, or which benchmark it names that is not ours."""

    place: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """All that the site shows. entries: by `row.path`, in the leaderboard's tables."""

    ruleset: RuleSet
    rules: Mapping[str, Rule]
    prices: PriceBook | PriceBooks | None
    leaderboard: Leaderboard
    entries: Mapping[str, Entry]
    not_placed: tuple[NotPlaced, ...]

    @property
    def newest(self) -> str | None:
        """The day of the newest result: the only date of the site that is not a result's own."""
        return max((entry.date for entry in self.entries.values() if entry.date), default=None)

    def of(self, row: Row) -> Entry:
        """The entry of a row."""
        return self.entries[row.path]


def read_board(
    tree: Path,
    ruleset: RuleSet,
    rules: Mapping[str, Rule],
    prices: PriceBook | PriceBooks | None,
    rate: Rate,
    rank: Rank,
) -> Board:
    """Everything below `tree` under `ruleset`; a tree without results gives an empty board.

    rate: a result judged and scored. rank: the rows in tables.

    Raises:
        SubmissionError: there is no folder at `tree`.
    """
    entries: dict[str, Entry] = {}
    not_placed: list[NotPlaced] = []
    taken: set[str] = set()
    for path in _results(tree):
        place = path.relative_to(tree).as_posix()
        try:
            result = read_result(path)
            missing = _why_not_placed(result, ruleset, tree)
            if missing:
                not_placed.append(NotPlaced(place, missing))
                continue
            row = _at_home(rate(result), place, tree)
            entry = _entry(result, row, prices, ruleset, _free(slug(_name_parts(place)), taken), tree)
        except InputError as error:
            not_placed.append(NotPlaced(place, (_without(str(error), tree),)))
            continue
        except OSError as error:  # it went away while it was read
            not_placed.append(NotPlaced(place, (f"cannot be read: {error.strerror}",)))
            continue
        taken.add(entry.slug)
        entries[place] = entry
    leaderboard = rank([entry.row for entry in entries.values()])
    banded = {row.path: replace(entries[row.path], row=row) for table in leaderboard.tables for row in table.rows}
    assert banded.keys() == entries.keys(), "the leaderboard lost a row, or made one up"
    return Board(ruleset, rules, prices, leaderboard, banded, tuple(not_placed))


def _results(tree: Path) -> list[Path]:
    if not tree.is_dir():
        raise SubmissionError(f"{tree}: there is no such folder")
    try:
        next(tree.iterdir(), None)
    except OSError as error:
        raise SubmissionError(f"{tree}: cannot be read: {error.strerror}") from None
    try:
        return [path for path in find_results(tree) if path.is_dir()]
    except SubmissionError:  # a folder is here, so this one says that no result is below it
        return []


def _why_not_placed(result: Result, ruleset: RuleSet, tree: Path) -> tuple[str, ...]:
    """Empty where the result belongs to a table."""
    if result.benchmark in ruleset.benchmarks:
        return ()
    reasons = [f"{_relative(item.path, tree)}: {_without(item.message, tree)}" for item in result.unreadable]
    if result.benchmark is not None:
        reasons.append(f"ruleset {ruleset.version} has no benchmark {result.benchmark!r}, which the logs name")
    elif result.runs:
        reasons.append("no log names a benchmark")
    elif not reasons:
        reasons.append("there is no log in it")
    return tuple(reasons)


def _quote(result: Result, prices: PriceBook | PriceBooks | None) -> Quote | NoPrice:
    if isinstance(prices, PriceBooks):
        return quote_of(result, prices)
    return NoPrice("book", "the ruleset has no price book") if prices is None else prices.quote_of(result.system or {})


def _book(result: Result, prices: PriceBook | PriceBooks | None) -> str | None:
    found = book_of(result, prices) if isinstance(prices, PriceBooks) else prices
    return found.digest if isinstance(found, PriceBook) else None


def _entry(
    result: Result, row: Row, prices: PriceBook | PriceBooks | None, ruleset: RuleSet, name: str, tree: Path
) -> Entry:
    runs = {Path(run.path).name: run for run in row.score.runs}
    return Entry(
        slug=name,
        place=row.path,
        row=row,
        price=price_of(result, prices),
        quote=_quote(result, prices),
        prices_digest=_book(result, prices),
        logs=tuple(log_header(log) for log in result.runs),
        power=tuple(
            run_power(log, run.energy, run.idle_w, ruleset.energy)
            for log in result.runs
            if (run := runs.get(log.path.name)) is not None and run.energy is not None
        ),
        claim=result.claim,
        system=result.system,
        system_place=None if result.system_path is None else _relative(result.system_path, tree),
        has_manifest=result.manifest is not None,
        downloads=tuple(_downloads(result, row.path, name)),
        unreadable=tuple((_relative(item.path, tree), _without(item.message, tree)) for item in result.unreadable),
    )


def _name_parts(place: str) -> list[str]:
    """Submitter, system and benchmark of a result in a tree's shape; every part of any other path."""
    match place.split("/"):
        case [submitter, "results", system, benchmark]:
            return [submitter, system, benchmark]
        case ["."]:
            return ["result"]
        case parts:
            return parts


def _free(name: str, taken: set[str]) -> str:
    """`name`, or its first free number; results come in the order of their paths, so this repeats."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}--{number}"
    return free


def _downloads(result: Result, place: str, name: str) -> Iterator[Download]:
    """Everything in its folder, but the system description and the module: where `tta check` looks for them."""
    parts = place.split("/")
    is_tree = len(parts) == 4 and parts[1] == "results" and all(NAME_PATTERN.fullmatch(part) for part in parts)
    root = f"files/{name}"
    folder = f"{root}/{place}" if is_tree else f"{root}/result"
    for file_name, entry in sorted(result.files.items()):
        is_log = RESULT_PATTERN.fullmatch(file_name) or POWER_PATTERN.fullmatch(file_name)
        is_ours = is_log or file_name in _OUR_NAMES
        if is_ours and entry.kind == "file" and entry.sha256 is not None:
            yield Download(result.path / file_name, file_name, f"{folder}/{file_name}", entry.num_bytes, entry.sha256)
    path, digest = result.system_path, result.system_sha256
    if path is not None and digest is not None and path.parent.absolute() != result.path.absolute():
        target = f"{root}/{parts[0]}/systems/{path.name}" if is_tree else f"{folder}/{SYSTEM_NAME}"
        yield Download(path, path.name, target, path.stat().st_size, digest)
    code = f"{root}/{parts[0]}/benchmarks/{parts[-1]}" if is_tree and result.claim else f"{folder}/{CODE_NAME}"
    for file_name, entry in sorted(result.code.items()):
        if result.code_path is not None and entry.sha256 is not None:
            yield Download(
                result.code_path / file_name, file_name, f"{code}/{file_name}", entry.num_bytes, entry.sha256
            )


def _at_home(row: Row, place: str, tree: Path) -> Row:
    """The row with all places in it relative to the tree, so that a site says nothing of the machine that built it."""
    score = row.score
    return replace(
        row,
        path=place,
        findings=tuple(_finding_at_home(finding, tree) for finding in row.findings),
        score=replace(score, why_not=None if score.why_not is None else _without(score.why_not, tree)),
    )


def _finding_at_home(finding: Finding, tree: Path) -> Finding:
    return replace(finding, path=_relative(Path(finding.path), tree), message=_without(finding.message, tree))


def _relative(path: Path, tree: Path) -> str:
    for root in (tree, tree.absolute()):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name if path.is_absolute() else path.as_posix()


def _without(message: str, tree: Path) -> str:
    return message.replace(f"{tree.absolute()}/", "").replace(f"{tree}/", "")
