"""The pace of a run from what was measured apart from any: a profile, a sweep, or a prediction for more devices. Pure.

A run's pace has its evaluations in it, so those of the profile are added, as often as the rules have them. What a
profile cannot show is how runs differ from each other on one machine; its interval is that of its steps, and of how
these differed between the parts of a few seconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.base import stats
from harness.base.files import small_file
from harness.base.strict_json import loads
from harness.base.values import finite_number, is_whole, mapping_or_empty
from harness.characterise import power as powers
from harness.characterise.cells import REAL, Row
from harness.characterise.power import Drawn
from harness.characterise.preflight import Preflight
from harness.characterise.profile import FORMAT_VERSION, KIND, Profile
from harness.characterise.summaries import DATA, OPTIMIZER, PHASES, Summary
from harness.characterise.sweep import Sweep
from harness.errors import InputError, UsageError, printable
from harness.ruleset.model import BenchmarkRules
from harness.scoring.estimate import Pace, System, described_system

# Of a normal sample: the standard deviation over the median absolute deviation, and the standard error of the median
# over that of the mean.
_MAD_TO_DEVIATION, _MEDIAN_ERROR = 1.4826, 1.2533
# Of a layer that several devices normalise together, in forward and backward: torch's SyncBatchNorm, which is for
# accelerators, exchanges once in each; `workloads.batch_norm`, mean and variance one after the other.
_SUMS_OF_ACCELERATORS, _SUMS_OF_HOSTS = 2, 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration whose pace is known. note: where it was measured, in words; empty for a pace that was given.

    is_predicted: the pace was computed and not measured. num_devices: None where it is not known.
    """

    batch_size: int
    pace: Pace | None
    num_devices: int | None = None
    precision: str | None = None
    note: str = ""
    is_predicted: bool = False


def of_profile(profile: Profile, rules: BenchmarkRules, source: str) -> Candidate:
    """The pace of a profile: its steps without hooks, and its evaluations. source: the file's name.

    Raises:
        UsageError: it is of another benchmark.
    """
    _check(profile.benchmark, rules, source)
    evaluation_s = Summary(**profile.measured["evaluation"]["seconds"]).median
    measured = profile.measured
    pace = Pace(
        sample_s=profile.step_s / profile.batch_size + evaluation_s / rules.eval_every_samples,
        fixed_s=float(measured["load_s"]),
        init_s=float(measured["prepare_s"]) + float(measured["initialise_s"]),
        errors=(*_errors(profile.summary("seconds")), *_drift(profile.parts_s)),
        system=_system(profile.system, profile.num_devices),
    )
    pace = _powered(pace, profile.power, profile.system)
    note = (
        f"pace: {pace.sample_s * 1e3:.6g} ms per sample, of {profile.num_steps} steps of {profile.batch_size} samples "
        f"on {_devices(profile.num_devices)} and an evaluation of {evaluation_s:.3g} s every "
        f"{rules.eval_every_samples:,} samples, and {pace.fixed_s:.3g} s to open the data: {printable(source)}, of "
        f"{_machine(pace)}; its interval is that of the steps in a few seconds, and not of runs{_power_words(pace)}"
    )
    return Candidate(profile.batch_size, pace, profile.num_devices, profile.precision, note)


def of_sweep(sweep: Sweep, rules: BenchmarkRules, source: str) -> list[Candidate]:
    """The paces of a sweep's cells with real data. Evaluations and opening the data are not in them.

    Raises:
        UsageError: it is of another benchmark, or none of its cells was measured with real data.
    """
    _check(sweep.benchmark, rules, source)
    rows = [row for row in sweep.rows if row.status == "ok" and row.cell.data == REAL]
    if not rows:
        raise UsageError(f"{printable(source)}: no cell was measured with real data, so there is no pace")
    return [_of_row(row, sweep, source) for row in rows]


def _of_row(row: Row, sweep: Sweep, source: str) -> Candidate:
    cell = row.cell
    pace = Pace(1 / row.samples_per_s, errors=_errors(row.step), system=_system(sweep.system, cell.num_devices))
    pace = _powered(pace, row.power, sweep.system)
    note = (
        f"pace: {pace.sample_s * 1e3:.6g} ms per sample, of {row.step.num} steps of {cell.batch_size} samples in "
        f"{cell.precision} on {_devices(cell.num_devices)}: {printable(source)}, of {_machine(pace)}; evaluations, "
        f"opening the data and initialisation are not in it{_power_words(pace)}"
    )
    return Candidate(cell.batch_size, pace, cell.num_devices, cell.precision, note)


