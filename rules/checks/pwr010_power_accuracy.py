"""A meter is too inaccurate, or does not say how accurate it is.

## What it does
Expects an external meter (class A) to declare its accuracy, every measuring meter to be accurate to 5 %
(`max_accuracy_pct` of the rules), and the 95 % half width of the whole to be at most 10 % of the joules
(`max_uncertainty_share`). A modelled energy is PWR011's.

## Why it matters
An energy that is known to a third ties with everybody's.

## Example
A class A meter with accuracy_pct = null.

## Instead
Declare what the maker or the calibration states, and use a meter that is good enough.

## Source
MLPerf power measurement rules: 5 %.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energyfaults import NOT_RANKED, voided
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.submission import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    limits = ruleset.energy
    for run in voided(result, ruleset, "accuracy_undeclared", "accuracy_poor", "uncertain"):
        for part in run.energy.parts:
            spec = run.node(part.node).specs.get(part.meter)
            if spec is None or spec.meter_class == "E":
                continue
            if spec.meter_class == "A" and spec.accuracy_pct is None:
                fault = f"{part.meter} is of class A and does not say how accurate it is"
            elif (spec.accuracy_pct or 0.0) > limits.max_accuracy_pct:
                fault = (
                    f"{part.meter} is accurate to {spec.accuracy_pct:g} %; {limits.max_accuracy_pct:g} % is the most"
                )
            else:
                continue
            yield Fault(run.path(part.node), None, f"{fault}; {NOT_RANKED}")
            break  # one a run
        joules, half_j = run.energy.joules, run.energy.uncertainty_j
        if "uncertain" in run.energy.void and run.energy.meter_class != "E" and joules and half_j is not None:
            yield Fault(
                run.path(),
                None,
                f"the energy is {joules:,.0f} J, give or take {half_j:,.0f} J ({half_j / joules:.0%}); "
                f"{limits.max_uncertainty_share:.0%} is the most; {NOT_RANKED}",
                {"joules": joules, "u95_j": half_j},
            )
