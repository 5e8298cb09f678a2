"""By its preflight, a machine is far slower or faster than others that are described alike.

## What it does
Compares the rates of each preflight in a system description with their medians over the preflights of all results with
as many devices, the same accelerators, and the same processors. What counts is the middle one of a machine's ratios,
since single rates vary; the disk is left out, and so are preflights that say of many of their operations that their
times vary: the machine was busy. A preflight that several results carry counts once.

## Why it matters
A slow machine explains a slow result: it was throttled, shared, or set up badly. A fast one may not be the machine that
is described.

## Example
Of seven machines with eight H100, one is 1.4 times slower than the median in the middle one of its 31 operations.

## Instead
Look for what slowed the machine down (`tta preflight` names what it sees) and run again, or describe the machine that
was used.

## Source
One accelerator's name has several clocks, memories and limits of power. How much preflights of one machine differ:
docs/explanation/characterise.md, "What a preflight is used for".
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from harness.checker.audit.facts import RunDigest, Tree, grouped
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.submission.preflight import DISK

SCOPE = "tree"
LIMITS = ("min_machines", "max_slower", "max_faster", "max_varying_fraction")


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    first: dict[str, RunDigest] = {}
    for run in tree.runs:
        if run.preflight is not None and run.preflight.varying_fraction <= rule["max_varying_fraction"]:
            first.setdefault(run.preflight.digest, run)
    for group in grouped(first.values(), "preflight_kind"):
        rates = [run.preflight.rates for run in group if run.preflight is not None]
        medians = _medians(rates)
        if len(group) < rule["min_machines"] or not medians:
            continue
        for run, own in zip(group, rates, strict=True):
            ratio = statistics.median(own[name] / median for name, median in medians.items())
            if not 1 / rule["max_slower"] <= ratio <= rule["max_faster"]:
                words = f"{1 / ratio:.2f} times slower" if ratio < 1 else f"{ratio:.2f} times faster"
                yield evidence(
                    run.path,
                    None,
                    f"by its preflight the machine is {words} than the median of {len(group)} machines that are "
                    f"described alike, in the middle one of {len(medians)} operations",
                    1 - min(ratio, 1 / ratio),
                    ratio=ratio,
                    machines=len(group),
                )


def _medians(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each operation that all machines have."""
    names = [name for name in rates[0] if name != DISK and all(name in one for one in rates)]
    return {name: statistics.median(one[name] for one in rates) for name in names}
