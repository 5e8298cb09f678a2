"""`tta baseline`: what solutions without training reach; a target must be where they clearly fail."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.commands._arguments import Parser, add_benchmark, add_format
from harness.errors import ExitStatus, UsageError
from harness.ruleset import catalog, load
from harness.run import data_cache, workloads


def add_arguments(parser: Parser) -> None:
    add_benchmark(parser)
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(
        arguments.workload, arguments.suite, arguments.ruleset, arguments.data, arguments.source, arguments.format
    )


def run(
    workload_name: str, suite: str, ruleset_name: str, cache: Path | None, source: Path | None, output_format: str
) -> ExitStatus:
    """Measure the workload's baselines and print them with the target.

    Returns:
        FINDINGS if one of them reaches the target.

    Raises:
        UsageError: the workload has no baselines.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(ruleset_name), ruleset_name)
    rules = ruleset.benchmark(workload_name, suite)
    workload = workloads.workload(workload_name)
    measure = getattr(workload, "baselines", None)
    if measure is None:
        raise UsageError(f"{workload_name}: this workload has no baselines to measure")
    data = data_cache.prepare(workload, suite, cache or data_cache.default_cache(), source)
    found: dict[str, float] = measure(suite, data.path, data.labels)
    metric = rules.metric
    if output_format == "json":
        print(json.dumps({"benchmark": rules.name, "metric": metric.name, "target": rules.target, "baselines": found}))
    else:
        width = max(len(name) for name in (*found, "target"))
        for name, value in sorted(found.items(), key=lambda item: item[1], reverse=metric.direction == "max"):
            mark = "  reaches the target" if metric.is_reached(value, rules.target) else ""
            print(f"{name:<{width}}  {value:.4f}{mark}")
        print(f"{'target':<{width}}  {rules.target:.4f}  ({metric.name}, {metric.direction})")
    is_beaten = any(metric.is_reached(value, rules.target) for value in found.values())
    return ExitStatus.FINDINGS if is_beaten else ExitStatus.OK
