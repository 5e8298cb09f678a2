"""What authors of workloads implement: the referee asks for blocks of training and for qualities, never for a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from harness.base.values import is_whole
from harness.errors import UsageError, printable, unknown_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Direction = Literal["max", "min"]
# What evaluator and session exchange: numpy arrays of booleans, integers and floats, by name.
Arrays = Mapping[str, "npt.NDArray[np.generic]"]
HyperparameterValue = int | float | str | bool
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}

ExecutionValue = bool | int


@dataclass(frozen=True, slots=True)
class Option:
    """One way of executing a run that does not change its mathematics.

    default: a truth value, or a whole number from `least` to `most`.
    min_devices, max_devices: with how many devices the option has a meaning; `elsewhere` says why not with others.
    """

    default: ExecutionValue
    least: int = 0
    most: int = 0
    min_devices: int = 1
    max_devices: int | None = None
    elsewhere: str = ""

    def is_for(self, num_devices: int) -> bool:
        """Whether the option has a meaning with this many devices."""
        return self.min_devices <= num_devices and (self.max_devices is None or num_devices <= self.max_devices)

    def fault(self, value: object) -> str | None:
        """Return what is expected instead of `value`; None if it is a value of the option."""
        if isinstance(self.default, bool):
            return None if isinstance(value, bool) else "true or false"
        if is_whole(value) and self.least <= value <= self.most:
            return None
        return f"a whole number from {self.least} to {self.most}"


# The execution options there are, in every division. A workload offers those that its sessions carry out.
EXECUTION: Mapping[str, Option] = {
    # torch.compile for the network in training
    "compile": Option(False),
    # a training step is captured once for each of its shapes, and replayed with a single launch
    "cuda_graphs": Option(False, max_devices=1, elsewhere="a step of several devices is not captured"),
    # the memory format of images and of the convolutions' weights
    "channels_last": Option(True),
    # the optimizer's update is one kernel for all parameters
    "fused_optimizer": Option(True),
    # the size of the buckets in which several devices exchange gradients
    "ddp_bucket_mb": Option(25, 1, 10_000, min_devices=2, elsewhere="a single device exchanges no gradients"),
    # the parts into which a device divides its share of a global batch, to need less memory
    "accumulation_steps": Option(1, 1, 1024),
    # processes of each device that read and decode, and the batches that each of them has ready
    "loader_workers": Option(4, 0, 256),
    "loader_prefetch": Option(2, 1, 64),
}

SEED_STRIDE = 1_000_003  # between the seeds of two ranks: no rank has the seed of another run's

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Metric:
    """A quality metric. direction: whether larger ("max") or smaller ("min") is better."""

    name: str
    unit: str
    direction: Direction

    def is_reached(self, value: float, target: float) -> bool:
        """Whether `value` is at least as good as `target`; equal counts."""
        return value >= target if self.direction == "max" else value <= target


@dataclass(frozen=True, slots=True)
class Quality:
    """The result of one evaluation. An evaluation without examples is an error, never 0.0.

    signature: how the metric's library describes the computation, with its version; logged with the value.

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

    num_samples: samples trained on, repetitions included; whole global batches.
    mean_loss: mean training loss over the block, weighted by samples; may be NaN (the referee then ends the run).
    data_wait_s: seconds in which the training loop waited for data and had nothing to compute.
    """

    num_samples: int
    mean_loss: float
    data_wait_s: float


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that determines a run, apart from the data.

    metadata: what the rules let a workload know about its data before the clock starts: the content of the data's
        `metadata.json` (sizes, label set, vocabulary). Where the data are is only passed to `Session.start`, when the
        clock is running.
    seed: of all that the session draws from generators of its own: the order of the data, augmentation, environments.
    weights_seed, noise_seed: of the initial weights, and of what training draws from the global generators of Python,
        numpy and torch; None: `seed`, and the noise goes on where the initial weights left these generators. Only runs
        of `tta variance` have these two; the harness seeds the generators.
    precision: set in torch before the session is opened; bf16 and fp16 are left to the session's autocast.
    execution: the values of the suite's options in `Workload.execution`; one that is absent has its default.
    parts: the functions with which a submission to the open division replaces functions of the workload, by the names
        of `Workload.parts`; empty in the closed division.
    observer: to be called after each update of the weights, in training alone, with the tensors of this rank's share of
        the batch (a list of tuples) and the network; None: no one watches. `workloads.execution` does it.
    """

    workload: str
    suite: str
    division: str
    seed: int
    hyperparameters: Mapping[str, HyperparameterValue]
    metadata: Mapping[str, object]
    num_devices: int = 1
    precision: str = "fp32"
    execution: Mapping[str, ExecutionValue] = field(default_factory=dict)
    parts: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    observer: Callable[[Any, Any], None] | None = None
    weights_seed: int | None = None
    noise_seed: int | None = None


