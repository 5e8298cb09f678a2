"""More runs failed than the olympic mean leaves out.

## What it does
Counts the runs whose log the round does not accept. For most benchmarks one may fail, for 3D U-Net four; and a run may
only fail by not converging or not ending. A log from which no run can be read, such as an empty file or a link, may not
be there at all.

## Why it matters
The slowest run is left out of the mean, and a failed run counts as the slowest. MLCommons' package checker also lets
one log break the rules in any way, a log of noise for instance. A log that cannot be read has no time, and the mean of
the others may be better for it.

## Example
Two of ten runs of BERT end with the status aborted; one of ten has a learning rate that is not permitted.

## Instead
Run all of them again: the runs that count are not chosen.

## Source
MLPerf training rules, "Benchmark Results"; mlperf_logging, package_checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    read, reasons = {log.path for log in result.runs}, {part.path: part.message for part in result.unreadable}
    for path in (result.path / name for name in layout.log_names(result.files)):
        if path not in read:
            why = reasons.get(path, "it is not a regular file, or not named result_<number>.txt")
            yield Fault(str(path), None, f"no run can be read from this log: {why}")
    benchmark = ruleset.round.benchmark(result.benchmark)
    if benchmark is None:
        return
    runs = score.round_score(result.runs, ruleset.round).runs
    failed = [run.log.path.name for run in runs if not run.complies]
    if len(failed) > benchmark.drop:
        message = f"{len(failed)} of {len(runs)} runs failed ({', '.join(failed[:4])}); at most {benchmark.drop} may"
        yield Fault(str(result.path), None, message, {"failed": len(failed), "allowed": benchmark.drop})
        return
    for run in runs:
        kinds = score.rejections(run.log, ruleset.round)
        if broken := [kind for kind in kinds if kind not in score.UNFINISHED]:
            message = f"the run breaks the rules ({', '.join(broken)}); it may only fail by not reaching its target"
            yield Fault(str(run.log.path), None, message)
