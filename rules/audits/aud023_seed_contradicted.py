"""The logged seed is not the one that the program was started with.

## What it does
Compares the seeds in the lines of the log with those in the output of the launcher and framework (`SEED=`, `--seed`,
`seed:`).

## Why it matters
The seed on the command line is the one that was used. A seed written into the log later makes a copy look new.

## Example
`export SEED=25420` further up, and `"key": "seed", "value": 25421` further down.

## Instead
Log the seed that is used.

## Source
Launch scripts of published rounds print the seed.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
LIMITS = ("min_seed",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    printed = dict(run.text.seeds)
    drawn = {seed for seed in printed if seed >= rule["min_seed"]}
    if run.seeds and drawn and not drawn & set(run.seeds):
        seed = min(drawn, key=lambda seed: printed[seed])
        yield evidence(
            run.path,
            run.log.line_of(keys.SEED),
            f"the logged seed is {run.seeds[0]}; the program was started with {seed} (line {printed[seed]})",
            1.0,
            logged=list(run.seeds),
            started=sorted(drawn),
        )
