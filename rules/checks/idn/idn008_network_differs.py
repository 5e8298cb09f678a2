"""A run of the closed division trained another network than the one of the rules.

## What it does
Compares `network` in `tta_replay`, the names, types and shapes of the parameters and saved buffers and which of
them are trained, with `network_digest` of the benchmark. Does not ask where a run has a reimplementation: its layers
may have other names, and EQV002 asks whether it computes the same.

## Why it matters
Two networks of one name need not be one: a width, a bias or a layer that is not trained changes what a sample costs
and how many samples are needed. In the closed division all results are of one network.

## Example
`tta_replay` states a network of 77,946 parameters with the digest 3f0c…; the rules name f494….

## Instead
Train the network of the workload as it was released, or submit to the open division.

## Source
MLPerf training rules, "Model": the closed division uses the reference's model.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.replay import replay_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or rules.network_digest is None or log.value(keys.SUBMISSION_DIVISION) != "closed":
        return
    if log.first(keys.TTA_EQUIVALENT) is not None or (replay := replay_of(log)) is None or replay.network is None:
        return
    digest = replay.network.parameters
    if digest != rules.network_digest:
        message = (
            f"the network has {replay.network.num_parameters:,} parameters and the digest {digest[:12]}…; "
            f"the rules name {rules.network_digest[:12]}…"
        )
        yield Fault(str(log.path), log.line_of(keys.TTA_REPLAY), message, {"digest": digest})
