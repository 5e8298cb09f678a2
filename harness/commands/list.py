"""`tta list`: the benchmarks of a ruleset: target, data, runs, budget, and what the reference needed."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.base.processes import SOURCE_ROOT
from harness.base.text_table import aligned
from harness.commands._arguments import Parser, add_format, add_ruleset, as_path
from harness.errors import ExitStatus, UsageError, printable
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.summary import summarise
from harness.submission.result import find_results, read_result

_HEADER = (
    "workload", "suite", "target", "training examples", "test examples", "runs", "budget of a run", "resume",
    "reference", "seconds", "samples",
)  # fmt: skip
_LEFT = frozenset({0, 1, 2, 7, 8})
_NOTE = (
    "provisional: no reference runs have reached that target yet, and it may change.\n"
    "runs: in a result of the closed division, and of the open one. budget: the run ends without the target there.\n"
    "resume: whether an interrupted run may go on from its last checkpoint; its clock does not stop in between.\n"
    "seconds, samples: to target, median and mean of the runs of the reference result on that system, where there is "
    "one.\n"
    "`tta data prepare WORKLOAD --suite SUITE` prepares the data, `tta run WORKLOAD --suite SUITE` makes a result."
)


@dataclass(frozen=True, slots=True)
class Reference:
    """What the reference result needed on `system`: median seconds and mean samples to target."""

    system: str
    seconds: float | None
    samples: float | None


def add_arguments(parser: Parser) -> None:
    add_ruleset(parser, "the ruleset whose benchmarks are listed")
    add_format(parser)
    parser.add_argument(
        "--reference",
        type=as_path,
        metavar="DIR",
        help="the reference results (default: those in the source tree, where there is one)",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.ruleset, arguments.format, arguments.reference or _own_reference())


def run(ruleset_name: str, output_format: str, reference: Path | None) -> ExitStatus:
    """Print the benchmarks of the ruleset, each with what it needed in the results below `reference`.

    Raises:
        UsageError: there is no such ruleset, or it is an MLPerf round. SubmissionError: `reference` has no result.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    if ruleset.round is not None:
        name = printable(ruleset_name)
        raise UsageError(f"list: {name} is an MLPerf round; `tta explain --ruleset {name}` lists its benchmarks")
    references = {} if reference is None else _references(reference, ruleset)
    benchmarks = sorted(ruleset.benchmarks.values(), key=lambda rules: (rules.workload, rules.max_seconds))
    if output_format == "json":
        print(json.dumps({"ruleset": ruleset.version, "benchmarks": _records(benchmarks, references)}, indent=2))
    else:
        cells = [_cells(rules, references.get(rules.name)) for rules in benchmarks]
        print(f"{aligned(_HEADER, cells, _LEFT)}\n\n{_NOTE}")
    return ExitStatus.OK


def _own_reference() -> Path | None:
    """The folder of the reference results; None where only the package is installed."""
    folder = SOURCE_ROOT / "submissions" / "reference" / "results"
    return folder if folder.is_dir() else None


def _references(folder: Path, ruleset: RuleSet) -> dict[str, Reference]:
    """By benchmark; the first result of each."""
    found: dict[str, Reference] = {}
    for path in find_results(folder):
        result = read_result(path)
        rules = ruleset.benchmarks.get(result.benchmark or "")
        if rules is not None and rules.name not in found:
            row = summarise(result, rules, ruleset.timing, ruleset.energy)
            found[rules.name] = Reference(path.parent.name, row.median_s, row.mean_samples)
    return found


def _cells(rules: BenchmarkRules, reference: Reference | None) -> tuple[str, ...]:
    sign = ">=" if rules.metric.direction == "max" else "<="
    return (
        rules.workload,
        rules.suite,
        f"{rules.metric.name} {sign} {rules.target:g}{' (provisional)' * rules.provisional}",
        f"{rules.train_examples:,}",
        f"{rules.eval_examples:,}",
        f"{rules.num_runs}/{rules.open_runs}",
        f"{rules.max_seconds:,.0f} s",
        "yes" if rules.permits_resume else "no",
        "-" if reference is None else reference.system,
        "-" if reference is None or reference.seconds is None else f"{reference.seconds:,.1f}",
        "-" if reference is None or reference.samples is None else f"{reference.samples:,.0f}",
    )


def _records(benchmarks: Iterable[BenchmarkRules], references: dict[str, Reference]) -> list[dict[str, object]]:
    return [
        {
            "benchmark": rules.name,
            "workload": rules.workload,
            "suite": rules.suite,
            "metric": rules.metric.name,
            "direction": rules.metric.direction,
            "target": rules.target,
            "provisional": rules.provisional,
            "train_examples": rules.train_examples,
            "eval_examples": rules.eval_examples,
            "num_runs": rules.num_runs,
            "open_runs": rules.open_runs,
            "max_seconds": rules.max_seconds,
            "max_samples": rules.max_samples,
            "permits_resume": rules.permits_resume,
            "reference": dataclasses.asdict(references[rules.name]) if rules.name in references else None,
        }
        for rules in benchmarks
    ]
