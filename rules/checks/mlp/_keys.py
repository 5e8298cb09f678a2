"""What several checks of this family begin with."""

from __future__ import annotations

from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.mlperf.model import RoundBenchmark
from harness.ruleset.model import RuleSet


def benchmark_of(log: RunLog, ruleset: RuleSet) -> RoundBenchmark | None:
    """The benchmark that the log names; None if the ruleset does not have it, or is no round."""
    return compliance.benchmark_of(log, ruleset.round)[1] if ruleset.round is not None else None
