"""A ruleset as frozen types, without I/O; `harness.ruleset.load` reads it from YAML."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.energy.limits import EnergyLimits
from harness.errors import UsageError, printable, unknown_name
from harness.workload import HyperparameterValue, Metric

if TYPE_CHECKING:
    from harness.cost.price_book import PriceBooks
    from harness.mlperf.model import Round


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a closed submission may set a hyperparameter to.

    Exactly one of: `fixed` (this value), `one_of` (one of these), `range` (from, to, both included),
    `free` (any value of the default's type). `default` is what a run uses if no value is given.
    """

    default: HyperparameterValue
    fixed: bool = False
    one_of: tuple[HyperparameterValue, ...] = ()
    range: tuple[float, float] | None = None
    free: bool = False

    @property
    def allowed(self) -> str:
        """The permitted values in words."""
        if self.fixed:
            return f"fixed at {self.default}"
        if self.one_of:
            return "one of " + ", ".join(str(value) for value in self.one_of)
        if self.range is not None:
            return f"from {self.range[0]:g} to {self.range[1]:g}"
        return f"any {type(self.default).__name__}"

    def has_type(self, value: object) -> bool:
        """Whether `value` is of the default's type; a whole number may replace a fraction, never the reverse."""
        if isinstance(value, bool):
            return isinstance(self.default, bool)
        if isinstance(self.default, float):
            return isinstance(value, int | float)
        return isinstance(value, type(self.default))

    def permits(self, value: object) -> bool:
        """Whether a closed submission may use `value`."""
        if not self.has_type(value):
            return False
        if self.fixed:
            return value == self.default
        if self.one_of:
            return value in self.one_of
        if self.range is not None:
            return isinstance(value, int | float) and self.range[0] <= value <= self.range[1]
        return True


@dataclass(frozen=True, slots=True)
class Timing:
    """Time limits and conventions that apply to every benchmark.

    max_init_s: seconds from `init_start` to `init_stop`, by division.
    max_unclaimed_fraction: largest share of the timed region that no phase may claim; more is a finding.
    max_unclaimed_s: unclaimed seconds below which that share is not checked (a short run has coarse edges).
    answer_grace_s: seconds that the referee waits beyond `max_seconds` for a worker that is inside a block.
    """

    max_init_s: dict[str, float]
    count_evaluation: bool = True
    max_unclaimed_fraction: float = 0.01
    max_unclaimed_s: float = 0.05
    answer_grace_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Waiver:
    """A finding that the organiser accepts: which, where, by whom, why, until when.

    `path` is a pattern for the finding's place in the tree of submissions, name by name from the submitter on (see
    `harness.ruleset.waivers`); `until` is the last day, YYYY-MM-DD.
    """

    code: str
    path: str
    who: str
    why: str
    until: str


