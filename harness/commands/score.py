"""`tta score`: time to accuracy of results, ranked, with interval, energy and cost; and ranked by energy, apart."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from harness.base.text_table import aligned
from harness.board import leaderboard, mlperf_table
from harness.board.rowdocument import row_document
from harness.checker import engine, parallel
from harness.errors import ExitStatus, InputError, UsageError, printable
from harness.findings import Rule
from harness.mlperf import score as mlperf_score
from harness.mlperf.model import Round
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.scoring.score import Leaderboard, Row, ScoreEnergy, Table
from harness.submission import layout
from harness.submission.billing import Bill
from harness.submission.result import Result, find_results, read_result

_HEADER = (
    "band", "submitter", "system", "time to target", "95 % interval", "samples", "energy", "cost", "runs", "errors"
)  # fmt: skip
_LEFT = frozenset({1, 2})
_ENERGY_HEADER = ("rank", "submitter", "system", "energy to target", "mean power", "idle power")
_BOARDS = {"node": "whole nodes", "component": "parts of nodes"}
_UNITS = (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3), ("J", 1.0))


def run(paths: list[Path], ruleset_name: str, output_format: str, today: date | None = None) -> ExitStatus:
    """Prints the results at or below `paths` as ranked tables, or as one JSON document.

    Returns:
        FINDINGS where a result is not valid or has no score; USAGE where one cannot be read (the others are shown).

    Raises:
        TtaError: a path has no result, the rules cannot be read, or the results point to two ("auto").
    """
    if not paths:
        raise UsageError("score: which results? name logs, folders or trees of them")
    unreadable: list[InputError] = []
    results = _readable(dict.fromkeys(found for place in paths for found in find_results(place)), unreadable)
    if ruleset_name == parallel.AUTO:
        auto, results = parallel.held_to_one(results, paths)
        parallel.say(auto)
        ruleset_name = auto.name
    folder = catalog.ruleset_folder(ruleset_name)
    ruleset = load.load_ruleset(folder, ruleset_name)
    checks = list(catalog.checks().values())
    today = today or datetime.now(UTC).date()
    if ruleset.round is not None:
        is_ranked = _print_round(results, ruleset, ruleset.round, checks, output_format, today)
    else:
        is_ranked = _print_ours(results, ruleset, checks, output_format, today)
    return ExitStatus.USAGE if unreadable else ExitStatus.OK if is_ranked else ExitStatus.FINDINGS


def _readable(paths: Iterable[Path], unreadable: list[InputError]) -> Iterator[Result]:
    """The results that can be read; of the others it is said why not, and they are put into `unreadable`."""
    for path in paths:
        try:
            yield read_result(path)
        except InputError as error:
            print(f"tta: {printable(error, 2000)}", file=sys.stderr)
            unreadable.append(error)


def _print_ours(
    results: Iterable[Result], ruleset: RuleSet, checks: list[Rule], output_format: str, today: date
) -> bool:
    """The tables; whether all results are ranked."""
    rows = [leaderboard.row(result, ruleset, checks, ruleset.prices, today) for result in results]
    board = leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)
    if output_format == "json":
        print(json.dumps(_document(board), allow_nan=False, indent=2))
    elif rows:
        print(_text(board))
    return all(row.is_ranked for row in rows)


def _print_round(
    results: Iterable[Result], ruleset: RuleSet, round_: Round, checks: list[Rule], output_format: str, today: date
) -> bool:
    """The same of a round of MLPerf's."""
    rows = []
    for result in results:
        path = result.path
        num_errors = sum(finding.counts for finding in engine.judge(result, ruleset, checks, today))
        has_claim = layout.SCALING_NAME in result.files
        claimed = layout.claimed_factor(path / layout.SCALING_NAME)[0] if has_claim else None
        rows.append(mlperf_table.RoundRow(path, mlperf_score.of(result, round_), num_errors, claimed))
    if output_format == "json":
        document = mlperf_table.document(ruleset.version, ruleset.digest, rows)
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        print(mlperf_table.table(ruleset.version, ruleset.digest, rows))
    return all(row.is_ranked for row in rows)


