"""What a workload is to the referee: asked for a block, then for a quality; never for the time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from harness.errors import UsageError, printable, unknown_name

Direction = Literal["max", "min"]
HyperparameterValue = int | float | str | bool
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Metric:
    """A quality and which way is better."""

    name: str
    unit: str
    direction: Direction

    def is_reached(self, value: float, target: float) -> bool:
        """Whether `value` is at least as good as `target`; equal counts."""
        return value >= target if self.direction == "max" else value <= target


@dataclass(frozen=True, slots=True)
class Quality:
    """One evaluation. No examples is an error, never 0.0.

    signature: how the metric's library says that it computed the value, with its version; logged beside it.

    Raises:
        ValueError: `num_examples` is not positive.
    """

    value: float
    num_examples: int
    signature: str | None = None

    def __post_init__(self) -> None:
        if self.num_examples < 1:
            raise ValueError(f"an evaluation over {self.num_examples} examples has no quality")

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value)


@dataclass(frozen=True, slots=True)
class Block:
    """What one call of `train_block` did, over all devices.

    num_samples: samples trained on, counted with repetition; whole global batches.
    mean_loss: mean training loss over the block, weighted by samples; may be NaN (the referee ends the run).
    data_wait_s: seconds in which the training loop had nothing to compute because data were not there.
    """

    num_samples: int
    mean_loss: float
    data_wait_s: float


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides a run, apart from the data themselves.

    `metadata` is what the rules let a workload know of its data before the clock starts: the content
    of `metadata.json` beside the data (sizes, label set, vocabulary). The data's place is told in
    `Session.start`, when the clock is running. `parts` is what a submission to the open division puts
    in the place of functions of the workload, by the names of `Workload.parts`; empty in the closed one.
    """

    workload: str
    suite: str
    division: str
    seed: int
    hyperparameters: Mapping[str, HyperparameterValue]
    metadata: Mapping[str, object]
    num_devices: int = 1
    precision: str = "fp32"
    parts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def read_recipe(kind: type[R], values: Mapping[str, HyperparameterValue], workload: str) -> R:
    """The hyperparameters `values` as the dataclass `kind`, whose fields are ints, floats, strs and bools.

    Raises:
        UsageError: a name is unknown or missing, or a value is not of its field's kind; numbers are finite and from
            0 up, and a whole number may stand for a float.
    """
    kinds = {field.name: str(field.type) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in kinds:
            raise UsageError(unknown_name(f"hyperparameter of {workload}", name, kinds))
    if missing := [name for name in kinds if name not in values]:
        raise UsageError(f"{workload}: hyperparameters missing: {', '.join(missing)}")
    for name, expected in kinds.items():
        value = values[name]
        is_kind = isinstance(value, _KINDS[expected]) and isinstance(value, bool) == (expected == "bool")
        if not is_kind:
            raise UsageError(f"{workload}: {name} is {printable(value)!r}, expected {expected}")
        if isinstance(value, int | float) and not 0 <= value < 1e9:
            raise UsageError(f"{workload}: {name} is {value}, expected a finite number of at least 0")
    return kind(**values)


class Session(Protocol):
    """One training run in a cold process. Called in this order, on every rank:

    prepare() once: build the model, compile, warm up on synthetic input; untimed but limited.
    start(data_dir) once: the clock runs; open the data. From here on the state must be as freshly seeded.
    train_block(num_samples): train on whole global batches until at least `num_samples` have been
        consumed since the call; returns when the device has finished. May be called until the
        rules' budget is spent; the session decides nothing about stopping.
    evaluate(): quality on the whole test set; must not change the course of training.
    close(): release what was taken.
    """

    def prepare(self) -> None: ...
    def start(self, data_dir: Path) -> None: ...
    def train_block(self, num_samples: int) -> Block: ...
    def evaluate(self) -> Quality: ...
    def close(self) -> None: ...


@runtime_checkable
class Workload(Protocol):
    """One kind of training task, in its suites.

    name: the folder's name. metric: what `evaluate` returns.
    libraries: what it imports beside torch and accelerate, by import name.
    parts: the functions that the open division may replace; the card gives their signatures.
    """

    @property
    def name(self) -> str: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def libraries(self) -> tuple[str, ...]: ...
    @property
    def parts(self) -> tuple[str, ...]: ...

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        """Fill the empty `data_dir` with the suite's data and a `metadata.json`; untimed, deterministic.

        `source` is a folder a person has in one of the layouts the card names; None means generate
        or download. The folder `downloads` beside `data_dir` is kept, also when preparing fails.

        Raises:
            DataError: unknown layout, damaged file, or nothing to be had.
        """
        ...

    def open(self, config: RunConfig) -> Session: ...

    def baselines(self, suite: str, data_dir: Path) -> dict[str, float]:
        """What solutions without training reach on the test set, by name, in the metric's unit.

        Raises:
            DataError: the prepared data are missing or damaged.
        """
        ...