@dataclass(frozen=True, slots=True)
class ReferenceConvergence:
    """Samples to target of the reference recipe at one global batch size, one number per seed.

    source: who published them, if they are not of the reference runs of `tta`.
    """

    global_batch_size: int
    samples_to_target: tuple[int, ...]
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ReferenceRecipe:
    """How the reference is trained at one global batch size, in `num_runs` runs of seeds 0, 1, ...

    hyperparameters: those that differ from the defaults, apart from the batch size itself.
    """

    global_batch_size: int
    num_runs: int = 10
    hyperparameters: dict[str, HyperparameterValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BenchmarkRules:
    """The rules of one benchmark, `<workload>_<suite>`.

    target: quality to reach. confirm_evaluations: how many evaluations right after the first hit must
        reach it too (0 for a stable metric); the clock stops at the last of them.
    num_runs, drop: runs in a result, and how many of the fastest and of the slowest are not averaged.
    open_runs: runs in a result of the open division, where the time depends on luck.
    eval_every_samples: an evaluation follows the first global batch at or past every multiple of it.
    max_samples, max_seconds: the budget; the first edge past either ends the run as aborted.
    quality_range: values that a quality can have at all, both ends included.
    data_digest: SHA-256 over the prepared data; None if the organiser could not publish one.
    network_digest: SHA-256 over the parameters of the closed division's network, as `parameters` in
        `harness.log.replay.Fingerprint`; None if the organiser has not stated one.
    reference_recipes: the runs from which target and reference convergence are derived.
    untrained_limit: no network that was not trained is better than this; None if that is not checked.
    provisional: the target is not yet one that reference runs have reached; it may still change.
    permits_resume: an interrupted run may go on from its last checkpoint; the clock does not stop in between.
    replay_steps: the first steps that each run makes in a deterministic mode before its clock starts, for `tta
        reproduce`; 0: none. replay_limit_s: no further one is begun after so many seconds.
    equivalence_steps: over how many steps a reimplementation in the closed division is compared with the reference
        before the clock starts; 0: there can be none. equivalence_limit_s: how long that may take.
    reproduce_tolerance: how much worse than claimed a reproduction may be, as a share; None: by the scatter of the
        reference.
    """

    workload: str
    suite: str
    metric: Metric
    target: float
    eval_every_samples: int
    max_samples: int
    max_seconds: float
    train_examples: int
    eval_examples: int
    quality_range: tuple[float, float]
    hyperparameters: dict[str, Constraint]
    precisions: tuple[str, ...] = ("fp32",)
    num_runs: int = 5
    open_runs: int = 10
    drop: int = 1
    confirm_evaluations: int = 0
    data_digest: str | None = None
    network_digest: str | None = None
    reference_recipes: tuple[ReferenceRecipe, ...] = ()
    reference_convergence: tuple[ReferenceConvergence, ...] = ()
    baselines: dict[str, float] = field(default_factory=dict)
    untrained_limit: float | None = None
    provisional: bool = False
    permits_resume: bool = False
    replay_steps: int = 0
    replay_limit_s: float = 60.0
    equivalence_steps: int = 0
    equivalence_limit_s: float = 600.0
    reproduce_tolerance: float | None = None

    @property
    def name(self) -> str:
        return f"{self.workload}_{self.suite}"

    @property
    def terms_digest(self) -> str:
        """SHA-256 of the rules that decide a run: all of these but what is measured under them, and what decides none.

        Measured are the reference runs, the baselines and `untrained_limit`; `open_runs`, `provisional`, the digest of
        the network, and what is for those who make a run again or doubt a reimplementation, decide none.
        """
        terms = dataclasses.asdict(self)
        measured = ("reference_recipes", "reference_convergence", "baselines", "untrained_limit")
        repeated = ("replay_steps", "replay_limit_s", "equivalence_steps", "equivalence_limit_s", "reproduce_tolerance")
        for name in (*measured, "open_runs", "provisional", "network_digest", *repeated):
            del terms[name]
        if not self.permits_resume:  # as in rules that were written before there was a choice
            del terms["permits_resume"]
        return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()

    def broken_claims(self) -> Iterator[str]:
        """Yield what contradicts itself in these rules; nothing, if they can be followed."""
        low, high = self.quality_range
        for claim, holds in {
            "target must be in quality_range": low <= self.target <= high,
            "untrained_limit must be in quality_range and must not reach the target": self.untrained_limit is None
            or (low <= self.untrained_limit <= high and not self.metric.is_reached(self.untrained_limit, self.target)),
            "num_runs must be more than twice drop": self.num_runs > 2 * self.drop >= 0,
            "open_runs must be more than twice drop": self.open_runs > 2 * self.drop,
            "eval_every_samples must be from 1 to max_samples": 1 <= self.eval_every_samples <= self.max_samples,
            "max_seconds must be positive": self.max_seconds > 0,
            "replay_steps and replay_limit_s must not be negative": min(self.replay_steps, self.replay_limit_s) >= 0,
            "equivalence_steps and equivalence_limit_s must not be negative": min(
                self.equivalence_steps, self.equivalence_limit_s
            )
            >= 0,
            "reproduce_tolerance must be from 0.01 to 1": self.reproduce_tolerance is None
            or 0.01 <= self.reproduce_tolerance <= 1,
            "train_examples and eval_examples must be positive": min(self.train_examples, self.eval_examples) > 0,
            "confirm_evaluations must not be negative": self.confirm_evaluations >= 0,
            "precisions must have at least one value": bool(self.precisions),
            "reference_convergence must have positive batch sizes and samples": all(
                min((point.global_batch_size, *point.samples_to_target)) > 0 for point in self.reference_convergence
            ),
        }.items():
            if not holds:
                yield claim
        for name, constraint in self.hyperparameters.items():
            if not constraint.permits(constraint.default):
                yield (
                    f"hyperparameters: {name}: the default {printable(constraint.default)} is not permitted; "
                    f"permitted: {constraint.allowed}"
                )
        sizes = [recipe.global_batch_size for recipe in self.reference_recipes]
        for recipe in self.reference_recipes:
            if recipe.num_runs < 1:
                yield f"reference_recipes: num_runs is {recipe.num_runs}; it must be at least 1"
            if sizes.count(recipe.global_batch_size) > 1:
                yield f"reference_recipes: global_batch_size {recipe.global_batch_size} is listed twice"
            if "global_batch_size" in recipe.hyperparameters:
                yield "reference_recipes: hyperparameters: global_batch_size belongs next to them, not among them"
            try:
                self.resolve({**recipe.hyperparameters, "global_batch_size": recipe.global_batch_size}, "closed")
            except UsageError as error:
                yield f"reference_recipes: {error}"

    def required_runs(self, division: str | None) -> int:
        """Return how many runs a result must have."""
        return self.open_runs if division == "open" else self.num_runs

    def defaults(self) -> dict[str, HyperparameterValue]:
        """Return the reference's hyperparameters."""
        return {name: constraint.default for name, constraint in self.hyperparameters.items()}

    def resolve(self, overrides: Mapping[str, object], division: str) -> dict[str, HyperparameterValue]:
        """Return the defaults with `overrides` on top.

        Raises:
            UsageError: a name that the rules do not have, a value of the wrong type, or, in the closed
                division, a value that is not permitted.
        """
        resolved = self.defaults()
        for name, value in overrides.items():
            if name not in self.hyperparameters:
                raise UsageError(f"{self.name}: {unknown_name('hyperparameter', name, self.hyperparameters)}")
            constraint = self.hyperparameters[name]
            if not constraint.has_type(value):
                raise UsageError(
                    f"{self.name}: {name}={printable(value)} is not of type {type(constraint.default).__name__}"
                )
            assert isinstance(value, int | float | str | bool)
            if division == "closed" and not constraint.permits(value):
                raise UsageError(
                    f"{self.name}: {name}={printable(value)} is not permitted in the closed division; "
                    f"permitted: {constraint.allowed}"
                )
            resolved[name] = float(value) if isinstance(constraint.default, float) else value
        return resolved


@dataclass(frozen=True, slots=True)
class RuleSet:
    """One version of the rules.

    digest: SHA-256 over the files of the ruleset, prices excluded (they have their own).
    codes: check code -> severity ("error", "warning" or "note"); a code that is absent is not in force.
    benchmarks: by name, `<workload>_<suite>`.
    prices: the price books, the current one last; None if the ruleset has none.
    energy: the limits for energy measurements. round: the MLPerf round that this is, if it has no benchmarks.
    releases: the digests of the files of each release of the code, by version.
    allowed_signers: the SSH keys that may sign for each submitter, as ssh-keygen reads them; None if there are none.
    """

    version: str
    digest: str
    divisions: tuple[str, ...]
    timing: Timing
    codes: Mapping[str, str]
    benchmarks: Mapping[str, BenchmarkRules]
    waivers: tuple[Waiver, ...] = ()
    prices: PriceBooks | None = None
    energy: EnergyLimits = field(default_factory=EnergyLimits)
    round: Round | None = None
    allowed_signers: bytes | None = None
    requires_signature: bool = False
    releases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    requires_release: bool = False
    requires_isolation: bool = False

    def severity(self, code: str, benchmark: str | None) -> str:
        """Return the severity of a check in force on results of `benchmark`, for which a round may have its own."""
        found = None if self.round is None else self.round.benchmark(benchmark)
        return self.codes[code] if found is None else found.codes.get(code, self.codes[code])

    def severity_in_words(self, code: str) -> str | None:
        """Return `error`, or `error, but note for bert,` before more words; None if the check is not in force."""
        if code not in self.codes:
            return None
        benchmarks = () if self.round is None else self.round.benchmarks.values()
        own = ", ".join(f"{found.codes[code]} for {found.name}" for found in benchmarks if code in found.codes)
        return f"{self.codes[code]}, but {own}," if own else self.codes[code]

    def benchmark(self, workload: str, suite: str) -> BenchmarkRules:
        """Return the rules of one benchmark.

        Raises:
            UsageError: there is no such workload, or it has no such suite.
        """
        workloads = {rules.workload for rules in self.benchmarks.values()}
        if workload not in workloads:
            raise UsageError(unknown_name("workload", workload, workloads))
        suites = {rules.suite for rules in self.benchmarks.values() if rules.workload == workload}
        if suite not in suites:
            raise UsageError(f"{workload}: {unknown_name('suite', suite, suites)}")
        return self.benchmarks[f"{workload}_{suite}"]
