"""A row of `tta score` as a JSON document; the same that `tta derive` derives number by number. Pure."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from harness.scoring.score import Row, RunResult, Score
from harness.submission.billing import Bill


def row_document(row: Row) -> dict[str, Any]:
    """The row without its findings, which are `tta check`'s to tell."""
    shown = {name.name: getattr(row, name.name) for name in dataclasses.fields(row) if name.name != "findings"}
    shown["electricity_usd"] = None if row.electricity_usd is None else str(row.electricity_usd)
    bill = None if row.bill is None else _bill_document(row.bill)
    place = None if row.energy_place is None else dataclasses.asdict(row.energy_place)
    score = _score_document(row.score)
    return {**shown, "is_valid": row.is_ranked, "score": score, "bill": bill, "energy_place": place}


def _bill_document(bill: Bill) -> dict[str, Any]:
    """What is declared, and what that costs; times and money as text."""
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
        part["usd"] = None if part["usd"] is None else str(Decimal(part["usd"]))
    said: list[Score | RunResult] = [score, *score.runs]
    for part, source in zip((record, *record["runs"]), said, strict=True):
        part["energy_j"], part["energy_source"] = source.energy_j, source.energy_source
        if source.energy is not None:
            part["energy"]["may_rank"] = source.energy.may_rank
    return record
