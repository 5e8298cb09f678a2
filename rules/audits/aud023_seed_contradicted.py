"""The seed that the log states is not the one the program was started with.

## What it does
Compares the seeds in the log's lines with those in the launcher's and framework's output (`SEED=`, `--seed`, `seed:`).

## Why it matters
The seed on the command line is the one that was used. One that was written into the log later makes a copy look new.

## Example
`export SEED=25420` above, and `"key": "seed", "value": 25421` below.

## Instead
Log the seed that is used.

## Source
Launch scripts of published rounds print the seed.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import SignalRule, Trace, trace
from harness.log import events as key

SCOPE = "log"
LIMITS = ("min_seed",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    told = dict(run.text.seeds)
    drawn = {seed for seed in told if seed >= rule["min_seed"]}
    if run.seeds and drawn and not drawn & set(run.seeds):
        seed = min(drawn, key=lambda seed: told[seed])
        yield trace(
            run.path,
            run.log.line_of(key.SEED),
            f"the log's seed is {run.seeds[0]}; the program was started with {seed} (line {told[seed]})",
            1.0,
            logged=list(run.seeds),
            started=sorted(drawn),
        )