def read_recipe(kind: type[R], values: Mapping[str, HyperparameterValue], workload: str) -> R:
    """Return the hyperparameters `values` as the dataclass `kind`, whose fields are ints, floats, strs and bools.

    An int is accepted for a float.

    Raises:
        UsageError: a name is unknown or missing, a value has the wrong type, or a number is not finite, negative, or
            1e9 and more.
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


def check_optimizer(recipe: Any, workload: str, names: tuple[str, ...], has_own_optimizer: bool) -> None:
    """Hold `opt_name` to the names of the workload's optimizers.

    has_own_optimizer: a submission to the open division brings its own; `opt_name` is then only a label in the log.

    Raises:
        UsageError: it is none of them.
    """
    if recipe.opt_name not in names and not has_own_optimizer:
        raise UsageError(f"{workload}: opt_name is {printable(recipe.opt_name)!r}, expected {' or '.join(names)}")


def check_bounds(recipe: Any, workload: str, at_least: Mapping[str, int], below_one: tuple[str, ...] = ()) -> None:
    """Hold hyperparameters to their bounds, and the warm-up of the learning rate to its horizon, if it has one.

    at_least: names and their least values. below_one: names.

    Raises:
        UsageError: a value is out of bounds, or the warm-up does not end before the horizon.
    """
    for name, least in at_least.items():
        if getattr(recipe, name) < least:
            raise UsageError(f"{workload}: {name} is {getattr(recipe, name)}, expected at least {least}")
    for name in below_one:
        if getattr(recipe, name) >= 1:
            raise UsageError(f"{workload}: {name} is {getattr(recipe, name)}, expected below 1")
    if recipe.opt_learning_rate_warmup_steps >= getattr(recipe, "opt_learning_rate_training_steps", math.inf):
        raise UsageError(f"{workload}: opt_learning_rate_warmup_steps must be below opt_learning_rate_training_steps")


def read_execution(
    chosen: Mapping[str, object], options: tuple[str, ...], workload: str, num_devices: int
) -> dict[str, ExecutionValue]:
    """Return a value for each of `options`, the workload's: what was `chosen`, else the default.

    Options without a meaning for this many devices are left out.

    Raises:
        UsageError: an option is unknown, not among `options` or without a meaning, or a value is not one that it takes.
    """
    offered = [name for name in options if EXECUTION[name].is_for(num_devices)]
    for name, value in chosen.items():
        if name in options and name not in offered:
            raise UsageError(f"{name}: {EXECUTION[name].elsewhere}")
        if name not in offered:
            raise UsageError(unknown_name(f"execution option of {workload}", name, offered))
        if expected := EXECUTION[name].fault(value):
            raise UsageError(f"{name} is {printable(value)!r}, expected {expected}")
    return {name: chosen.get(name, EXECUTION[name].default) for name in offered}  # type: ignore[misc]


def texts_to_bytes(texts: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Return texts as one array: UTF-8, separated by newlines. A newline within a text becomes a space."""
    import numpy as np

    return np.frombuffer("\n".join(text.replace("\n", " ") for text in texts).encode(), np.uint8)


