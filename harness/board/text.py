"""The tables of `tta score` as text: by time, by energy, and notes on the rows. Pure."""

from __future__ import annotations

from pathlib import PurePath

from harness.base.text_table import aligned
from harness.board.leaderboard import Leaderboard, Row, Table
from harness.board.pages.words import plural, rank_words, resumed_words
from harness.board.reproductions import notes as repetition_notes
from harness.board.reproductions import tally
from harness.energy.score import ScoreEnergy
from harness.errors import printable
from harness.scoring.cost import Bill
from harness.submission.receipts import WITNESS_WORDS

_HEADER = (
    "rank", "submitter", "system", "score", "95 % interval", "measured", "95 % interval", "samples", "energy", "cost",
    "runs", "reproduced", "errors",
)  # fmt: skip
_LEFT = frozenset({1, 2})
SCORE = (
    "score: opening the data + seconds per sample x the reference's samples at this batch size, so neither lucky seeds "
    "nor tuning count.\nmeasured: mean of the runs' times without the fastest and the slowest."
)
RANKS = "rank 2-4: the runs cannot tell which of these places the row has (95 %, all rows of a table together)."
_ENERGY_HEADER = ("rank", "submitter", "system", "energy to target", "mean power", "idle power")
_BOARDS = {"node": "whole nodes", "component": "parts of nodes"}
_UNITS = (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3), ("J", 1.0))


def leaderboard_text(board: Leaderboard) -> str:
    """All tables of the leaderboard with their notes, and what their ranks mean."""
    parts = [f"ruleset {printable(board.ruleset)} ({board.ruleset_digest[:12]})"]
    for table in board.tables:
        parts.append(f"{printable(table.benchmark)}, {printable(table.division)} division")
        parts.append(aligned(_HEADER, [_cells(row) for row in table.rows], _LEFT))
        parts.extend(_by_energy(table))
        notes = [f"{printable(row.path)}: {printable(note, 1000)}" for row in table.rows for note in _notes(row)]
        parts.extend(["\n".join(notes)] if notes else [])
    ranked = [row for table in board.tables for row in table.rows if row.is_ranked]
    if any(row.score.basis != "measured" for row in ranked):
        parts.append(SCORE)
    if ranked:
        parts.append(RANKS)
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    score = row.score
    seconds = "none" if score.seconds is None else f"{score.seconds:,.3f} s"
    reached = sum(run.seconds is not None for run in score.runs)
    return (
        "-" if row.ranks is None else rank_text(row.ranks),
        row.submitter,
        row.system,
        seconds if row.is_ranked or score.seconds is None else f"not valid ({seconds})",
        _interval(score.interval),
        "-" if score.measured_seconds is None else f"{score.measured_seconds:,.3f} s",
        _interval(score.measured_interval),
        "-" if score.samples is None else f"{score.samples:,.0f}",
        _energy(score.energy),
        "-" if score.usd is None else f"{score.usd} USD",
        f"{reached}/{len(score.runs)}",
        ", ".join(tally(row.links.reproductions).words) or "-",
        str(row.num_errors),
    )


def _interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:,.3f} to {interval[1]:,.3f}"


def rank_text(ranks: tuple[int, int]) -> str:
    """The ranks that a row may have: `1`, `2-4`; a terminal may have no dash."""
    return rank_words(ranks).replace("–", "-")


def _energy(energy: ScoreEnergy | None) -> str:
    """The energy in words: not measured, void and why, estimated, or measured with its interval and class."""
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
    """The amount with its unit; the unit in joules; the number of decimals."""
    unit, divisor = next((unit, size) for unit, size in _UNITS if joules >= size or size == 1)
    digits = 2 if joules / divisor < 10 else 1 if joules / divisor < 1000 else 0
    return f"{joules / divisor:,.{digits}f} {unit}", divisor, digits


def _by_energy(table: Table) -> list[str]:
    """A table for each board and scope in which rows are ranked by energy."""
    groups: dict[tuple[str, str], list[tuple[float, tuple[int, int], Row, ScoreEnergy]]] = {}
    for row in table.rows:
        place, energy = row.energy_place, row.score.energy
        if place is not None and energy is not None and energy.joules is not None:
            groups.setdefault((place.board, place.scope), []).append((energy.joules, place.ranks, row, energy))
    parts = []
    for (board, scope), group in sorted(groups.items(), reverse=True):
        lines = [
            (rank_text(ranks), row.submitter, row.system, _energy(energy), _watts(energy.mean_w), _watts(energy.idle_w))
            for _, ranks, row, energy in sorted(group, key=lambda item: item[:2])
        ]
        head = f"by energy, {_BOARDS[board]}: {printable(scope, 200)}"
        parts.append(f"{head}\n{aligned(_ENERGY_HEADER, lines, _LEFT)}")
    return parts


def _watts(power_w: float | None) -> str:
    return "not measured" if power_w is None else f"{power_w:,.1f} W"


def _notes(row: Row) -> list[str]:
    score, notes = row.score, [] if row.signer is None else [f"signed by {row.signer}"]
    if row.reimplementation is not None:
        notes.append(row.reimplementation)
    if row.witness in WITNESS_WORDS:
        tried = "" if row.num_campaigns is None else f", {plural(row.num_campaigns, 'campaign')} tried"
        notes.append(f"{WITNESS_WORDS[row.witness]} ({row.witness}){tried}")
    if row.num_errors:
        notes.append(f"not valid: {plural(row.num_errors, 'error')}; `tta check` shows them")
    if score.why_not is not None:
        notes.append(f"no score: {score.why_not}")
    elif score.basis == "own samples":
        notes.append(
            f"scored with its own {score.scored_samples:,.0f} samples: it needs significantly more than the reference"
        )
    if score.num_beyond:
        num_scored = len(score.runs) - score.num_beyond
        notes.append(f"a reproduction: scored by the first {num_scored} of its {len(score.runs)} runs")
    notes += repetition_notes(row, row.links)
    notes += [
        f"{PurePath(run.path).name}: {resumed_words(run.num_resumed, run.away_s)}"
        for run in score.runs
        if run.num_resumed
    ]
    if score.energy is not None and score.energy.void:
        notes.append(f"energy not ranked: {', '.join(score.energy.void)}")
    if row.electricity_usd is not None:
        notes.append(f"electricity, not included: {row.electricity_usd} USD per run")
    if row.bill is not None:
        notes.append(_billed(row.bill))
    return notes


def _billed(bill: Bill) -> str:
    """The declared use, which is not ranked."""
    declared = bill.declared
    text = f"declared: {plural(len(declared.attempts), 'node allocation')}, {declared.purchase}"
    if declared.interruptions is not None:
        text += f", {plural(declared.interruptions, 'interruption')}"
    text += f"; at list price {bill.usd} USD" if bill.usd is not None else f"; no list price: {bill.why_not}"
    return text + (f", as bought {bill.paid_usd} USD" if bill.paid_usd is not None else "")