def predicted(
    profile: Profile, preflight: Preflight, rules: BenchmarkRules, num_devices: int, source: str
) -> Candidate:
    """The pace on more devices: t(n) = compute / n + optimizer + communication.

    Raises:
        UsageError: the profile is of several devices, or the preflight has no all-reduce, or is of another machine.
    """
    if profile.num_devices != 1:
        raise UsageError(f"{printable(source)}: is of {profile.num_devices} devices; a prediction needs that of one")
    if profile.batch_size % num_devices:
        raise UsageError(
            f"--devices {num_devices}: the profile's batch of {profile.batch_size} cannot be shared by them"
        )
    own, other = (_system(system, 1) for system in (profile.system, preflight.system))
    if (own.accelerator, own.processor) != (other.accelerator, other.processor):
        raise UsageError(f"{printable(source)}: was measured on {_words(own)}, and the preflight on {_words(other)}")
    step_s = predicted_step_s(profile, preflight, num_devices)
    evaluation_s = Summary(**profile.measured["evaluation"]["seconds"]).median / num_devices
    base = of_profile(profile, rules, source)
    assert base.pace is not None
    sample_s = step_s / profile.batch_size + evaluation_s / rules.eval_every_samples
    system = _system(profile.system, num_devices)
    pace = replace(base.pace, sample_s=sample_s, system=system, power=None, no_power="a prediction has no power")
    note = (
        f"predicted, not measured: a step of {step_s:.3g} s on {num_devices} devices = what one device computes, "
        f"divided by {num_devices}, + its optimizer + all-reduces of its gradients and of its batch normalisation's "
        "sums at the preflight's bus bandwidth; "
        f"{base.note}"
    )
    return replace(base, pace=pace, num_devices=num_devices, note=note, is_predicted=True)


def predicted_step_s(profile: Profile, preflight: Preflight, num_devices: int) -> float:
    """Seconds of a step of the same global batch on more devices: t(n) = compute / n + optimizer + communication.

    The optimizer updates all weights on every device. Communication is that of the gradients, none of which is taken to
    be hidden behind backward, and the small sums of batch normalisation: what one device normalises together, several
    normalise together. Preparing data is divided as computing is.

    Raises:
        UsageError: the preflight has no all-reduce.
    """
    optimizer_s = profile.phase(OPTIMIZER).median
    others_s = sum(profile.phase(name).median for name in PHASES) - optimizer_s
    scale = profile.step_s / (optimizer_s + others_s)  # without the hooks
    if num_devices == 1:
        return profile.step_s
    network = profile.measured["network"]
    normalised = mapping_or_empty(network.get("batch_norm"))  # profiles of earlier versions have none
    calls, groups = (finite_number(normalised.get(name)) or 0 for name in ("calls", "groups"))
    num_sums = 0.0
    if groups and groups % num_devices:
        has_accelerators = bool(described_system(profile.system).accelerators_per_node)
        num_sums = (_SUMS_OF_ACCELERATORS if has_accelerators else _SUMS_OF_HOSTS) * calls / groups
    gradients_s = _all_reduce_s(preflight, int(network["memory"]["gradients"]), num_devices)
    communication_s = gradients_s + num_sums * _all_reduce_s(preflight, 0, num_devices)
    return scale * (others_s / num_devices + optimizer_s) + communication_s


def _all_reduce_s(preflight: Preflight, num_bytes: int, num_devices: int) -> float:
    """Seconds of an all-reduce as a ring: 2 (n - 1) / n of the bytes at bus bandwidth.

    Bandwidth lies on a line between the two sizes that were measured next to this one, both in logarithms; less than
    the smallest takes as long as that one.

    Raises:
        UsageError: the preflight has none.
    """
    rates = sorted((int(one["bytes"]), float(one["bytes_per_s"])) for one in preflight.measured["all_reduces"])
    if not rates:
        raise UsageError("the preflight has no all-reduce: make one with --devices of at least 2")
    size = max(num_bytes, rates[0][0])
    rate = rates[0][1]
    for (below, slower), (above, faster) in itertools.pairwise(rates):
        share = min(1.0, max(0.0, math.log(size / below) / math.log(above / below)))
        rate *= (faster / slower) ** share
    return 2 * (num_devices - 1) / num_devices * size / rate


