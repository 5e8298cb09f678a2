"""The scores of an MLPerf round as a table and as JSON: ranks, minutes as MLPerf prints them, convergence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.base.stats import Estimate, rank_intervals
from harness.base.text_table import aligned
from harness.board.text import RANKS, rank_text
from harness.errors import printable
from harness.findings import Finding
from harness.mlperf.model import Round
from harness.mlperf.rcp import RoundVerdict
from harness.mlperf.score import RoundScore, is_closed, minutes, round_score
from harness.ruleset.model import RuleSet
from harness.scoring.round_energy import RoundEnergy, RunJoules, round_energy
from harness.scoring.round_estimate import round_estimate
from harness.submission import layout
from harness.submission.claim import claimed_factor
from harness.submission.result import Result

_HEADER = (
    "rank", "place", "division", "category", "minutes", "seconds", "raw minutes", "factor", "convergence",
    "by the text", "runs",
)  # fmt: skip
_ENERGY_HEADER = ("kJ published", "kJ by rule", "kJ drawn")  # only where a result of the benchmark has power logs
_ENERGY_NOTE = (
    "kJ: means over the runs that count in the score, × factor; not ranked. Published: by MLCommons' program of May\n"
    "2024, mean power of all that was logged × time to train. By rule: each reading in the run × the time since the\n"
    "previous one. Drawn: tta's integral from run_start to run_stop."
)
_LEFT = frozenset({1, 2, 3, 8, 9})
CATEGORIES = ("available", "preview", "research", "unstated")
_CATEGORY_WORDS = {
    "preview": re.compile("preview"),
    "research": re.compile("research|rdo|internal|development"),
    "available": re.compile("available|on-?prem|cloud"),
}


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A result of a round. num_errors: findings that make it invalid. claimed: the factor in its scaling.json.

    energy: None if it was not metered. category: that of the system. estimate: the score with its errors.
    ranks: the first and the last rank that it may have, see `ranked`; None for an invalid row.
    """

    path: Path
    score: RoundScore
    num_errors: int
    claimed: float | None = None
    energy: RoundEnergy | None = None
    category: str = "unstated"
    estimate: Estimate | None = None
    ranks: tuple[int, int] | None = None

    @property
    def table(self) -> tuple[str, bool, str]:
        """What it is compared with: the benchmark, the division, open or any other, and the category."""
        return self.score.benchmark or "?", not is_closed(self.score.division), self.category

    @property
    def is_ranked(self) -> bool:
        return self.score.seconds is not None and not self.num_errors


def row_of(result: Result, ruleset: RuleSet, round_: Round, findings: Iterable[Finding]) -> RoundRow:
    """The row of a result of the round of `ruleset`, on which the check found `findings`."""
    score = round_score(result.runs, round_)
    claimed = None
    if layout.SCALING_NAME in result.files:
        claimed, _ = claimed_factor(result.path / layout.SCALING_NAME)
    return RoundRow(
        path=result.path,
        score=score,
        num_errors=sum(finding.counts for finding in findings),
        claimed=claimed,
        energy=round_energy(score, round_, ruleset.energy, result.num_nodes),
        category=category_of((result.system or {}).get("status")),
        estimate=round_estimate(score, round_),
    )


def category_of(status: object) -> str:
    """The category that `status` of a system description stands for; rounds write it in a dozen ways."""
    text = str(status).casefold() if status is not None else ""
    return next((name for name, words in _CATEGORY_WORDS.items() if words.search(text)), "unstated")


def ranked(rows: Iterable[RoundRow]) -> list[RoundRow]:
    """The rows by table, the valid ones first, fastest first, each with the ranks that it may have in its table."""
    ordered = sorted(rows, key=lambda row: (row.table, not row.is_ranked, row.score.seconds or 0.0, str(row.path)))
    found = []
    for name in dict.fromkeys(row.table for row in ordered):
        own = [row for row in ordered if row.table == name]
        estimates = [row.estimate for row in own if row.is_ranked and row.estimate is not None]
        ranks = iter(rank_intervals(estimates))
        found += [replace(row, ranks=next(ranks) if row.is_ranked and row.estimate else None) for row in own]
    return found


def table(version: str, digest: str, rows: Sequence[RoundRow]) -> str:
    """One table per benchmark, with the rows in the order of `ranked`, each followed by notes on its rows."""
    parts = [f"round {version} ({digest[:12]})"]
    rows = ranked(rows)
    for name in dict.fromkeys(row.table[0] for row in rows):
        group = [row for row in rows if row.table[0] == name]
        is_metered = any(row.energy is not None for row in group)
        header = _HEADER + _ENERGY_HEADER if is_metered else _HEADER
        cells = [_cells(row) + (_energy_cells(row.energy) if is_metered else ()) for row in group]
        parts += [printable(name, 60), aligned(header, cells, _LEFT)]
        notes = [f"{_place(row.path)}: {note}" for row in group for note in _notes(row)]
        parts += ["\n".join(notes)] if notes else []
    parts.append(
        "minutes = olympic mean × factor; the factor takes back convergence faster than the reference's mean.\n"
        "Convergence is judged by MLCommons' program, and by the text of the rules."
    )
    if any(row.ranks is not None for row in rows):
        parts.append(f"{RANKS}\nRows are ranked within benchmark, division and category.")
    parts += [_ENERGY_NOTE] if any(row.energy is not None for row in rows) else []
    return "\n\n".join(parts)


