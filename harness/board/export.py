"""The leaderboard for machines: the site's JSON and CSV, and the documents of `tta score --format json`. Pure.

A missing value is null in JSON and an empty cell in CSV. `tta derive` derives these documents number by number.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harness.board.index import Board, Entry
from harness.board.leaderboard import Leaderboard, Row, Table
from harness.board.pages.cost_view import CostRow, cost_view, hourly, measured_usd_interval, usd_interval
from harness.board.pages.energy_view import energy_view
from harness.board.pages.time_view import run_name, table_view
from harness.board.pages.words import spreadsheet_cell
from harness.board.reproductions import document, tally
from harness.energy.run_energy import RunEnergy
from harness.findings import Group, grouped
from harness.ruleset.model import BenchmarkRules
from harness.scoring.cost import Bill
from harness.scoring.run_result import RunResult
from harness.scoring.score import Score

FORMAT_VERSION = 2
COLUMNS = (
    "benchmark", "division", "rank_first", "rank_last", "submitter", "system", "category", "submitted", "valid",
    "errors", "warnings", "seconds", "seconds_low", "seconds_high", "basis", "fixed_s", "pace_s", "scored_samples",
    "measured_seconds", "measured_low", "measured_high", "samples", "energy_j", "energy_source", "energy_low_j",
    "energy_high_j", "energy_class", "energy_board", "energy_scope", "energy_rank_first", "energy_rank_last",
    "energy_void", "energy_share_estimated", "mean_w", "idle_w", "measured_energy_j", "measured_energy_low_j",
    "measured_energy_high_j", "usd", "usd_low", "usd_high", "usd_rank_first", "usd_rank_last", "measured_usd",
    "measured_usd_low", "measured_usd_high", "usd_why_not", "price", "prices_digest", "usd_billed", "usd_as_bought",
    "usd_electricity", "runs", "runs_reached", "reproduced_by", "not_reproduced_by",
    "inconclusive_by", "own_reproductions", "digest", "repeats", "witness", "why_not", "place",
)  # fmt: skip


def board_json(board: Board, tables: Iterable[Table] | None = None) -> bytes:
    """The board, or some of its tables, as a JSON document with sorted keys."""
    document = {
        "format": FORMAT_VERSION,
        "ruleset": board.ruleset.version,
        "ruleset_digest": board.ruleset.digest,
        "prices_digest": None if board.prices is None else board.prices.digest,
        "newest": board.newest,
        "units": {"time": "seconds", "energy": "joules", "cost": "US dollars", "samples": "training samples"},
        "tables": [_table(board, table) for table in (board.leaderboard.tables if tables is None else tables)],
        "not_placed": [{"place": item.place, "reasons": list(item.reasons)} for item in board.not_placed],
    }
    return json_bytes(document)


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A JSON document with sorted keys."""
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _table(board: Board, table: Table) -> dict[str, Any]:
    return {
        "benchmark": table.benchmark,
        "division": table.division,
        **_target(board.ruleset.benchmarks[table.benchmark], table.division),
        "rows": [_row(standing, board) for standing in _standings(board, table)],
    }


@dataclass(frozen=True, slots=True)
class _Standing:
    """A row with its ranks by energy and by cost."""

    row: Row
    energy_ranks: tuple[int, int] | None
    cost: CostRow


def _standings(board: Board, table: Table) -> list[_Standing]:
    """The rows of a table in their order, each with its ranks by energy and by cost."""
    time = table_view(board, table)
    cost, energy = cost_view(time), energy_view(board, time)
    entries = [board.of(row) for row in table.rows]
    return [_Standing(entry.row, energy.of(entry).ranks, cost.of(entry)) for entry in entries]


def _target(rules: BenchmarkRules, division: str) -> dict[str, Any]:
    metric = rules.metric
    return {
        "metric": {"name": metric.name, "unit": metric.unit, "direction": metric.direction},
        "target": rules.target,
        "provisional": rules.provisional,
        "num_runs": rules.required_runs(division),
        "drop": rules.drop,
        "without_training": dict(rules.baselines),
    }


def _row(standing: _Standing, board: Board) -> dict[str, Any]:
    row = standing.row
    entry = board.of(row)
    score = row.score
    return {
        "ranks": _pair(row.ranks),
        "submitter": row.submitter,
        "system": row.system,
        "category": row.category,
        "submitted": row.submitted,
        "signed_by": row.signer,
        "code": row.code.record(),
        "reimplementation": row.reimplementation,
        "witness": row.witness,
        "num_campaigns": row.num_campaigns,
        "place": entry.place,
        "page": entry.page,
        "valid": row.is_ranked,
        "errors": row.num_errors,
        "warnings": row.num_warnings,
        "seconds": score.seconds,
        "interval": _pair(score.interval),
        "basis": score.basis,
        "fixed_s": score.fixed_s,
        "pace_s": score.pace_s,
        "scored_samples": score.scored_samples,
        "measured_seconds": score.measured_seconds,
        "measured_interval": _pair(score.measured_interval),
        "samples": score.samples,
        "energy_j": score.energy_j,
        "energy_source": score.energy_source,
        "energy": _energy(score, standing.energy_ranks),
        "usd": None if score.usd is None else float(score.usd),
        "cost": _cost(standing.cost, entry),
        "price": None if entry.price is None else entry.price.id,
        "why_not": score.why_not,
        "dropped": list(score.dropped),
        "num_beyond": score.num_beyond,
        **_repetition(row, lambda path: {"place": path, "page": board.entries[path].page}),
        "runs": [_run(run) for run in score.runs],
        "findings": [_finding(group) for group in grouped(row.findings)],
        "files": [{"path": item.target, "sha256": item.sha256, "bytes": item.num_bytes} for item in entry.downloads],
    }


