"""A run computes faster than its system's own preflight found the devices to be.

## What it does
Multiplies the samples per second of a closed run, evaluations included, by the floating-point operations of training on
one sample, and compares this with what `tta_preflight` in the system description has for one device, times the devices:
the fastest product or convolution in the run's precision, or in fp32, in which parts of a network stay. On a host,
whose processes share its cores, more threads than the preflight had count in place of devices. The operations are in
the audit's rules (`flops` in `rules/audits/audit.yaml`): two for each multiply-add of a forward pass, without padding,
and three forward passes for a training step. Other benchmarks are not looked at, nor the open division, whose networks
differ, nor a preflight that says of many of its operations that their times vary: the machine was busy.

## Why it matters
Nothing trains faster than it multiplies. A run beyond the peak was made on another machine, in a lower precision, or
with less work than it states, or its times are not those of a clock.

## Example
25,000 images/s of 15.6 MFLOP each are 390 GFLOP/s; the preflight reached 120 GFLOP/s on both cores.

## Instead
Run `tta preflight` on the machine of the run while nothing else runs there, and submit its description.

## Source
Utilisation of a measured peak: docs/explanation/characterise.md. The mini suites of the reference reach 1 to 42 % of
it. Up to 1.5 times the peak is permitted: Winograd's convolutions need up to 2.25 times fewer multiplications than are
counted (Lavin and Gray, arXiv:1509.09308), and the preflight's may not have used them as well as the network's.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.errors import printable
from harness.log import keys
from harness.submission.preflight import CarriedPreflight

SCOPE = "result"
LIMITS = ("max_of_peak", "max_varying_fraction")
TRAINING_FACTOR = 3  # forward passes of a training step, as `tta profile` counts


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    preflight = subject.preflight
    if preflight is None or preflight.varying_fraction > rule["max_varying_fraction"]:
        return
    beyond = []
    for run in subject.runs:
        reached, peak = _reached(run), _peak(subject, preflight, run)
        if reached is not None and peak is not None and reached > rule["max_of_peak"] * peak:
            beyond.append((reached / peak, reached, peak, run))
    if beyond:
        ratio, reached, peak, run = max(beyond, key=lambda item: item[0])
        assert run.final is not None
        precision = printable(run.log.field(keys.TTA_CONFIG, "precision"), 20)
        yield evidence(
            run.path,
            run.final.line,
            f"training does {reached:.3g} FLOP/s, {ratio:.2f} times the {peak:.3g} that the system's own preflight "
            f"reached in {precision}; {rule['max_of_peak']:g} times can be (in {len(beyond)} of "
            f"{len(subject.runs)} runs)",
            1 - rule["max_of_peak"] / ratio,
            flop_per_s=reached,
            peak_flop_per_s=peak,
            runs=len(beyond),
        )


def _reached(run: RunFacts) -> float | None:
    """FLOP/s of a run's training; None where the operations of a sample, or the samples, are not known."""
    flops = run.flops.get(str(run.log.value(keys.SUBMISSION_BENCHMARK)))
    if flops is None or run.speed is None or run.log.value(keys.SUBMISSION_DIVISION) != "closed":
        return None
    speed, unit = run.speed
    return TRAINING_FACTOR * flops * speed if unit == "samples" else None


def _peak(subject: Subject, preflight: CarriedPreflight, run: RunFacts) -> float | None:
    """FLOP/s of all devices of the system in the run's precision; None where that is not known."""
    each = preflight.device_peak(str(run.log.field(keys.TTA_CONFIG, "precision")))
    num_nodes = subject.result.num_nodes
    if each is None or num_nodes is None:
        return None
    if preflight.has_accelerators:
        return each * subject.num_accelerators if subject.num_accelerators else None
    if preflight.num_threads is None:
        return None
    world = run.log.value(keys.TTA_WORLD)
    ranks = [rank.get("num_threads") for rank in world if isinstance(rank, dict)] if isinstance(world, list) else []
    num_threads = sum(finite_number(number) or 0.0 for number in ranks)
    return each * preflight.num_devices * max(num_nodes, num_threads / preflight.num_threads)
