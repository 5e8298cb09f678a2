"""Every number that is shown of a result in an MLPerf round, with its formula and the lines it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.board.derive.formulas import Formula, kind_of
from harness.board.derive.numbers import Derived, Place, numbers
from harness.board.derive.stated import Stated
from harness.board.mlperf_table import RoundRow, row_document
from harness.findings import Finding
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf.score import RoundRun
from harness.submission import claim, layout
from harness.submission.result import Result

_CLAIMED = "round.claimed_factor"  # stated, not derived
_KINDS = {
    "round.runs[*].seconds": (
        "s",
        "window",
        "from the last `run_start` before the first `run_stop` to the latter",
    ),
    "round.runs[*].to_target": (
        "epochs or samples",
        "evaluations",
        "epochs or samples at the last evaluation before `run_stop` (for Stable Diffusion, the first that passes) of a "
        "run that ended with success",
    ),
    "round.raw_seconds": (
        "s",
        "windows",
        "mean of the seconds of the compliant runs without the `drop` fastest and slowest; a run that does not comply "
        "counts as slowest",
    ),
    "round.raw_minutes": ("min", "windows", "raw_seconds / 60"),
    "round.seconds": ("s", "windows", "raw_seconds times factor"),
    "round.minutes": ("min", "windows", "raw_seconds times factor, / 60"),
    "round.factor": (
        "",
        "convergence",
        "the reference's mean / the runs' mean, if that is above 1 and the result passes; otherwise 1",
    ),
    "round.interval[*]": (
        "s",
        "windows",
        "seconds × exp(±t s), with Student's t at 97.5 % and s the error of the logarithm: the epochs or samples to "
        "target scatter as those of these runs and of the reference's together, the seconds for each as the runs do",
    ),
    "round.ranks[*]": (
        "",
        "windows",
        "1 + the valid results of benchmark, division and category that are significantly faster, and their number "
        "less those that are significantly slower, by Welch's t-test on logarithms, all pairs at once (Holm)",
    ),
    "round.global_batch_size": ("samples", "batch", "the last value in each log, the same in all"),
    "round.num_errors": ("", "findings", "findings of severity error that are not waived"),
}
_JOULES = {
    "published_j": "for each node the mean power of all that was logged, from `power_measurement_start` to the last "
    "reading, times the seconds of the run; plus the switches' estimate times the seconds; times conversion_eff",
    "rule_j": "for each node the sum of each reading times the time since the previous one, as far as it is within the "
    "run; plus the switches' estimate times the seconds; times conversion_eff",
    "drawn_j": "sum over the meters in use of their joules from `run_start` to `run_stop`: counters by difference, "
    "power by the trapezoidal rule, both interpolated to the edges; plus the switches' estimate times the seconds",
}
for _name, _words in _JOULES.items():
    _KINDS[f"round.runs[*].energy.{_name}"] = ("J", "power", _words)
    _KINDS[f"round.energy.{_name}"] = (
        "J",
        "power",
        f"mean of {_name} of the runs that raw_seconds keeps, times factor",
    )
_VERDICT = {
    "reference_mean": ("epochs or samples", "mean of the reference's runs without the extremes, interpolated"),
    "acceptable_mean": ("epochs or samples", "the smallest mean that Student's t-test (p = 0.05) accepts"),
    "mean": ("epochs or samples", "mean of the runs' to_target without the extremes"),
    "max_speedup": ("", "reference_mean / acceptable_mean"),
}
for _by, _words in (
    ("code", "with the spread as MLCommons' program defines it"),
    ("rules", "with the spread as the text of the rules defines it"),
):
    for _name, (_unit, _formula) in _VERDICT.items():
        _KINDS[f"round.convergence.{_by}.{_name}"] = (_unit, "convergence", f"{_formula}; {_words}")
FORMULAS = {name: Formula((name,), unit, places, words) for name, (unit, places, words) in _KINDS.items()}
_EVALUATIONS = ("eval_accuracy", "eval_error")


def derive_round(row: RoundRow, findings: Sequence[Finding], rules_path: str) -> list[Derived]:
    """Every number of the result's row in `tta score`. rules_path: the round's file for the benchmark."""
    found = []
    shown = row_document(row)
    for name, value in numbers(shown, "round"):
        formula = FORMULAS.get(kind_of(name))
        if name != _CLAIMED:
            places = () if formula is None else tuple(_places(row, findings, rules_path, formula, name))
            found.append(Derived(name, value, formula, places))
    return found


def stated_in_round(result: Result, row: RoundRow) -> list[Stated]:
    """The factor in a result's scaling.json, compared with the one that follows from the logs."""
    if row.claimed is None:
        return []
    factor = None if row.score.raw_seconds is None else row.score.factor
    path = str(result.path / layout.SCALING_NAME)
    name = f"{layout.SCALING_NAME}: {claim.FACTOR_NAME}"
    return [Stated(name, row.claimed, factor, path, None, (1e-6, 0.0), "the result has no score")]


def _places(
    row: RoundRow, findings: Sequence[Finding], rules_path: str, formula: Formula, name: str
) -> Iterator[Place]:
    runs: Sequence[RoundRun] = row.score.runs
    if "runs[" in name:
        index = int(name.partition("[")[2].partition("]")[0])
        runs = runs[index : index + 1]
    match formula.places:
        case "window" | "windows":
            yield from (_lines(run.log, keys.RUN_START, keys.RUN_STOP) for run in runs)
        case "evaluations":
            yield from (_lines(run.log, *_EVALUATIONS) for run in runs)
        case "power":
            for run in runs:
                yield _lines(run.log, keys.RUN_START, keys.RUN_STOP)
                yield from (Place(str(node.path), (), "power_reading") for node in run.log.nodes)
        case "batch":
            yield from (_lines(run.log, keys.GLOBAL_BATCH_SIZE) for run in runs)
        case "findings":
            for finding in findings:
                yield Place(finding.path, () if finding.line is None else (finding.line,), finding.code)
        case _:
            yield Place(str(Path(rules_path)), (), "reference convergence points")
            yield from (_lines(run.log, *_EVALUATIONS, keys.GLOBAL_BATCH_SIZE) for run in runs)


def _lines(log: RunLog, *names: str) -> Place:
    lines = sorted(event.lineno for name in names for event in log.all(name))
    return Place(str(log.path), tuple(lines), ", ".join(names))
