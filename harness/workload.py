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
# How a run may be executed without changing its mathematics, in every division, with the default of each option.
EXECUTION: Mapping[str, ExecutionValue] = {
    "compile": False,  # torch.compile for the network in training
    "channels_last": True,  # the memory format of images and of the convolutions' weights
    "ddp_bucket_mb": 25,  # the size of the buckets in which several devices exchange gradients
}
MAX_BUCKET_MB = 10_000

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
    precision: set in torch before the session is opened; bf16 and fp16 are left to the session's autocast.
    execution: the values of the options in `Workload.execution`; an option that is absent has its default.
    parts: the functions with which a submission to the open division replaces functions of the workload, by the names
        of `Workload.parts`; empty in the closed division.
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


def read_execution(
    chosen: Mapping[str, object], options: tuple[str, ...], workload: str, num_devices: int
) -> dict[str, ExecutionValue]:
    """Return a value for each of `options`, the workload's: what was `chosen`, else the default.

    Without a second device there are no buckets of gradients, and no option for them.

    Raises:
        UsageError: an option is unknown or not among `options`, or a value is not one that it takes.
    """
    offered = [name for name in options if name != "ddp_bucket_mb" or num_devices > 1]
    for name, value in chosen.items():
        if name == "ddp_bucket_mb" and name in options and num_devices == 1:
            raise UsageError("ddp_bucket_mb: a single device exchanges no gradients")
        if name not in offered:
            raise UsageError(unknown_name(f"execution option of {workload}", name, offered))
        if isinstance(EXECUTION[name], bool):
            if not isinstance(value, bool):
                raise UsageError(f"{name} is {printable(value)!r}, expected true or false")
        elif not is_whole(value) or not 1 <= value <= MAX_BUCKET_MB:
            raise UsageError(f"{name} is {printable(value)!r}, expected a whole number from 1 to {MAX_BUCKET_MB}")
    return {name: chosen.get(name, EXECUTION[name]) for name in offered}  # type: ignore[misc]


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
    close(): release all resources.

    weights() returns the tensors that `initialise` drew, by name, at any time after it.
    """

    def prepare(self) -> None: ...
    def initialise(self) -> None: ...
    def weights(self) -> Mapping[str, Any]: ...
    def start(self, data_dir: Path) -> None: ...
    def train_block(self, num_samples: int) -> Block: ...
    def predict(self, inputs: Arrays) -> Arrays: ...
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
    execution: the options of `EXECUTION` that its sessions carry out.
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
    def execution(self) -> tuple[str, ...]: ...

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        """Fill the empty `data_dir` with the suite's data, labels and a `metadata.json`; not timed, deterministic.

        source: a folder with the data in one of the layouts that the card lists; None: generate or
            download them. The folder `downloads` next to `data_dir` is kept, even if the preparation fails.

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
