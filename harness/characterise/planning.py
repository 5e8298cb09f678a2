"""The plan of a benchmark as it is measured: in the division that permits any batch size and precision."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import UsageError
from harness.ruleset.model import RuleSet
from harness.run.benchmark import OPEN, Request, shared_plan
from harness.run.plan import Plan


def planned(request: Request, batch_size: int | None, ruleset: RuleSet) -> Plan:
    """The plan of runs as they would be. batch_size: None: the rules'.

    Raises:
        UsageError: the benchmark does not exist, or does not take the batch size, the precision, or the devices.
        DataError: its data are not available.
    """
    rules = ruleset.benchmark(request.workload, request.suite)
    if OPEN not in ruleset.divisions:
        raise UsageError(f"ruleset {ruleset.version}: has no {OPEN} division, which permits any batch size")
    overrides = () if batch_size is None else (f"global_batch_size={batch_size}",)
    return shared_plan(replace(request, division=OPEN, overrides=overrides), ruleset, rules)
