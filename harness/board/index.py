"""Submission tree -> Board: every result read, judged and scored once; what is in no table, with the reason."""

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
from harness.log.replay import replay_of
from harness.log.run_log import RunLog
from harness.ruleset.model import RuleSet
from harness.scoring.cost import book_of, price_of, quote_of
from harness.submission.claim import Claim
from harness.submission.layout import (
    BILLING_NAME,
    CLAIM_NAME,
    CODE_LIST,
    MANIFEST_NAME,
    NAME_PATTERN,
    PACKAGES_LIST,
    RESULT_PATTERN,
    SIGNATURE_NAME,
    SYSTEM_NAME,
)
from harness.submission.result import Result, beyond_limit, read_result, results_below

_LAST_MS = 253_402_300_800_000  # the year 10000
_FILE_NAMES = (BILLING_NAME, CLAIM_NAME, CODE_LIST, MANIFEST_NAME, PACKAGES_LIST, SIGNATURE_NAME, SYSTEM_NAME)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Rate = Callable[[Result], Row]
Rank = Callable[[Sequence[Row]], Leaderboard]


@dataclass(frozen=True, slots=True)
class LogHeader:
    """Facts from the header of a log that are not part of its score. Values are as logged: untrusted."""

    name: str
    sha256: str
    num_bytes: int
    started: str | None  # a date, YYYY-MM-DD, in UTC
    config: Mapping[str, Any]
    numerics: Mapping[str, Any]
    network: str | None
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Download:
    """A file of which the site has a copy. target: its path in the site, safe in a file system and in a URL."""

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
    """One result with everything that its page shows. place: its folder, relative to the tree.

    price: of one node, from the price book. quote: the same with the rows it is made of, or why there is none.
    prices_digest: of the result's price book; None where it has none.
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
        """The day of submission, as claimed; without a claim, the day of its last run."""
        if _DATE.fullmatch(self.row.submitted):
            return self.row.submitted
        return max((log.started for log in self.logs if log.started), default=None)

    @property
    def page(self) -> str:
        """The path of its page in the site."""
        return f"results/{self.slug}.html"

    @property
    def folder(self) -> str:
        """The folder of its copies in the site, laid out as a submission tree."""
        return f"files/{self.slug}"


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """A result that is in no table, and why: unreadable, or of a benchmark that the ruleset does not have."""

    place: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """Everything that the site shows. entries: those of the leaderboard's rows, by `row.path`."""

    ruleset: RuleSet
    rules: Mapping[str, Rule]
    prices: PriceBook | PriceBooks | None
    leaderboard: Leaderboard
    entries: Mapping[str, Entry]
    not_placed: tuple[NotPlaced, ...]

    @property
    def newest(self) -> str | None:
        """The day of the newest result; the site shows no other date of its own."""
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
    """The board of all results below `tree` under `ruleset`; empty if there are none.

    rate: judges and scores a result. rank: puts the rows into tables.

    Raises:
        SubmissionError: `tree` is not a folder, or has too many files or folders itself.
    """
    entries: dict[str, Entry] = {}
    not_placed: list[NotPlaced] = []
    taken: set[str] = set()
    refused = beyond_limit(found := [path for path in results_of(tree) if path.is_dir()])
    for path in found:
        place = path.relative_to(tree).as_posix()
        try:
            if path in refused:
                raise refused[path]
            result = read_result(path)
            missing = _why_not_placed(result, ruleset, tree)
            if missing:
                not_placed.append(NotPlaced(place, missing))
                continue
            row = _relative_row(rate(result), place, tree)
            entry = _entry(result, row, prices, ruleset, unused(slug(_name_parts(place)), taken), tree)
        except InputError as error:
            not_placed.append(NotPlaced(place, (without_root(str(error), tree),)))
            continue
        except OSError as error:  # removed while it was being read
            not_placed.append(NotPlaced(place, (f"cannot be read: {error.strerror}",)))
            continue
        taken.add(entry.slug)
        entries[place] = entry
    leaderboard = rank([entry.row for entry in entries.values()])
    banded = {row.path: replace(entries[row.path], row=row) for table in leaderboard.tables for row in table.rows}
    assert banded.keys() == entries.keys(), "the leaderboard lost or invented a row"
    return Board(ruleset, rules, prices, leaderboard, banded, tuple(not_placed))


