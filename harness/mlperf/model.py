"""A round of MLPerf Training as data: the lines a log must have, what they may say, how a result is scored. Pure.

A round has rules for every log, for each division, and for each benchmark in each division; the more specific rule
for a key replaces the more general one. `harness.mlperf.load` reads them from YAML and merges them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.mlperf.formula import Formula

Unit = Literal["epochs", "samples"]
Evaluated = Literal["online", "afterwards", "either"]
TrainSamples = Literal["data", "run", "batches", "games", "unstated"]
FirstEvaluations = Literal["early", "late"]
Position = Literal["epoch_num", "samples_count", "step_num"]


@dataclass(frozen=True, slots=True)
class Count:
    """How often a key must occur in a log: from `at_least` to `at_most` times (None: no upper bound)."""

    at_least: int = 0
    at_most: int | None = None

    @property
    def words(self) -> str:
        if self.at_most is None:
            return (
                f"at least {self.at_least} times" if self.at_least > 1 else "once or more" if self.at_least else "any"
            )
        return "once" if self.at_least else "once or not at all"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The rules for the lines of one key.

    each: constraints on every line. first: constraints on the first line only.
    target: a constraint that at least one line must meet.
    after: keys of which a line must come before each line of this key. before: keys of which none may.
    lists: a field of the metadata, and the values that all lines together must have in it, each once, in any order.
    """

    key: str
    count: Count = Count()
    each: tuple[Formula, ...] = ()
    first: tuple[Formula, ...] = ()
    target: Formula | None = None
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    lists: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class LogRules:
    """The rules for a log: its keys, and groups of keys of which at least one must occur."""

    keys: Mapping[str, KeyRule] = field(default_factory=dict)
    either: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """Lines that count as one: those of `key` with an equal `by`, each of which names a `part` in its metadata.

    Together they form a line of `into`, whose value maps each part to its value, and `by` to its own. That line comes
    after all others. MLPerf's Stable Diffusion computes FID and CLIP separately, and the target is on both.
    """

    key: str
    by: str
    part: str
    into: str


@dataclass(frozen=True, slots=True)
class RoundReference:
    """The convergence of the reference runs at one batch size.

    points: epochs or samples to target, one number a run. hyperparameters: those of the runs.
    """

    name: str
    benchmark: str
    global_batch_size: int
    unit: Unit
    points: tuple[float, ...]
    hyperparameters: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundBenchmark:
    """One benchmark of a round.

    num_runs, drop: runs in a result, and how many of the fastest and of the slowest are not averaged.
    divisions: the rules for a log, by division. variants: by division, the rules that replace them, by the value of
        `variant_key` (the optimiser, where each has its own rules).
    distance: a constraint on the distance between evaluations, as its `value`, in the closed division; in the unit
        of the references. None if the distance is not documented or not constant.
    evaluated: "online", on the clock; "afterwards": after training, from checkpoints, by programs of their own, so that
        the lines of evaluations are in no order of time, and `run_stop` has the time of the first checkpoint that
        passed; "either": as the submitter likes, and `compliance.is_evaluated_afterwards` says how a log was.
    first_evaluations: "late" if the schedule begins so late that a run may be evaluated only once.
    position: the field of metadata in which an evaluation says how far training is; convergence is counted by it. That
        by which lines are joined, if they are.
    train_samples: what the key of this name counts: the samples of the training set ("data"), the samples up to the end
        of the run, which differ from run to run ("run"), the batches of one pass ("batches"), self-play games, whose
        number grows during the run ("games"), or anything ("unstated"). Only the first two are in the unit of
        `global_batch_size`.
    training_set: the samples of the training set, where `train_samples` need not count them; 0 if not known.
    reprint_tolerance: the relative difference of two values of one evaluation that is due to rounding.
    convergence_allowance: epochs or samples that a result may be faster than the acceptable mean.
    codes: the severity of checks that differs from that of the round.
    """

    name: str
    num_runs: int
    drop: int
    divisions: Mapping[str, LogRules]
    variant_key: str | None = None
    variants: Mapping[str, Mapping[str, LogRules]] = field(default_factory=dict)
    join: Join | None = None
    convergence: tuple[RoundReference, ...] = ()
    distance: Formula | None = None
    evaluated: Evaluated = "online"
    first_evaluations: FirstEvaluations = "early"
    position: Position = "epoch_num"
    train_samples: TrainSamples = "data"
    training_set: int = 0
    reprint_tolerance: float = 0.0
    convergence_allowance: float = 0.0
    codes: Mapping[str, str] = field(default_factory=dict)

    def rules_of(self, division: str, variant: object = None) -> LogRules | None:
        """Return the rules for a log in `division` whose `variant_key` has the value `variant`.

        None if the benchmark is not in that division.
        """
        by_value = self.variants.get(division, {})
        return by_value[variant] if isinstance(variant, str) and variant in by_value else self.divisions.get(division)

    def target(self, division: str = "closed") -> Formula | None:
        """Return what at least one evaluation must meet."""
        rules = self.divisions.get(division)
        for rule in rules.keys.values() if rules is not None else ():
            if rule.target is not None:
                return rule.target
        return None

    @property
    def target_key(self) -> str:
        """The key whose lines are held against the target."""
        return self.join.into if self.join is not None else "eval_accuracy"


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round of MLPerf Training.

    published: the day of its results, YYYY-MM-DD; empty until then.
    rules: for a log that names no division. divisions: for a log that names one, but no known benchmark.
    max_init_s: by division, seconds that initialisation, from the first `init_start` to `init_stop`, must stay below.
    """

    version: str
    rules: LogRules
    divisions: Mapping[str, LogRules]
    max_init_s: Mapping[str, float]
    benchmarks: Mapping[str, RoundBenchmark]
    published: str = ""

    def benchmark(self, name: object) -> RoundBenchmark | None:
        """Return the benchmark called `name`, which may be any value that a log has; None if there is none."""
        return self.benchmarks.get(name) if isinstance(name, str) else None


def last_day(published: str) -> str:
    """Return the last day that a run of a round may have, by the day of the round's results: without one, any day."""
    return published or "9999-12-31"