def _cells(row: RoundRow) -> tuple[str, ...]:
    score = row.score
    shown = "none" if score.seconds is None else f"{minutes(score.seconds):.3f}"
    return (
        "-" if row.ranks is None else rank_text(row.ranks),
        _place(row.path),
        printable(score.division or "?", 20),
        row.category,
        shown if row.is_ranked or score.seconds is None else f"not valid ({shown})",
        "-" if score.seconds is None else f"{score.seconds:,.3f}",
        "-" if score.raw_seconds is None else f"{minutes(score.raw_seconds):.3f}",
        f"{score.factor:.4f}",
        _verdict(score.code),
        _verdict(score.rules),
        f"{sum(run.complies for run in score.runs)}/{score.num_runs or '?'}",
    )


def _energy_cells(energy: RoundEnergy | None) -> tuple[str, ...]:
    if energy is None:
        return ("not measured",) * 3
    joules = (energy.published_j, energy.rule_j, energy.drawn_j)
    return tuple("-" if value is None else f"{value / 1e3:,.2f}" for value in joules)


def _place(path: Path) -> str:
    parts = path.absolute().parts
    return printable("/".join((parts[-4], *parts[-2:-1]) if layout.is_result_place(path) else parts[-2:]), 80)


def _verdict(verdict: RoundVerdict | None) -> str:
    if verdict is None:
        return "not compared"
    return f"{verdict.status}, {verdict.basis}" if verdict.status in ("pass", "fail") else verdict.status


def _notes(row: RoundRow) -> list[str]:
    score, notes = row.score, []
    if row.num_errors:
        notes.append(f"not valid: {row.num_errors} error{'s' * (row.num_errors > 1)}; `tta check` shows them")
    if score.why_not is not None:
        notes.append(f"no score: {printable(score.why_not, 400)}")
    for name, verdict in (("MLCommons' program", score.code), ("the rules' text", score.rules)):
        if verdict is not None and verdict.status != "pass":
            notes.append(f"convergence by {name}: {verdict.status}: {printable(verdict.why, 400)}")
    if row.claimed is not None and abs(row.claimed - score.factor) > 1e-6 * score.factor:
        notes.append(f"the factor {row.claimed:.6f} in its scaling.json is not used")
    if row.energy is not None and row.energy.why_not is not None and row.energy.why_not != score.why_not:
        notes.append(f"no energy by MLPerf's formulas: {printable(row.energy.why_not, 400)}")
    if row.energy is not None and row.energy.void:
        notes.append(f"by tta's rules the energy would be void: {', '.join(row.energy.void)}")
    return notes


def document(version: str, digest: str, rows: Sequence[RoundRow]) -> dict[str, Any]:
    """The same as JSON, with the results in the order of `rows`."""
    found = {row.path: row_document(row) for row in ranked(rows)}
    return {"ruleset": version, "ruleset_digest": digest, "results": [found[row.path] for row in rows]}


def row_document(row: RoundRow) -> dict[str, Any]:
    """A result as JSON, every number in full precision. interval: of the seconds, 95 %."""
    score = row.score
    return {
        "path": str(row.path),
        "benchmark": score.benchmark,
        "division": score.division,
        "category": row.category,
        "ranks": row.ranks,
        "interval": None if row.estimate is None else row.estimate.interval(),
        "global_batch_size": score.batch_size,
        "is_valid": row.is_ranked,
        "num_errors": row.num_errors,
        "seconds": score.seconds,
        "minutes": None if score.seconds is None else minutes(score.seconds),
        "raw_seconds": score.raw_seconds,
        "raw_minutes": None if score.raw_seconds is None else minutes(score.raw_seconds),
        "factor": score.factor,
        "claimed_factor": row.claimed,
        "why_not": score.why_not,
        "convergence": {"code": _verdict_document(score.code), "rules": _verdict_document(score.rules)},
        "energy": _energy_document(row.energy),
        "runs": [
            {
                "path": str(run.log.path),
                "complies": run.complies,
                "seconds": run.seconds,
                "to_target": run.amount,
                "energy": None if row.energy is None else _joules_document(row.energy.runs[index]),
            }
            for index, run in enumerate(score.runs)
        ],
    }


def _energy_document(energy: RoundEnergy | None) -> dict[str, Any] | None:
    return None if energy is None else {**_joules_document(energy), "void": list(energy.void)}


def _joules_document(energy: RoundEnergy | RunJoules) -> dict[str, Any]:
    return {
        "published_j": energy.published_j,
        "rule_j": energy.rule_j,
        "drawn_j": energy.drawn_j,
        "why_not": energy.why_not,
    }


def _verdict_document(verdict: RoundVerdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": verdict.status,
        "basis": verdict.basis,
        "why": verdict.why,
        "reference_mean": verdict.reference_mean,
        "acceptable_mean": verdict.acceptable_mean,
        "mean": verdict.mean,
        "max_speedup": verdict.max_speedup,
    }