def board_of_one(
    result: Result, row: Row, name: str, tree: Path, ruleset: RuleSet, rules: Mapping[str, Rule], rank: Rank
) -> Board:
    """The board that has one result of the tree alone, whose page is called `name`.

    Raises:
        SubmissionError: a file cannot be read.
    """
    place = result.path.relative_to(tree).as_posix()
    entry = _entry(result, _relative_row(row, place, tree), ruleset.prices, ruleset, name, tree)
    leaderboard = rank([entry.row])
    [[ranked]] = [table.rows for table in leaderboard.tables]
    return Board(ruleset, rules, ruleset.prices, leaderboard, {place: replace(entry, row=ranked)}, ())


def results_of(tree: Path) -> list[Path]:
    """The folders of all results below `tree`, and logs that are in none.

    Raises:
        SubmissionError: `tree` is not a folder, cannot be listed, or has too many files or folders itself.
    """
    if not tree.is_dir():
        raise SubmissionError(f"{tree}: there is no such folder")
    try:
        next(tree.iterdir(), None)
    except OSError as error:
        raise SubmissionError(f"{tree}: cannot be read: {error.strerror}") from None
    return results_below(tree)


def _why_not_placed(result: Result, ruleset: RuleSet, tree: Path) -> tuple[str, ...]:
    """Why the result belongs to no table; empty if it belongs to one."""
    if result.benchmark in ruleset.benchmarks:
        return ()
    return why_no_benchmark(result, f"ruleset {ruleset.version}", tree)


def why_no_benchmark(result: Result, rules: str, tree: Path) -> tuple[str, ...]:
    """Why the result is of no benchmark of the rules, which `rules` names."""
    reasons = [f"{relative_place(item.path, tree)}: {without_root(item.message, tree)}" for item in result.unreadable]
    if result.benchmark is not None:
        reasons.append(f"{rules} has no benchmark {result.benchmark!r}, which the logs name")
    elif result.runs:
        reasons.append("no log names a benchmark")
    elif not reasons:
        reasons.append("it contains no log")
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
        system_place=None if result.system_path is None else relative_place(result.system_path, tree),
        has_manifest=result.manifest is not None,
        downloads=tuple(_downloads(result, row.path, name)),
        unreadable=tuple(
            (relative_place(item.path, tree), without_root(item.message, tree)) for item in result.unreadable
        ),
    )


def log_header(log: RunLog) -> LogHeader:
    """The facts in the header of a log."""
    config = log.value("tta_config")
    start = log.first("run_start") or log.first("init_start")
    facts: list[tuple[str, str]] = []

    def note(name: str, value: object) -> None:
        if value is not None:
            facts.append((name, value_words(value)))

    note("harness", log.field("tta_format", "harness"))
    note("run", log.field("tta_format", "run_id"))
    note("ruleset", log.field("tta_rules", "ruleset"))
    note("digest of the benchmark's terms", log.field("tta_rules", "terms_digest"))
    note("digest of the data", log.field("tta_data", "digest"))
    network = None if (replay := replay_of(log)) is None or replay.network is None else str(replay.network)
    note("network", network)
    note("cache cleared", log.value("cache_clear"))
    world = log.value("tta_world")
    if isinstance(world, list):
        note("processes", len(world))
        ranks = [rank for rank in world if isinstance(rank, dict)]
        note("devices", sorted({str(rank.get("device")) for rank in ranks}))
        note("versions", next((rank.get("versions") for rank in ranks), None))
    launch = mapping_or_empty(log.value("tta_launch"))
    note("launcher", launch.get("launcher"))
    if isinstance(nodes := launch.get("nodes"), list):
        note("nodes", [str(mapping_or_empty(node).get("name")) for node in nodes])
    note("energy", log.value("tta_energy"))
    return LogHeader(
        name=log.path.name,
        sha256=log.sha256,
        num_bytes=log.num_bytes,
        started=None if start is None else _day(start.time_ms),
        config=mapping_or_empty(config),
        numerics=mapping_or_empty(log.value("tta_numerics")),
        network=network,
        facts=tuple(facts),
    )


