"""A meter is not accurate enough, or does not declare its accuracy.

## What it does
Expects an external meter (class A) to declare its accuracy, every measuring meter to be accurate to 5 %
(`max_accuracy_pct` of the rules), and the 95 % half width of the total to be at most 10 % of the joules
(`max_uncertainty_share`). Modelled energy is the subject of PWR011.

## Why it matters
An energy known only to within a third ties with every other.

## Example
A class A meter with accuracy_pct = null.

## Instead
Declare what the manufacturer or the calibration states, and use a meter that is good enough. Where a counter's readings
before and after the run are too far from its edges, read it more often: `--meter-period`.

## Source
MLPerf power measurement rules: 5 %.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, Metered, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    limits = ruleset.energy
    for run in voided(result, ruleset, VoidReason.ACCURACY_UNDECLARED, VoidReason.ACCURACY_POOR, VoidReason.UNCERTAIN):
        fault = next(_faults(run, limits.max_accuracy_pct), None)
        if fault is not None:  # one per run
            yield fault
        if VoidReason.UNCERTAIN in run.energy.void and run.energy.meter_class != "E":
            joules, half_j = run.energy.joules, run.energy.uncertainty_j
            yield Fault(
                run.path(),
                None,
                f"the energy is {joules:,.0f} J ± {half_j:,.0f} J; "
                f"the limit is ± {limits.max_uncertainty_share:.0%}; {NOT_RANKED}",
                {"joules": joules, "u95_j": half_j},
            )


def _faults(run: Metered, most_pct: float) -> Iterator[Fault]:
    for part in run.energy.parts:
        if part.meter_class == "E":
            continue  # a model, or a constant without a declared meter
        accuracy_pct = run.node(part.node).specs[part.meter].accuracy_pct
        if accuracy_pct is not None and accuracy_pct > most_pct:
            fault = f"{part.meter} is accurate to {accuracy_pct:g} %; the limit is {most_pct:g} %"
        elif accuracy_pct is None and part.meter_class == "A":
            fault = f"{part.meter} is of class A and does not declare its accuracy"
        else:
            continue
        yield Fault(run.path(part.node), None, f"{fault}; {NOT_RANKED}")