def _pair(pair: tuple[float, float] | None) -> list[float] | None:
    return None if pair is None else list(pair)


def _finding(group: Group) -> dict[str, Any]:
    """A group of similar findings; place and message are the first one's."""
    first = group.first
    return {
        "code": first.code,
        "name": first.name,
        "severity": str(first.severity),
        "place": first.place,
        "message": first.message,
        "waived": first.waived,
        "count": group.count,
    }


def _run(run: RunResult) -> dict[str, Any]:
    return {
        "log": run_name(run),
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "why_not": run.why_not,
        "seconds": run.seconds,
        "fixed_s": run.fixed_s,
        "num_resumed": run.num_resumed,
        "away_s": run.away_s,
        "samples": run.samples,
        "crossing_samples": run.crossing_samples,
        "quality": run.quality,
        "energy_j": run.energy_j,
        "energy_source": run.energy_source,
        "energy": _run_energy(run.energy),
        "usd": None if run.usd is None else float(run.usd),
        "ledger_s": dict(run.ledger),
        "evaluations": [[point.samples, point.seconds, point.quality] for point in run.evaluations],
    }


def _energy(score: Score, ranks: tuple[int, int] | None) -> dict[str, Any] | None:
    """None where nothing was metered."""
    energy, measured = score.energy, score.measured_energy
    if energy is None:
        return None
    return {
        "joules": energy.joules,
        "interval": _pair(energy.interval),
        "measured_joules": None if measured is None else measured.joules,
        "measured_interval": None if measured is None else _pair(measured.interval),
        "class": energy.meter_class,
        "board": energy.board,
        "scope": energy.scope,
        "ranks": _pair(ranks),
        "void": list(energy.void),
        "share_estimated": energy.share_estimated,
        "mean_w": energy.mean_w,
        "idle_w": energy.idle_w,
    }


def _run_energy(energy: RunEnergy | None) -> dict[str, Any] | None:
    if energy is None:
        return None
    return {
        "joules": energy.joules,
        "u95_j": energy.uncertainty_j,
        "class": energy.meter_class,
        "scope": energy.scope,
        "mean_w": energy.mean_w,
        "coverage": energy.coverage,
        "longest_gap_s": energy.longest_gap_s,
        "num_samples": energy.num_samples,
        "num_nodes": energy.num_nodes,
        "share_estimated": energy.share_estimated,
        "void": list(energy.void),
        "flags": list(energy.flags),
        "method": energy.method,
    }


def _cost(cost: CostRow, entry: Entry) -> dict[str, Any]:
    """The ranked cost and the unranked ones; money as exact text."""
    bill, interval = entry.row.bill, usd_interval(entry.row.score)
    return {
        "usd": _money(entry.row.score.usd),
        "interval": _pair(interval),
        "measured_usd": _money(entry.row.score.measured_usd),
        "measured_interval": _pair(measured_usd_interval(entry.row.score)),
        "ranks": _pair(cost.ranks),
        "why_not": None if cost.ranks is not None else cost.reason,
        "usd_per_hour": _money(hourly(cost.view)),
        "price": None if entry.price is None else entry.price.id,
        "price_as_of": None if entry.price is None else entry.price.as_of,
        "prices_digest": _book_digest(entry),
        "billed_usd": None if bill is None else _money(bill.usd),
        "as_bought_usd": None if bill is None else _money(bill.paid_usd),
        "purchase": None if bill is None else bill.declared.purchase,
        "electricity_usd": _money(entry.row.electricity_usd),
    }


def _money(usd: Decimal | None) -> str | None:
    return None if usd is None else f"{usd:f}"


def _book_digest(entry: Entry) -> str | None:
    """Digest of the price book that priced the result; None where it has no price."""
    return entry.prices_digest if entry.price is not None else None


def board_csv(board: Board, tables: Iterable[Table] | None = None) -> bytes:
    """A header and one line per result."""
    lines = [
        _line(standing, board.of(standing.row), table)
        for table in (board.leaderboard.tables if tables is None else tables)
        for standing in _standings(board, table)
    ]
    return csv_bytes(COLUMNS, lines)