def _text(board: Leaderboard) -> str:
    parts = [f"ruleset {printable(board.ruleset)} ({board.ruleset_digest[:12]})"]
    for table in board.tables:
        parts.append(f"{printable(table.benchmark)}, {printable(table.division)} division")
        parts.append(aligned(_HEADER, [_cells(row) for row in table.rows], _LEFT))
        parts.extend(_by_energy(table))
        notes = [f"{printable(row.path)}: {printable(note, 1000)}" for row in table.rows for note in _notes(row)]
        parts.extend(["\n".join(notes)] if notes else [])
    if any(row.energy_place is not None for table in board.tables for row in table.rows):
        parts.append("By energy, rows of one rank cannot be told apart: their 95 % intervals overlap the leader's.")
    if any(row.is_ranked for table in board.tables for row in table.rows):
        parts.append("Rows of one band cannot be told apart: the slower is not significantly slower (p < 0.05).")
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    score = row.score
    seconds = "none" if score.seconds is None else f"{score.seconds:,.3f} s"
    reached = sum(run.seconds is not None for run in score.runs)
    return (
        "-" if row.band is None else str(row.band),
        row.submitter,
        row.system,
        seconds if row.is_ranked or score.seconds is None else f"not valid ({seconds})",
        "-" if score.interval is None else f"{score.interval[0]:,.3f} to {score.interval[1]:,.3f}",
        "-" if score.samples is None else f"{score.samples:,.0f}",
        _energy(score.energy),
        "-" if score.usd is None else f"{score.usd} USD",
        f"{reached}/{len(score.runs)}",
        str(row.num_errors),
    )


def _energy(energy: ScoreEnergy | None) -> str:
    """As it is to be taken: not measured, void and why, estimated, or measured with its interval and class."""
    if energy is None:
        return "not measured"
    if energy.joules is not None and energy.meter_class == "E":
        return f"estimated {_joules(energy.joules)[0]}"
    if energy.void or energy.joules is None:
        return f"void: {', '.join(energy.void)}"
    shown, divisor, digits = _joules(energy.joules)
    half_j = ((energy.high_j or 0.0) - (energy.low_j or 0.0)) / 2
    return f"{shown} ± {half_j / divisor:,.{digits}f} (class {energy.meter_class})"


def _joules(joules: float) -> tuple[str, float, int]:
    """With its unit, and the unit's joules and decimals."""
    unit, divisor = next((unit, size) for unit, size in _UNITS if joules >= size or size == 1)
    digits = 1 if joules / divisor < 1000 else 0
    return f"{joules / divisor:,.{digits}f} {unit}", divisor, digits


def _by_energy(table: Table) -> list[str]:
    """A table for every board and scope on which rows are ranked by energy."""
    groups: dict[tuple[str, str], list[tuple[int, float, Row, ScoreEnergy]]] = {}
    for row in table.rows:
        place, energy = row.energy_place, row.score.energy
        if place is not None and energy is not None and energy.joules is not None:
            groups.setdefault((place.board, place.scope), []).append((place.rank, energy.joules, row, energy))
    parts = []
    for (board, scope), group in sorted(groups.items(), reverse=True):
        lines = [
            (str(rank), row.submitter, row.system, _energy(energy), _watts(energy.mean_w), _watts(energy.idle_w))
            for rank, _, row, energy in sorted(group, key=lambda item: item[:2])
        ]
        head = f"by energy, {_BOARDS[board]}: {printable(scope, 200)}"
        parts.append(f"{head}\n{aligned(_ENERGY_HEADER, lines, _LEFT)}")
    return parts


def _watts(power_w: float | None) -> str:
    return "not measured" if power_w is None else f"{power_w:,.1f} W"


def _notes(row: Row) -> list[str]:
    score, notes = row.score, [] if row.signer is None else [f"signed by {row.signer}"]
    if row.num_errors:
        plural = "error" if row.num_errors == 1 else "errors"
        notes.append(f"not valid: {row.num_errors} {plural}; `tta check` shows them")
    if score.why_not is not None:
        notes.append(f"no score: {score.why_not}")
    elif score.normalised_by > 1:
        notes.append(
            f"multiplied by {score.normalised_by:.4f} ({score.raw_seconds:,.3f} s before): it needed fewer samples "
            "than the reference"
        )
    if score.energy is not None and score.energy.void:
        notes.append(f"its energy is not ranked: {', '.join(score.energy.void)}")
    if row.electricity_usd is not None:
        notes.append(f"electricity, apart: {row.electricity_usd} USD a run")
    if row.bill is not None:
        notes.append(_billed(row.bill))
    return notes


def _billed(bill: Bill) -> str:
    """What is declared, as declared; it ranks nothing."""
    declared = bill.declared
    text = f"declared: {len(declared.attempts)} times a node was held, {declared.purchase}"
    if declared.interruptions is not None:
        text += f", {declared.interruptions} interruptions"
    text += f"; at list price {bill.usd} USD" if bill.usd is not None else f"; no list price: {bill.why_not}"
    return text + (f", as bought {bill.paid_usd} USD" if bill.paid_usd is not None else "")


def _document(board: Leaderboard) -> dict[str, Any]:
    return {
        "ruleset": board.ruleset,
        "ruleset_digest": board.ruleset_digest,
        "tables": [_table_document(table) for table in board.tables],
    }


def _table_document(table: Table) -> dict[str, Any]:
    rows = [row_document(row) for row in table.rows]
    return {"benchmark": table.benchmark, "division": table.division, "rows": rows}
