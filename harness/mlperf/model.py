"""A round of MLPerf Training as data: which lines a log must have, what they may say, how a result is scored. Pure.

A round is a page of keys for every log, one for each division and one for each benchmark in each division; the
later page has the last word on a key. `harness.mlperf.load` makes them from YAML, pages already laid over another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.mlperf.formula import Formula

Unit = Literal["epochs", "samples"]


@dataclass(frozen=True, slots=True)
class Count:
    """How often a key must stand in a log: from `at_least` to `at_most` times (None: without bound)."""

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
    """What is asked of the lines of one key.

    each: demands on every line. first: demands on the first line only.
    target: a demand that at least one line must meet.
    after: keys of which a line must stand before each of this key. before: keys of which none may.
    lists: the field of the metadata and what all lines together must have in it, each once, in any order.
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
class Page:
    """The rules of a log: its keys, and groups of keys of which one at least must be there."""

    keys: Mapping[str, KeyRule] = field(default_factory=dict)
    either: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """Lines that count as one: those of `key` that name a `part` in their metadata, one part each, by equal `by`.

    Together they are a line of `into`, whose value maps each part to its value and `by` to its own. It stands
    after all others. MLPerf's Stable Diffusion computes FID and CLIP apart, and the target is on both.
    """

    key: str
    by: str
    part: str
    into: str


@dataclass(frozen=True, slots=True)
class RoundReference:
    """The convergence of the reference's runs at one batch size.

    points: epochs or samples to target, a number a run. hyperparameters: what the runs were trained with.
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

    num_runs, drop: runs in a result, and how many fastest and how many slowest of them are not averaged.
    pages: the rules of a log by division. variants: by division, the pages that replace them, by the value of
        `variant_key` (the optimiser, where each has rules of its own).
    distance: what the distance from one evaluation to the next, its `value`, must meet in the closed division; in the
        unit of the references. None: nobody has written it down, or it is no one distance.
    """

    name: str
    num_runs: int
    drop: int
    pages: Mapping[str, Page]
    variant_key: str | None = None
    variants: Mapping[str, Mapping[str, Page]] = field(default_factory=dict)
    join: Join | None = None
    convergence: tuple[RoundReference, ...] = ()
    distance: Formula | None = None

    def page(self, division: str, variant: object = None) -> Page | None:
        """The rules of a log in `division`, of which `variant` is the value of `variant_key`; None: not open to it."""
        by_value = self.variants.get(division, {})
        return by_value[variant] if isinstance(variant, str) and variant in by_value else self.pages.get(division)

    def target(self, division: str = "closed") -> Formula | None:
        """What one evaluation at least must meet."""
        page = self.pages.get(division)
        for rule in page.keys.values() if page is not None else ():
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

    published: the day of its results, YYYY-MM-DD; no run of it is later.
    page: the rules of a log that names no division. divisions: those of a log that names one, but no benchmark we know.
    max_init_s: seconds from the first `init_start` to `init_stop`, which must stay below it, by division.
    """

    version: str
    page: Page
    divisions: Mapping[str, Page]
    max_init_s: Mapping[str, float]
    benchmarks: Mapping[str, RoundBenchmark]
    published: str = ""

    def benchmark(self, name: object) -> RoundBenchmark | None:
        """The benchmark called `name`, which may be anything a log says; None: there is none."""
        return self.benchmarks.get(name) if isinstance(name, str) else None