def _errors(step: Summary) -> tuple[tuple[float, float], ...]:
    """Variance of the logarithm of the median of steps, with its degrees of freedom; empty of a single one."""
    if step.num < 2:
        return ()
    deviation = _MEDIAN_ERROR * _MAD_TO_DEVIATION * step.mad / step.median / math.sqrt(step.num)
    return ((deviation**2, step.num - 1),)


def _drift(parts_s: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Variance of the logarithm between parts of a measurement, for a run that is like one of them; empty of a single
    one."""
    if len(parts_s) < 2:
        return ()
    return ((stats.variance([math.log(part) for part in parts_s]), len(parts_s) - 1),)


def _powered(pace: Pace, drawn: Drawn, description: Any) -> Pace:
    """The pace with the power of its machine, unless that has accelerators that were idle: the meters see them, too."""
    assert pace.system is not None
    described, used = described_system(description).accelerators_per_node, pace.system.accelerators_per_node
    if drawn.power is not None and described != used:
        return replace(pace, no_power=f"the meters saw {described} accelerators, of which {used} trained")
    return replace(pace, power=drawn.power, no_power=drawn.why_not)


def _power_words(pace: Pace) -> str:
    return "" if pace.power is None else f"; power: {pace.power.words}, of training, taken for the whole run"


def _system(description: Any, num_devices: int) -> System:
    """The system, as if it had only the accelerators that were used."""
    found = described_system(description)
    return replace(found, accelerators_per_node=num_devices) if found.accelerators_per_node else found


def _machine(pace: Pace) -> str:
    return "a machine that is not described" if pace.system is None else printable(pace.system.words, 400)


def _words(system: System) -> str:
    return printable(system.words, 200)


def _devices(number: int) -> str:
    return f"{number} device{'s' * (number > 1)}"


def _check(benchmark: str, rules: BenchmarkRules, source: str) -> None:
    if benchmark != rules.name:
        raise UsageError(f"{printable(source)}: is of {printable(benchmark)}, not of {rules.name}")


def read_profile(path: Path) -> Profile:
    """The profile in a file that `tta profile --out` wrote.

    Raises:
        InputError: it is none.
    """
    try:
        return _profile(loads(small_file(path)))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{printable(path, 1000)}: is not a profile: {printable(error, 200)}") from None


def _profile(record: Any) -> Profile:
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("version") != FORMAT_VERSION:
        raise ValueError(f"expected a document of kind {KIND}, version {FORMAT_VERSION}")
    texts = [record.get(name) for name in ("benchmark", "workload", "suite", "precision")]
    counts = [record.get(name) for name in ("num_devices", "batch_size", "num_steps")]
    made, measured = finite_number(record.get("made")), record.get("measured")
    if not all(isinstance(text, str) for text in texts) or not all(is_whole(n) and n > 0 for n in counts):
        raise ValueError("benchmark, workload, suite, precision, num_devices, batch_size or num_steps is missing")
    if made is None or not isinstance(measured, dict):
        raise ValueError("made or measured is missing")
    benchmark, workload, suite, precision = map(str, texts)
    num_devices, batch_size, num_steps = (int(n) for n in counts if n is not None)
    found = Profile(
        benchmark=benchmark,
        workload=workload,
        suite=suite,
        precision=precision,
        num_devices=num_devices,
        batch_size=batch_size,
        num_steps=num_steps,
        made=made,
        system=mapping_or_empty(record.get("system")),
        measured=measured,
        memory_at={},
        largest=None,
        power=powers.of_record(record.get("power")),
    )
    numbers: Sequence[object] = (
        measured["plain_step_s"],
        *measured.get("plain_parts_s", ()),
        found.summary("seconds").median,
        Summary(**measured["evaluation"]["seconds"]).median,
        measured["network"]["memory"]["gradients"],
        *(found.phase(name).median for name in PHASES if name != DATA),
    )
    if any((number := finite_number(value)) is None or number <= 0 for value in numbers):
        raise ValueError("a step, an evaluation, a phase or the gradients have no number above 0")
    for name in ("load_s", "prepare_s", "initialise_s"):
        if (value := finite_number(measured[name])) is None or value < 0:
            raise ValueError(f"{name} is no time")
    return found
