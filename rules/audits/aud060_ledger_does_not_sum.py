"""The parts of the clock ledger do not add up to the run.

## What it does
Adds up the phases of `tta_ledger` and compares the sum with the time of the run, as the ledger states it and as its
lines give it.

## Why it matters
Every second belongs to a phase. Seconds that were subtracted from the total are still in a phase, or in none.

## Example
data 0.5 s, train 6.0 s, eval 1.2 s, other 0 s; run 6.1 s.

## Instead
Leave the ledger as the referee writes it.

## Source
The clock ledger: its parts add up to the whole within 1 %; harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
LIMITS = ("max_relative", "max_s")
PHASES = ("data_s", "train_s", "eval_s", "checkpoint_s", "other_s")
IN_SOME = ("interrupted_s",)  # of a run that went on after an interruption


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    event = run.log.first(keys.TTA_LEDGER)
    if event is None or not isinstance(event.value, dict):
        return
    parts = [finite_number(event.value.get(phase)) for phase in PHASES]
    parts += [finite_number(event.value[phase]) for phase in IN_SOME if phase in event.value]
    if any(part is None for part in parts):
        return
    total = sum(part for part in parts if part is not None)
    for whole, words in (
        (finite_number(event.value.get("run_s")), "its run_s is"),
        (run.run_s, "by the run's lines it took"),
    ):
        if whole is not None and abs(total - whole) > max(rule["max_s"], rule["max_relative"] * whole):
            yield evidence(
                run.path,
                event.lineno,
                f"the phases of tta_ledger sum to {total:.3f} s; {words} {whole:.3f} s",
                abs(total - whole) / max(total, whole),
                total_s=total,
                whole_s=whole,
            )
            return
