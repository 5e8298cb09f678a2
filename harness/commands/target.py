"""`tta target`: where the target should be, and its convergence points, from full-curve reference runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base.text_table import aligned
from harness.commands._arguments import Parser, add_format, add_results
from harness.errors import ExitStatus, UsageError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.scoring.run_result import RunResult, run_result
from harness.scoring.target import MAX_FALLEN, Candidate, Curve, Proposal, Stability, propose_target, stability
from harness.scoring.timeline import crossing
from harness.submission.result import find_results, read_result

FULL_CURVE = "full_curve"
_HEADER = ("target", "seeds", "samples", "variation", "of the curve", "0.001 more", "1 % of the way more", "")


@dataclass(frozen=True, slots=True)
class _Group:
    """The reference runs at one global batch size, by seed."""

    batch_size: int
    runs: tuple[RunResult, ...]
    proposal: Proposal
    samples: tuple[int | None, ...]  # to the present target of the rules
    stability: Stability  # of the present target

    @property
    def missed(self) -> list[RunResult]:
        return [run for run, samples in zip(self.runs, self.samples, strict=True) if samples is None]

    @property
    def points(self) -> list[int]:
        return [samples for samples in self.samples if samples is not None]


def add_arguments(parser: Parser) -> None:
    add_results(parser, "folders that `tta run --full-curve` wrote")
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.paths, arguments.ruleset, arguments.format)


def run(paths: list[Path], ruleset_name: str, output_format: str) -> ExitStatus:
    """Print candidates, the recommendation and `reference_convergence` for the rules, for every batch size in `paths`.

    Logs that are not full-length runs are left out and named on standard error.

    Returns:
        FINDINGS if a reference run missed the present target, or no target can be recommended.

    Raises:
        UsageError: there is no full-length run, or they are of several benchmarks or of one that the ruleset lacks.
        LogError: a run has a quality that is not finite, or no evaluation, or names no batch size.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    logs = _full_curves(paths)
    names = {printable(log.value(keys.SUBMISSION_BENCHMARK)) for log in logs}
    name = names.pop()
    if names:
        raise UsageError(f"target: runs of several benchmarks: {', '.join(sorted([name, *names]))}")
    if name not in ruleset.benchmarks:
        raise UsageError(f"target: ruleset {ruleset.version} has no benchmark {name!r}")
    rules = ruleset.benchmarks[name]
    groups = _groups(logs, rules)
    is_json = output_format == "json"
    print(json.dumps(_document(rules, groups), allow_nan=False, indent=2) if is_json else _text(rules, groups))
    is_complete = all(group.proposal.recommended is not None and not group.missed for group in groups)
    return ExitStatus.OK if is_complete else ExitStatus.FINDINGS


def _full_curves(paths: list[Path]) -> list[RunLog]:
    logs: list[RunLog] = []
    for path in dict.fromkeys(found for place in paths for found in find_results(place)):
        result = read_result(path)
        for unreadable in result.unreadable:
            print(f"tta: {printable(unreadable.path)}: left out: {printable(unreadable.message)}", file=sys.stderr)
        for log in result.runs:
            stop = log.first(keys.RUN_STOP)
            if stop is not None and stop.metadata.get("reason") == FULL_CURVE:
                logs.append(log)
            else:
                print(f"tta: {printable(log.path)}: left out: not a run over the full curve", file=sys.stderr)
    if not logs:
        raise UsageError("target: there are no runs over the full curve here; `tta run --full-curve` makes them")
    return logs


def _groups(logs: list[RunLog], rules: BenchmarkRules) -> list[_Group]:
    by_batch_size: dict[int, list[RunResult]] = {}
    for log in logs:
        batch_size = log.value(keys.GLOBAL_BATCH_SIZE)
        found = run_result(log, rules)
        if not isinstance(batch_size, int) or not found.evaluations:
            missing = "evaluation" if isinstance(batch_size, int) else "global_batch_size"
            raise UsageError(f"target: {printable(log.path)}: has no {missing}")
        by_batch_size.setdefault(batch_size, []).append(found)
    return [_group(batch_size, runs, rules) for batch_size, runs in sorted(by_batch_size.items())]