def _day(time_ms: float) -> str | None:
    """The date in UTC; None for a number outside the years 1970 to 9999."""
    return datetime.fromtimestamp(time_ms / 1e3, UTC).date().isoformat() if 0 <= time_ms < _LAST_MS else None


def _name_parts(place: str) -> list[str]:
    """Submitter, system and benchmark of a result in a submission tree; all parts of any other path."""
    match place.split("/"):
        case [submitter, "results", system, benchmark]:
            return [submitter, system, benchmark]
        case ["."]:
            return ["result"]
        case parts:
            return parts


def unused(name: str, taken: set[str]) -> str:
    """`name`, with the first unused number if it is taken; results come in the order of their paths."""
    number, unused = 1, name
    while unused in taken:
        number += 1
        unused = f"{name}--{number}"
    return unused


def _downloads(result: Result, place: str, name: str) -> Iterator[Download]:
    """The files of the result; the system description and the module are placed where `tta check` looks for them."""
    parts = place.split("/")
    is_tree = len(parts) == 4 and parts[1] == "results" and all(NAME_PATTERN.fullmatch(part) for part in parts)
    root = f"files/{name}"
    folder = f"{root}/{place}" if is_tree else f"{root}/result"
    for file_name, entry in sorted(result.files.items()):
        is_log = RESULT_PATTERN.fullmatch(file_name) or POWER_PATTERN.fullmatch(file_name)
        is_known = is_log or file_name in _FILE_NAMES
        if is_known and entry.kind == "file" and entry.sha256 is not None:
            yield Download(result.path / file_name, file_name, f"{folder}/{file_name}", entry.num_bytes, entry.sha256)
    path, digest = result.system_path, result.system_sha256
    if path is not None and digest is not None and path.parent.absolute() != result.path.absolute():
        target = f"{root}/{parts[0]}/systems/{path.name}" if is_tree else f"{folder}/{SYSTEM_NAME}"
        yield Download(path, path.name, target, path.stat().st_size, digest)
    for file_name, entry in sorted(result.code.items()):
        if result.code_path is not None and entry.sha256 is not None:
            home = f"{root}/{parts[0]}/benchmarks" if is_tree and result.claim else folder
            target = f"{home}/{result.code_path.name}/{file_name}"
            yield Download(result.code_path / file_name, file_name, target, entry.num_bytes, entry.sha256)


def _relative_row(row: Row, place: str, tree: Path) -> Row:
    """The row with all paths relative to the tree, so that a site reveals nothing about the machine that built it."""
    score = row.score
    return replace(
        row,
        path=place,
        findings=tuple(relative_finding(finding, tree) for finding in row.findings),
        score=replace(score, why_not=None if score.why_not is None else without_root(score.why_not, tree)),
    )


def relative_finding(finding: Finding, tree: Path) -> Finding:
    """The finding with its paths relative to the tree."""
    return replace(finding, path=relative_place(Path(finding.path), tree), message=without_root(finding.message, tree))


def relative_place(path: Path, tree: Path) -> str:
    """The path relative to the tree; the name alone of one that is elsewhere."""
    for root in (tree, tree.absolute()):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name if path.is_absolute() else path.as_posix()


def without_root(message: str, tree: Path) -> str:
    """The message with paths relative to the tree."""
    return message.replace(f"{tree.absolute()}/", "").replace(f"{tree}/", "")