def csv_bytes(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> bytes:
    """A header and the lines; safe to open in a spreadsheet."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    for line in lines:
        writer.writerow(["" if value is None else spreadsheet_cell(value) for value in line])
    return text.getvalue().encode("utf-8", "backslashreplace")


def _line(standing: _Standing, entry: Entry, table: Table) -> list[object]:
    row = standing.row
    score, energy, measured, bill = row.score, row.score.energy, row.score.measured_energy, row.bill
    low, high = score.interval or (None, None)
    usd_low, usd_high = usd_interval(score) or (None, None)
    energies: list[object] = [None] * 11
    if energy is not None:
        energies = [
            energy.low_j, energy.high_j, energy.meter_class, energy.board, energy.scope,
            *(standing.energy_ranks or (None, None)),
            " ".join(energy.void), energy.share_estimated, energy.mean_w, energy.idle_w,
        ]  # fmt: skip
    return [
        table.benchmark, table.division, *(row.ranks or (None, None)), row.submitter, row.system, row.category,
        row.submitted, "yes" if row.is_ranked else "no", row.num_errors, row.num_warnings,
        score.seconds, low, high, score.basis, score.fixed_s, score.pace_s, score.scored_samples,
        score.measured_seconds, *(score.measured_interval or (None, None)),
        score.samples, score.energy_j, score.energy_source, *energies,
        None if measured is None else measured.joules,
        *((None if measured is None else measured.interval) or (None, None)),
        score.usd, usd_low, usd_high,
        *(standing.cost.ranks or (None, None)), score.measured_usd, *(measured_usd_interval(score) or (None, None)),
        None if standing.cost.ranks is not None else standing.cost.reason,
        None if entry.price is None else entry.price.id, _book_digest(entry),
        None if bill is None else bill.usd, None if bill is None else bill.paid_usd, row.electricity_usd,
        len(score.runs), sum(run.seconds is not None for run in score.runs),
        *dataclasses.astuple(tally(row.links.reproductions)),
        *((None, None) if row.repeatable is None else (row.repeatable.digest, row.repeatable.repeats)),
        row.witness, score.why_not, entry.place,
    ]  # fmt: skip


def row_document(row: Row) -> dict[str, Any]:
    """A row of `tta score`, without the findings, which `tta check` reports."""
    left_out = ("findings", "repeatable", "links")
    shown = {field.name: getattr(row, field.name) for field in dataclasses.fields(row) if field.name not in left_out}
    shown["electricity_usd"] = None if row.electricity_usd is None else str(row.electricity_usd)
    bill = None if row.bill is None else _bill_document(row.bill)
    place = None if row.energy_place is None else dataclasses.asdict(row.energy_place)
    parts = {"score": _score_document(row.score), "bill": bill, "energy_place": place, "code": row.code.record()}
    return {**shown, "is_valid": row.is_ranked, **parts, **_repetition(row, lambda path: {"path": path})}


def _repetition(row: Row, place: Callable[[str], dict[str, str]]) -> dict[str, Any]:
    """What the row repeats, and what repeats it. place: where another row is found, by its path."""
    facts = row.repeatable
    return {
        "digest": None if facts is None else facts.digest,
        "repeats": None if facts is None else facts.repeats,
        "reproduced": tally(row.links.reproductions).record(),
        "originals": [{**place(item.path), **document(item)} for item in row.links.originals],
        "reproductions": [{**place(item.path), **document(item)} for item in row.links.reproductions],
    }


def _bill_document(bill: Bill) -> dict[str, Any]:
    """The declared use and its cost; times and money as text."""
    declared = bill.declared
    amounts = ("usd", "compute_usd", "paid_usd", "seconds")
    return {
        "purchase": declared.purchase,
        "interruptions": declared.interruptions,
        "attempts": len(declared.attempts),
        **{name: None if (value := getattr(bill, name)) is None else str(value) for name in amounts},
        "price_id": bill.price_id,
        "price_digest": bill.price_digest,
        "why_not": bill.why_not,
    }


def _score_document(score: Score) -> dict[str, Any]:
    """Money as text, so that no reader turns it into a binary fraction."""
    record = dataclasses.asdict(score)
    for part in (record, *record["runs"]):
        for name in ("usd", "measured_usd"):
            if part.get(name) is not None:
                part[name] = str(Decimal(part[name]))
    sources: list[Score | RunResult] = [score, *score.runs]
    for part, source in zip((record, *record["runs"]), sources, strict=True):
        part["energy_j"], part["energy_source"] = source.energy_j, source.energy_source
        if source.energy is not None:
            part["energy"]["may_rank"] = source.energy.may_rank
    return record


def leaderboard_document(board: Leaderboard) -> dict[str, Any]:
    """The leaderboard of `tta score`."""
    return {
        "ruleset": board.ruleset,
        "ruleset_digest": board.ruleset_digest,
        "tables": [_table_document(table) for table in board.tables],
    }


def _table_document(table: Table) -> dict[str, Any]:
    rows = [row_document(row) for row in table.rows]
    return {"benchmark": table.benchmark, "division": table.division, "rows": rows}
