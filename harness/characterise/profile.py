"""The profile of a benchmark on a machine: what was measured, and what follows from it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.characterise.asking import Ask, OutOfMemory, asked, training
from harness.characterise.batches import Largest, bisected, predicted
from harness.characterise.operators import CONVENTION, TRAINING_FACTOR
from harness.characterise.planning import planned
from harness.characterise.power import UNKNOWN, Drawn, as_record
from harness.characterise.summaries import PHASES, Summary, straight_line, summary
from harness.characterise.wattmeter import opened
from harness.errors import UsageError
from harness.ruleset.model import RuleSet
from harness.run.benchmark import Request
from harness.run.evaluation import LaunchedEvaluator
from harness.run.plan import Plan
from harness.tracking.measurement import Measurement, measurement

FORMAT_VERSION = 1
KIND = "tta_profile"
PEAK_S = 0.15  # for each of the five matrix products
NUM_TRACED = 5
EVALUATIONS, EVALUATIONS_S = 3, 5.0  # so many, unless the first of them take longer
FEW_STEPS = 10  # below it a spread says little
COSTLY_HOOKS = 0.1  # of a step


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What to profile. batch_size, precision: None: the rules'. num_steps: that are timed."""

    request: Request
    batch_size: int | None = None
    num_steps: int = 50
    has_memory: bool = True


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile.

    made: when, as seconds since 1970. system: the description of the machine. measured: the answer of the processes:
    see `harness.characterise.measuring.profiled` and `program.profile`. memory_at: bytes by kind of one device's step,
    by global batch size. largest: the largest batch; None where it was not asked for. refused: why batch sizes were
    not measured, in words. power: of steps without hooks.
    """

    benchmark: str
    workload: str
    suite: str
    precision: str
    num_devices: int
    batch_size: int
    num_steps: int
    made: float
    system: Mapping[str, Any]
    measured: Mapping[str, Any]
    memory_at: Mapping[int, Mapping[str, int]]
    largest: Largest | None
    refused: tuple[str, ...] = ()
    power: Drawn = UNKNOWN

    @property
    def step_s(self) -> float:
        """Seconds of a step without any hook: what a run's steps take."""
        return float(self.measured["plain_step_s"])

    @property
    def parts_s(self) -> tuple[float, ...]:
        """The same of each part of the steps without hooks; empty in a file of an earlier version."""
        return tuple(map(float, self.measured.get("plain_parts_s", ())))

    @property
    def samples_per_s(self) -> float:
        """Of training alone: no evaluation, no opening of the data."""
        return self.batch_size / self.step_s

    @property
    def hook_cost(self) -> float:
        """By how much watching made the steps longer, as a fraction."""
        return self.summary("seconds").median / self.step_s - 1

    def summary(self, name: str) -> Summary:
        """Of the watched steps: seconds, waited or exchange."""
        return Summary(**self.measured["steps"][name])

    def phase(self, name: str) -> Summary:
        """One of `PHASES`."""
        return Summary(**self.measured["steps"]["phases"][name])

    @property
    def training_flops(self) -> int | None:
        """Floating-point operations of a global batch, as `CONVENTION` has them; None where nothing was counted."""
        forward = self.measured["network"]["forward_flops"]
        return None if not forward else TRAINING_FACTOR * int(forward) * self.num_devices

    @property
    def flop_per_s(self) -> float | None:
        """That training does, all devices together."""
        return None if self.training_flops is None else self.training_flops / self.step_s

    @property
    def utilisation(self) -> float | None:
        """Model FLOPs utilisation: `flop_per_s` over the measured peak of matrix products in this precision."""
        return None if self.flop_per_s is None else self.flop_per_s / float(self.measured["peak_flop_per_s"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before the numbers are believed."""
        return tuple(_warnings(self))


def _warnings(profile: Profile) -> Iterator[str]:
    network = profile.measured["network"]
    used = profile.utilisation
    if used is not None and used > 1:
        yield (
            f"the utilisation is {used:.2f}, above 1: convolutions by Winograd's or Fourier's method need fewer "
            "operations than are counted, or the peak was measured while the machine was busy"
        )
    if network["uncounted"]:
        names = ", ".join(f"{name} ({calls} calls)" for name, calls in network["uncounted"].items())
        yield f"counted as 0 FLOPs, for the counter has no formula: {names}; the FLOPs are too low by these"
    for reason in network["reasons"]:
        where = ", ".join(network["counted_on"])
        yield f"the network needs values, so it was counted on {where} and not on the meta device: {reason}"
    if profile.training_flops is None:
        yield "no operator of the forward pass has a formula for FLOPs, so there is no utilisation"
    if profile.hook_cost > COSTLY_HOOKS:
        yield (
            f"watching made a step {100 * profile.hook_cost:.0f} % longer: read the phases as shares, and the pace "
            "from the steps without hooks"
        )
    if profile.num_steps < FEW_STEPS:
        yield f"{profile.num_steps} steps say little of their spread"
    if not profile.measured["steps"]["loss_is_finite"]:
        yield "a loss was not finite: the steps may have been others than those of a run"
    yield from profile.refused


def profile(wanted: ProfileRequest, ruleset: RuleSet, say: Callable[[str], None]) -> Profile:
    """Measure a benchmark on this machine.

    Raises:
        UsageError: the benchmark does not take the batch size, the precision, or so many devices; a meter that was
            named cannot be read. DataError: its data.
        OutOfMemory: a step does not fit. Interrupted: by a signal. WorkerError: the workload failed.
    """
    plan = planned(wanted.request, wanted.batch_size, ruleset)
    batch_size = int(plan.hyperparameters["global_batch_size"])
    say(f"{plan.rules.name}: {wanted.num_steps} steps of {batch_size} samples on {plan.num_devices} device(s)")
    with (
        opened(wanted.request.power, plan.system, say) as meters,
        tempfile.TemporaryDirectory(prefix="tta-profile-") as place,
        LaunchedEvaluator(plan, Path(place) / "evaluator.txt") as evaluator,
        asked(plan.num_devices, evaluator) as ask,
    ):
        ask({"do": "open"})
        numbers = {"num_steps": wanted.num_steps, "num_traced": NUM_TRACED}
        measured, power = meters.asked(ask, training(plan, do="profile", **numbers))
        measured["evaluation"] = _evaluations(ask)
        # Not before the steps: what a process has freed decides how the C library gives it memory from then on, and
        # after large matrices a step may take a seventh less than it does in a run.
        peak = ask({"do": "peak", "precision": plan.precision, "least_s": PEAK_S})
        measured["peak_flop_per_s"] = peak["flop_per_s"]
        memory_at: dict[int, Mapping[str, int]] = {batch_size: measured["network"]["memory"]}
        largest: Largest | None = None
        refused: tuple[str, ...] = ()
        if wanted.has_memory and plan.num_devices == 1:
            largest, refused = _largest(plan, ask, measured, memory_at, say)
        elif wanted.has_memory:
            refused = ("the largest batch is measured on one device: it is that of each of several",)
    return Profile(
        benchmark=plan.rules.name,
        workload=plan.rules.workload,
        suite=plan.rules.suite,
        precision=plan.precision,
        num_devices=plan.num_devices,
        batch_size=batch_size,
        num_steps=wanted.num_steps,
        made=time.time(),
        system=dict(plan.system),
        measured=measured,
        memory_at=dict(sorted(memory_at.items())),
        largest=largest,
        refused=refused,
        power=power,
    )


def _evaluations(ask: Ask) -> dict[str, Any]:
    """Evaluate as a run does, by a process that has the labels; the seconds of the whole, and of predicting in them.

    Some steps come before each, since what was cached is then the training's.
    """
    seconds: list[float] = []
    num_examples = 0
    while len(seconds) < EVALUATIONS and sum(seconds) <= EVALUATIONS_S:
        ask({"do": "steps"})
        begun = time.perf_counter()
        num_examples = int(ask({"do": "evaluate"})["num_examples"])
        seconds.append(time.perf_counter() - begun)
    inference = ask({"do": "finish"})["inference_s"]
    return {
        "seconds": asdict(summary(seconds)),
        "inference": asdict(summary(inference)),
        "num_examples": num_examples,
    }


def _largest(
    plan: Plan,
    ask: Ask,
    measured: Mapping[str, Any],
    memory_at: dict[int, Mapping[str, int]],
    say: Callable[[str], None],
) -> tuple[Largest | None, tuple[str, ...]]:
    """Measure the memory at other batch sizes, into `memory_at`; return the largest batch that fits.

    On an accelerator, by trials. On a host, whose memory other programs need as well, by the line through what was
    measured.
    """
    most, bound = plan.rules.train_examples, f"the training set has {plan.rules.train_examples} samples"
    batch_size, limit = next(iter(memory_at)), measured["memory_limit"]
    refused: list[str] = []

    def fits(size: int) -> str | None:
        try:
            say(f"memory at batch size {size}")
            answer = ask(training(plan, do="memory", batch_size=size))
        except OutOfMemory as error:
            return str(error)
        memory_at[size] = {name: value for name, value in answer.items() if name != "ok"}
        return None

    try:
        if limit["is_accelerator"]:
            return bisected(fits, 2 * batch_size, most, batch_size, bound), ()
        for size in (batch_size // 2, 2 * batch_size):
            if 1 <= size <= most:
                fits(size)
    except UsageError as error:
        refused.append(f"other batch sizes were not measured: {error}")
    line = straight_line([(size, sum(kinds.values())) for size, kinds in memory_at.items()])
    if line is None or line.slope <= 0:
        return None, tuple(refused)
    bound = f"{bound}; as predicted from {len(memory_at)} batch sizes"
    return predicted(line.intercept, line.slope, int(limit["bytes"]), most, 1, bound), tuple(refused)


def document(profile: Profile) -> dict[str, Any]:
    """The profile as JSON has it; `read` takes it back."""
    return {
        "kind": KIND,
        "version": FORMAT_VERSION,
        "tta": __version__,
        "convention": CONVENTION,
        **{name: getattr(profile, name) for name in ("benchmark", "workload", "suite", "precision", "num_devices")},
        **{name: getattr(profile, name) for name in ("batch_size", "num_steps", "made")},
        "system": dict(profile.system),
        "derived": {
            "step_s": profile.step_s,
            "samples_per_s": profile.samples_per_s,
            "hook_cost_fraction": profile.hook_cost,
            "training_flops_per_step": profile.training_flops,
            "flop_per_s": profile.flop_per_s,
            "utilisation_fraction": profile.utilisation,
        },
        "power": as_record(profile.power),
        "measured": dict(profile.measured),
        "memory_at": {str(size): dict(kinds) for size, kinds in profile.memory_at.items()},
        "largest_batch": None if profile.largest is None else asdict(profile.largest),
        "warnings": list(profile.warnings),
        "refused": list(profile.refused),
    }


def records(profile: Profile) -> Measurement:
    """What an MLflow store is to have of the profile."""
    identity = profile.measured["network"]["fingerprint"]
    shown = document(profile)
    return measurement(
        f"{profile.benchmark}-profile",
        shown,
        {
            **{name: shown[name] for name in ("benchmark", "precision", "num_devices", "batch_size", "num_steps")},
            "system": profile.system.get("system_name"),
            "fingerprint": {name: identity[name] for name in ("parameters", "network", "forward")},
        },
        {
            **shown["derived"],
            "num_parameters": identity["num_parameters"],
            "phase_s": {name: profile.phase(name).median for name in PHASES},
            "memory_bytes": profile.measured["network"]["memory"],
            "load_s": profile.measured["load_s"],
            "power_w": shown["power"]["mean_w"],
        },
        profile.made,
    )
