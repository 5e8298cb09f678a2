"""A module holds enough data to carry trained weights.

## What it does
Takes all constants (texts, bytes and numbers) and comments of the module together, compresses them (zlib), and compares
the size with 4,096 bytes. The module is parsed and never imported.

## Why it matters
Pretrained state is not permitted (docs/explanation/integrity.md): a result says how long training takes, from fresh
weights. A policy of `reinforcement_learning_mini` that reaches the target fits into a module of 23 kB, or of 6 kB.

## Example
`WEIGHTS = base64.b85decode("...")` with 20,000 characters.

## Instead
State the recipe, not what it found: initialise, and train. If the data are something else, such as a schedule or a
list of words, leave them: this is a warning, for a person to look at.

## Source
Calibrated on the 59 files of `workloads/`, which have up to 2,041 bytes; 4,600 weights, as many as that policy has,
have 4,537 with 8 bits each. Long files may have more without holding data: 204 of the 530 model files of
`transformers` do.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import small_file
from harness.errors import SubmissionError, printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.module import held_data
from harness.submission.result import Result

SCOPE = "result"
MAX_BYTES = 4096


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name, entry in result.code.items():
        if entry.sha256 is None or result.code_path is None:
            continue  # not a module that could have been run: PKG014 or PKG015
        path = result.code_path / name
        try:
            num_bytes, line = held_data(small_file(path))
        except (SubmissionError, ValueError) as error:
            why = printable(str(error).removeprefix(f"{path}: "))
            yield Fault(str(path), None, f"what data it holds is not known: {why}")
            continue
        if num_bytes > MAX_BYTES:
            yield Fault(
                str(path),
                line,
                f"constants and comments compress to {num_bytes:,} bytes; {MAX_BYTES:,} could be trained weights",
                {"num_bytes": num_bytes, "limit": MAX_BYTES},
            )
