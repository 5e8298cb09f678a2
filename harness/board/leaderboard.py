"""Results judged and scored -> rows, tables and ranks: what `tta score`, `tta submit` and the board share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from harness.base.stats import rank_intervals
from harness.board.reproductions import Links, links
from harness.checker import engine
from harness.cost.price_book import PriceBook, PriceBooks, electricity_usd
from harness.energy.plausibility import missing_devices
from harness.energy.reasons import VoidReason
from harness.energy.score import Place, rank_energies
from harness.errors import printable
from harness.findings import Finding, Rule, Severity
from harness.log import keys
from harness.log.equivalence import reimplementation_words
from harness.ruleset.model import RuleSet
from harness.ruleset.releases import CodeVerdict, code_verdict
from harness.scoring import cost
from harness.scoring.cost import Bill
from harness.scoring.repetition import Repeatable, repeatable
from harness.scoring.score import Score, no_score
from harness.scoring.score import score as score_runs
from harness.submission import receipts, signature
from harness.submission.result import Result

Rate = Decimal | PriceBooks | PriceBook | Callable[[Mapping[str, Any]], Decimal | None] | None
"""US dollars per hour: a number, price books of which each result names one, a book or another function that maps a
system description to the number, or None where it is not known."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a leaderboard table.

    ranks: the first and the last rank that the row may have in its table, at 95 % jointly with all others (see
        `harness.base.stats.rank_intervals`); None for an invalid row.
    category, submitted: as claimed; empty where the result has no claim yet.
    num_warnings: without those that are waived. findings: all of them, waived ones included.
    bill: the use that the submitter declares, at list prices; shown for information, never ranked.
    electricity_usd: of a run on the submitter's own machine whose energy was measured; not part of the score's usd.
    energy_place: among the valid rows of its table that were metered in the same way; None for what may not rank.
    code: whether the code that ran is that of a release.
    repeatable: what it is compared by with a row that repeats it. links: such rows, and those that it repeats itself.
    reimplementation: that the runs used one, and over how many steps it was equivalent; None if they used none.
    witness: the class W0, W1 or W2 that the receipts say; see `harness.submission.receipts.witness_class`.
    num_campaigns: that the submitter had tried in its round when that of the result ended; None where nobody says.
    signer: who validly signed the manifest, by the ruleset's list; None without such a signature.
    """

    ranks: tuple[int, int] | None
    submitter: str
    system: str
    category: str
    submitted: str
    path: str
    score: Score
    num_errors: int
    num_warnings: int
    findings: tuple[Finding, ...] = ()
    bill: Bill | None = None
    electricity_usd: Decimal | None = None
    energy_place: Place | None = None
    signer: str | None = None
    code: CodeVerdict = CodeVerdict("unrecorded")  # noqa: RUF009  (frozen)
    repeatable: Repeatable | None = None
    links: Links = Links()  # noqa: RUF009  (frozen)
    reimplementation: str | None = None
    witness: str = "W0"
    num_campaigns: int | None = None

    @property
    def is_ranked(self) -> bool:
        return self.num_errors == 0 and self.score.seconds is not None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one benchmark in one division, ranked ones first."""

    benchmark: str
    division: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All tables, under one ruleset."""

    ruleset: str
    ruleset_digest: str
    tables: tuple[Table, ...]


def row(result: Result, ruleset: RuleSet, checks: Iterable[Rule], usd_per_hour: Rate, today: date) -> Row:
    """The row of a result, judged by `checks` as of `today` and scored. `leaderboard` gives it its ranks."""
    return rate(result, ruleset, engine.judge(result, ruleset, checks, today), usd_per_hour)


def rate(result: Result, ruleset: RuleSet, findings: Sequence[Finding], usd_per_hour: Rate = None) -> Row:
    """The row of a result whose findings are known.

    Submitter, system and division are the claim's, or else what the logs name. The system description determines
    the price of an hour; without one there is no price.
    """
    claim, score = result.claim, _score(result, ruleset, usd_per_hour)
    price = cost.price_of(result, ruleset.prices)
    return Row(
        ranks=None,
        submitter=claim.submitter if claim else _logged(result, keys.SUBMISSION_ORG) or "unknown",
        system=claim.system if claim else _logged(result, keys.SUBMISSION_PLATFORM) or "unknown",
        category=claim.category if claim else "",
        submitted=claim.submitted if claim else "",
        path=str(result.path),
        score=score,
        num_errors=sum(finding.counts for finding in findings),
        num_warnings=sum(finding.severity is Severity.WARNING and finding.waived is None for finding in findings),
        findings=tuple(findings),
        bill=cost.bill_of(result, ruleset.prices),
        electricity_usd=None if price is None else electricity_usd(price, score.energy_j, score.energy_source),
        signer=signature.verdict(result, ruleset.allowed_signers, ruleset.version).signer,
        code=code_verdict(result, ruleset.releases),
        repeatable=repeatable(result, score.runs, ruleset.benchmarks.get(result.benchmark or "")),
        reimplementation=reimplementation_words(result.runs),
        witness=receipts.witness_class(result),
        num_campaigns=receipts.num_campaigns(result),
    )


def _score(result: Result, ruleset: RuleSet, usd_per_hour: Rate) -> Score:
    benchmark = result.benchmark
    division = result.claim.division if result.claim else _logged(result, keys.SUBMISSION_DIVISION)
    rules = ruleset.benchmarks.get(benchmark) if benchmark is not None else None
    if rules is None:
        fault = "the logs name no benchmark" if benchmark is None else f"there is no benchmark {printable(benchmark)!r}"
        return no_score(benchmark or "unknown", division or "unknown", why_not=f"{fault} in ruleset {ruleset.version}")
    if division not in ruleset.divisions:
        fault = f"the division is {printable(division)!r}" if division else "no division is named"
        why_not = f"{fault}; it must be one of {', '.join(ruleset.divisions)}"
        return no_score(rules.name, division or "unknown", why_not=why_not)
    usd = _usd_per_hour(result, usd_per_hour)
    unfinished = receipts.num_unfinished(result)
    score = score_runs(result.runs, rules, ruleset.timing, division, usd, ruleset.energy, result.num_nodes, unfinished)
    return _with_missing_devices(score, result)


def _with_missing_devices(score: Score, result: Result) -> Score:
    """The score; its energy is void where a run that counts did not meter every accelerator of the system."""
    if score.energy is None:
        return score
    for index, (run, log) in enumerate(zip(score.runs, result.runs, strict=True)):
        parts = run.energy.parts if run.energy is not None and index not in score.left_out else ()
        if any(missing.voids for missing in missing_devices(parts, log.nodes, result.system or {})):
            void = tuple(sorted({*score.energy.void, VoidReason.DEVICES_MISSING}))
            return replace(score, energy=replace(score.energy, void=void))
    return score


def _usd_per_hour(result: Result, rate: Rate) -> Decimal | None:
    if rate is None or isinstance(rate, Decimal):
        return rate
    if result.system is None:
        return None
    if isinstance(rate, PriceBooks):
        return cost.usd_per_hour(result, rate)
    return rate.usd_per_hour(result.system) if isinstance(rate, PriceBook) else rate(result.system)


def _logged(result: Result, name: str) -> str | None:
    """The first non-empty text that a log has for `name`."""
    return next((value for log in result.runs if isinstance(value := log.value(name), str) and value), None)


def leaderboard(ruleset: str, ruleset_digest: str, rows: Sequence[Row]) -> Leaderboard:
    """The rows in tables, by score, each with the ranks that it may have; invalid rows come last and have none.

    Each row also gets its links with the others, those in other tables included.
    """
    tables: dict[tuple[str, str], list[Row]] = {}
    linked = [replace(row, links=found) for row, found in zip(rows, links(rows), strict=True)]
    for row in linked:
        tables.setdefault((row.score.benchmark, row.score.division), []).append(row)
    return Leaderboard(
        ruleset,
        ruleset_digest,
        tuple(Table(*name, rows=_ranked(tables[name])) for name in sorted(tables)),
    )


def by_measured_time(board: Leaderboard) -> Leaderboard:
    """The same tables with their rows by measured time; the ranks are still those of the scores."""

    def order(row: Row) -> tuple[bool, float]:
        seconds = row.score.measured_seconds
        return not row.is_ranked, math.inf if seconds is None else seconds

    tables = [replace(table, rows=tuple(sorted(table.rows, key=order))) for table in board.tables]
    return replace(board, tables=tuple(tables))


def _ranked(rows: Sequence[Row]) -> tuple[Row, ...]:
    def order(row: Row) -> tuple[float, str, str, str]:
        seconds = math.inf if row.score.seconds is None else row.score.seconds
        return seconds, row.submitter, row.system, row.path

    ranked = sorted((row for row in rows if row.is_ranked), key=order)
    others = sorted((row for row in rows if not row.is_ranked), key=order)
    found = rank_intervals([row.score.estimate for row in ranked])
    places = rank_energies([row.score.energy for row in ranked])
    return (
        *(
            replace(row, ranks=ranks, energy_place=place)
            for row, ranks, place in zip(ranked, found, places, strict=True)
        ),
        *(replace(row, ranks=None, energy_place=None) for row in others),
    )
