"""The board for machines: one JSON document, and CSV with a line a result. Absent is null, or an empty cell."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from harness.board.index import Board, Entry
from harness.board.views import run_name
from harness.board.words import spreadsheet_cell
from harness.ruleset import BenchmarkRules
from harness.runresult import RunResult
from harness.scoring import Row, Table

FORMAT_VERSION = 1
COLUMNS = (
    "benchmark", "division", "band", "submitter", "system", "category", "submitted", "valid", "errors", "warnings",
    "seconds", "seconds_low", "seconds_high", "raw_seconds", "normalised_by", "samples", "energy_j", "energy_source",
    "usd", "runs", "runs_reached", "why_not", "place",
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
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _table(board: Board, table: Table) -> dict[str, Any]:
    return {
        "benchmark": table.benchmark,
        "division": table.division,
        **_target(board.ruleset.benchmarks[table.benchmark]),
        "rows": [_row(board.of(row), row) for row in table.rows],
    }


def _target(rules: BenchmarkRules) -> dict[str, Any]:
    metric = rules.metric
    return {
        "metric": {"name": metric.name, "unit": metric.unit, "direction": metric.direction},
        "target": rules.target,
        "num_runs": rules.num_runs,
        "drop": rules.drop,
        "without_training": dict(rules.baselines),
    }


def _row(entry: Entry, row: Row) -> dict[str, Any]:
    score = row.score
    return {
        "band": row.band,
        "submitter": row.submitter,
        "system": row.system,
        "category": row.category,
        "submitted": row.submitted,
        "place": entry.place,
        "page": f"results/{entry.slug}.html",
        "valid": row.is_ranked,
        "errors": row.num_errors,
        "warnings": row.num_warnings,
        "seconds": score.seconds,
        "interval": None if score.interval is None else list(score.interval),
        "raw_seconds": score.raw_seconds,
        "normalised_by": score.normalised_by,
        "samples": score.samples,
        "energy_j": score.energy_j,
        "energy_source": score.energy_source,
        "usd": None if score.usd is None else float(score.usd),
        "price": None if entry.price is None else entry.price.id,
        "why_not": score.why_not,
        "dropped": list(score.dropped),
        "runs": [_run(run) for run in score.runs],
        "findings": [
            {
                "code": finding.code,
                "name": finding.name,
                "severity": str(finding.severity),
                "place": finding.place,
                "message": finding.message,
                "waived": finding.waived,
            }
            for finding in row.findings
        ],
        "files": [{"path": item.target, "sha256": item.sha256, "bytes": item.num_bytes} for item in entry.downloads],
    }


def _run(run: RunResult) -> dict[str, Any]:
    return {
        "log": run_name(run),
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "why_not": run.why_not,
        "seconds": run.seconds,
        "samples": run.samples,
        "quality": run.quality,
        "energy_j": run.energy_j,
        "energy_source": run.energy_source,
        "usd": None if run.usd is None else float(run.usd),
        "ledger_s": dict(run.ledger),
        "evaluations": [[point.samples, point.seconds, point.quality] for point in run.evaluations],
    }


def board_csv(board: Board, tables: Iterable[Table] | None = None) -> bytes:
    """A line a result, with a head line; safe to open in a spreadsheet."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for table in board.leaderboard.tables if tables is None else tables:
        for row in table.rows:
            writer.writerow([_cell(value) for value in _line(board.of(row), table, row)])
    return text.getvalue().encode("utf-8", "backslashreplace")


def _line(entry: Entry, table: Table, row: Row) -> list[object]:
    score = row.score
    low, high = score.interval or (None, None)
    return [
        table.benchmark, table.division, row.band, row.submitter, row.system, row.category, row.submitted,
        "yes" if row.is_ranked else "no", row.num_errors, row.num_warnings, score.seconds, low, high, score.raw_seconds,
        score.normalised_by, score.samples, score.energy_j, score.energy_source, score.usd, len(score.runs),
        sum(run.seconds is not None for run in score.runs), score.why_not, entry.place,
    ]  # fmt: skip


def _cell(value: object) -> object:
    return "" if value is None else spreadsheet_cell(value)