def texts_from_bytes(array: npt.NDArray[np.generic] | None, num_texts: int, what: str) -> list[str]:
    """Return the texts that `texts_to_bytes` made an array of, `what` in plural.

    Raises:
        ValueError: the array is missing or not `num_texts` texts.
    """
    expected = f"expected {num_texts:,} {what} as bytes of UTF-8, separated by newlines"
    if array is None or array.dtype != "u1" or array.ndim != 1:
        raise ValueError(expected)
    try:
        texts = array.tobytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(expected) from None
    if len(texts) != num_texts:
        raise ValueError(f"{expected}; found {len(texts):,}")
    return texts


class Session(Protocol):
    """One training run in a new process. Called in this order, on every rank:

    prepare(), once: build the model, compile, warm up on synthetic input; not timed, but limited.
    initialise(), once, with torch freshly seeded by the harness: new weights, an empty optimizer, and every generator
        as the seed determines them; nothing that `prepare` did may show afterwards.
    start(data_dir), once: the clock runs; open the data, which the process cannot see before.
    train_block(num_samples): train on whole global batches until at least `num_samples` have been consumed since the
        call; return when the device has finished. Called until the rules' budget is spent at most; the session never
        decides when to stop.
    predict(inputs): what the network predicts; must not affect the training that follows. With empty `inputs` for the
        whole test set, on every rank; what rank 0 returns counts, gathered from all ranks. With the inputs that the
        workload's evaluator sends, on rank 0 alone, as often as it asks.
    save(folder): between two blocks, keep in the empty `folder`, which is this rank's own, all that the training
        depends on: weights, optimizer, gradient scaler, the place in the schedule and in the data, its own generators.
        Not the global generators of Python, numpy and torch: the harness keeps them. Must not affect the training that
        follows. An OSError (a full disk) fails this checkpoint and not the run.
    load(folder): after `start`, go on from where `save` was called, in another process: on the same machine, training
        and predictions are the same from then on, bit by bit, as if there had been no interruption.
    close(): release all resources.

    weights() returns the tensors that `initialise` drew, by name, at any time after it.
    evaluated_weights() returns the tensors that `predict` computes from, by name, after `start`: themselves and not
        copies, so that what is written into them is evaluated. They and the data determine the predictions.
    """

    def prepare(self) -> None: ...
    def initialise(self) -> None: ...
    def weights(self) -> Mapping[str, Any]: ...
    def evaluated_weights(self) -> Mapping[str, Any]: ...
    def start(self, data_dir: Path) -> None: ...
    def train_block(self, num_samples: int) -> Block: ...
    def predict(self, inputs: Arrays) -> Arrays: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path) -> None: ...
    def close(self) -> None: ...


class Evaluator(Protocol):
    """Computes the quality, in a process that the training cannot reach: it has the labels of the test set.

    quality(predict): the quality of what `predict` returns, which is checked like any foreign input.

    Raises:
        ValueError: the predictions are not what the workload's card describes; the message says what they are.
    """

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality: ...


@runtime_checkable
class Workload(Protocol):
    """One kind of training task, in its suites.

    name: the name of its folder. metric: what its evaluator computes.
    labels: the names of the prepared files that only the evaluator may see.
    libraries: the import names of what it needs in addition to torch and accelerate.
    parts: the functions that the open division may replace; the card gives their signatures.
    execution: the options of `EXECUTION` that its sessions carry out, by suite.
    """

    @property
    def name(self) -> str: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def libraries(self) -> tuple[str, ...]: ...
    @property
    def parts(self) -> tuple[str, ...]: ...
    @property
    def execution(self) -> Mapping[str, tuple[str, ...]]: ...

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        """Fill the empty `data_dir` with the suite's data, labels and a `metadata.json`; not timed, deterministic.

        source: a folder with the data in one of the layouts that the card lists; None: generate or
            download them. Kept if the preparation fails: the folders `downloads` and `unfinished` next to `data_dir`.

        Raises:
            DataError: the layout is unknown, a file is damaged, or the data cannot be obtained.
        """
        ...

    def open(self, config: RunConfig) -> Session: ...

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        """Return the evaluator of a suite, ready to be called; it may read the data and the labels.

        Raises:
            DataError: the prepared data are missing or damaged.
        """
        ...

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        """Return what solutions without training reach on the test set, by name, in the metric's unit.

        Raises:
            DataError: the prepared data are missing or damaged.
        """
        ...