def _group(batch_size: int, runs: list[RunResult], rules: BenchmarkRules) -> _Group:
    runs.sort(key=lambda run: (run.seed is None, run.seed or 0, run.path))
    curves: list[Curve] = [[(item.samples, item.quality) for item in run.evaluations] for run in runs]
    confirm = rules.confirm_evaluations
    return _Group(
        batch_size=batch_size,
        runs=tuple(runs),
        proposal=propose_target(curves, rules.metric, confirm),
        samples=tuple(
            None if (found := crossing(curve, rules.metric, rules.target, confirm)) is None else round(found)
            for curve in curves
        ),
        stability=stability(curves, rules.metric, rules.target, confirm),
    )


def _text(rules: BenchmarkRules, groups: list[_Group]) -> str:
    parts = [f"{rules.name}: {rules.metric.name}, present target {rules.target:g}"]
    for group in groups:
        parts.append(f"global batch size {group.batch_size}, {len(group.runs)} runs")
        lines = [_cells(candidate, group.proposal) for candidate in group.proposal.candidates]
        parts.extend([aligned(_HEADER, lines)] if lines else [])
        chosen = group.proposal.recommended
        parts.append(
            "\n".join(
                [
                    "no target can be recommended:" if chosen is None else f"recommended target: {chosen:g}",
                    *(f"  {reason}" for reason in group.proposal.reasons),
                ]
            )
        )
        parts.append(_stability(group.stability))
    parts.append(_yaml(rules, groups))
    return "\n\n".join(parts)


def _stability(found: Stability) -> str:
    """What the runs say of the present target."""
    text = (
        f"the present target: {found.num_reached} of {found.num_seeds} seeds reach it, so up to {found.miss_bound:.0%} "
        "of all seeds may miss it (95 %);\n"
        f"the next evaluation is below it in {found.num_fallen} of {found.num_followed} runs"
    )
    if found.needs_confirmation:
        text += f", more than {MAX_FALLEN:.0%}: it needs confirm_evaluations"
    return text


def _cells(candidate: Candidate, proposal: Proposal) -> tuple[str, ...]:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return (
        f"{candidate.target:g}",
        f"{candidate.num_reached}/{candidate.num_seeds}",
        shown(candidate.mean_samples, ",.0f"),
        shown(candidate.variation, ".1%"),
        shown(candidate.max_share, ".0%"),
        shown(candidate.slope, "+,.0f"),
        shown(candidate.growth, "+.1%"),
        "<" if candidate.target == proposal.recommended else "",
    )


def _yaml(rules: BenchmarkRules, groups: list[_Group]) -> str:
    """The lines for the rules file, with the runs that missed the target as comments."""
    empty = "" if any(group.points for group in groups) else " []"
    lines = [
        f"# samples to {rules.metric.name} {rules.target:g}, interpolated between evaluations, by seed",
        f"reference_convergence:{empty}",
    ]
    for group in groups:
        lines += [f"  # missed the target: seed {run.seed}, {printable(run.path)}" for run in group.missed]
        if group.points:
            lines.append(f"  - global_batch_size: {group.batch_size}")
            lines.append(f"    samples_to_target: {group.points}")
    return "\n".join(lines)


def _document(rules: BenchmarkRules, groups: list[_Group]) -> Mapping[str, Any]:
    return {
        "benchmark": rules.name,
        "metric": rules.metric.name,
        "target": rules.target,
        "batch_sizes": [
            {
                "global_batch_size": group.batch_size,
                "candidates": [dataclasses.asdict(candidate) for candidate in group.proposal.candidates],
                "recommended": group.proposal.recommended,
                "reasons": list(group.proposal.reasons),
                "seeds": [run.seed for run in group.runs],
                "samples_to_target": list(group.samples),
                "missed": [run.path for run in group.missed],
                "stability": {
                    **dataclasses.asdict(group.stability),
                    "needs_confirmation": group.stability.needs_confirmation,
                },
            }
            for group in groups
        ],
    }
