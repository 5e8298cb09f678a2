"""Result -> Row: judged and scored, ready for a leaderboard. What `score`, `submit` and the board share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from harness.checker import engine
from harness.cost.price_book import PriceBook, PriceBooks, electricity_usd
from harness.energy.plausibility import missing_devices
from harness.errors import printable
from harness.findings import Finding, Rule, Severity
from harness.log import events as key
from harness.ruleset.model import RuleSet
from harness.scoring import cost
from harness.scoring.score import Row, Score, leaderboard, no_score
from harness.scoring.score import score as score_of
from harness.submission import billing, signature
from harness.submission.result import Result

__all__ = ["Rate", "leaderboard", "rate", "row"]

Rate = Decimal | PriceBooks | PriceBook | Callable[[Mapping[str, Any]], Decimal | None] | None
"""USD an hour: a number, price books of which a result names one, a book or another function that says it for a
system description, or not known."""


def row(result: Result, ruleset: RuleSet, checks: Iterable[Rule], usd_per_hour: Rate, today: date) -> Row:
    """The row of a result: judged by `checks` as of `today`, and scored. Its band is given by `leaderboard`."""
    return rate(result, ruleset, engine.judge(result, ruleset, checks, today), usd_per_hour)


def rate(result: Result, ruleset: RuleSet, findings: Sequence[Finding], usd_per_hour: Rate = None) -> Row:
    """The row of a result whose findings are known.

    Submitter, system and division are the claim's, else what the logs say. A system description says what an
    hour costs; without one there is no price.
    """
    claim, score = result.claim, _score(result, ruleset, usd_per_hour)
    price = cost.price_of(result, ruleset.prices)
    return Row(
        band=None,
        submitter=claim.submitter if claim else _logged(result, key.SUBMISSION_ORG) or "unknown",
        system=claim.system if claim else _logged(result, key.SUBMISSION_PLATFORM) or "unknown",
        category=claim.category if claim else "",
        submitted=claim.submitted if claim else "",
        path=str(result.path),
        score=score,
        num_errors=sum(finding.counts for finding in findings),
        num_warnings=sum(finding.severity is Severity.WARNING and finding.waived is None for finding in findings),
        findings=tuple(findings),
        bill=billing.bill_of(result, ruleset.prices),
        electricity_usd=None if price is None else electricity_usd(price, score.energy_j, score.energy_source),
        signer=signature.verdict(result, ruleset).signer,
    )


def _score(result: Result, ruleset: RuleSet, usd_per_hour: Rate) -> Score:
    benchmark = result.benchmark
    division = result.claim.division if result.claim else _logged(result, key.SUBMISSION_DIVISION)
    rules = ruleset.benchmarks.get(benchmark) if benchmark is not None else None
    if rules is None:
        named = "the logs name no benchmark" if benchmark is None else f"there is no benchmark {printable(benchmark)!r}"
        return no_score(benchmark or "unknown", division or "unknown", why_not=f"{named} in ruleset {ruleset.version}")
    if division not in ruleset.divisions:
        named = f"the division is {printable(division)!r}" if division else "no division is named"
        why_not = f"{named}; it must be one of {', '.join(ruleset.divisions)}"
        return no_score(rules.name, division or "unknown", why_not=why_not)
    usd = _usd_per_hour(result, usd_per_hour)
    score = score_of(result.runs, rules, ruleset.timing, division, usd, ruleset.energy, result.num_nodes)
    return _of_all_devices(score, result)


def _of_all_devices(score: Score, result: Result) -> Score:
    """The score; its energy void where a run that is averaged has not all accelerators of the description metered."""
    if score.energy is None:
        return score
    for index, (run, log) in enumerate(zip(score.runs, result.runs, strict=True)):
        parts = run.energy.parts if run.energy is not None and index not in score.dropped else ()
        if any(missing.voids for missing in missing_devices(parts, log.nodes, result.system or {})):
            void = tuple(sorted({*score.energy.void, "devices_missing"}))
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
    """The first text that a log has for `name`."""
    return next((value for log in result.runs if isinstance(value := log.value(name), str) and value), None)
