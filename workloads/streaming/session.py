"""What every session has that reads its data while training: devices, loaders, blocks, and the place in the data.

The session of a workload says what is trained and on what; `workloads.streaming` shows one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from harness.errors import DataError, UsageError
from harness.workload import Arrays, Block, HyperparameterValue, RunConfig
from workloads import checkpoint

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    from workloads.streaming.loader import Examples
    from workloads.streaming.order import Order


class Recipe(Protocol):
    """What a session asks of its hyperparameters."""

    @property
    def global_batch_size(self) -> int: ...
    @classmethod
    def parse(cls, values: Mapping[str, HyperparameterValue], has_own_optimizer: bool = False) -> Self: ...
    def learning_rate(self, step: int) -> float: ...


R = TypeVar("R", bound=Recipe)


class StreamedSession(ABC, Generic[R]):
    """One run. Every rank reads its share of each global batch, and holds nothing else of the data.

    recipe_type: of the hyperparameters. metadata_keys: what it needs of `metadata.json`, `num_train` and `num_test`
    apart. eval_batch: test examples that are read at once.

    share: the examples of a global batch that are this rank's. microbatch: those in each part of it; the workload sets
    it, in `_build` at the latest. From `prepare` on: execution, accelerator, device, rank, num_ranks; model, what is
    trained, and network, what is evaluated and kept (see `workloads.execution`).
    """

    recipe_type: type[R]
    metadata_keys: ClassVar[tuple[str, ...]]
    eval_batch: int
    microbatch: int

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid hyperparameter or number of devices, DataError for incomplete metadata."""
        self.config = config
        self.recipe = self.recipe_type.parse(config.hyperparameters, "build_optimizer" in config.parts)
        metadata: Mapping[str, Any] = config.metadata
        self.metadata = metadata
        name, batch = config.workload, self.recipe.global_batch_size
        if batch % config.num_devices:
            raise UsageError(f"{name}: global_batch_size {batch} cannot be shared by {config.num_devices} devices")
        self.share = batch // config.num_devices
        for key in (*self.metadata_keys, "num_train", "num_test"):
            if key not in metadata:
                raise DataError(f"metadata.json of {name}_{config.suite} lacks {key!r}; prepare the data again")
        num_train, self.num_test = int(metadata["num_train"]), int(metadata["num_test"])
        if batch > num_train:
            raise UsageError(f"{name}: global_batch_size {batch} is larger than the training set of {num_train}")

    @abstractmethod
    def _build(self) -> None:
        """Build network and optimizer with `_wrap`, set `microbatch`, and import what training needs."""

    @abstractmethod
    def _warm_up(self) -> None:
        """Run every shape of training and evaluation that this rank will see, on noise."""

    @abstractmethod
    def _open(self, data_dir: Path) -> tuple[Examples, Order, Examples]:
        """Return the training examples, their order, and the test examples.

        Raises:
            DataError: a file is missing, damaged, or not what `metadata.json` says; the numbers of examples are
                compared by the caller.
        """

    @abstractmethod
    def _loss(self, *part: Any) -> Tensor:
        """This part's share of the loss of a global batch; the mean over the ranks of their sums is that loss."""

    @abstractmethod
    def predict(self, inputs: Arrays) -> Arrays: ...

    def prepare(self) -> None:
        """Build and warm up.

        Raises:
            UsageError: the number of processes started is not the number of devices declared, or this rank's share of a
                batch cannot be divided as the workload needs it.
        """
        from workloads.execution import Execution
        from workloads.streaming import loader  # noqa: F401  (loaded before the clock starts)

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        self._build()
        self._warm_up()

    def _wrap(
        self, build_model: Callable[..., Any], arguments: Sequence[Any], build_optimizer: Callable[..., Any]
    ) -> None:
        """Build network, optimizer and schedule: the workload's, or those that a submission replaces.

        arguments: of `build_model`, after the suite.
        """
        parts = self.config.parts
        self.build_model = partial(parts.get("build_model", build_model), self.config.suite, *arguments)
        self.learning_rate = parts.get("learning_rate", self.recipe_type.learning_rate)
        self.model, self.network = self.execution.wrap(
            self.build_model(), parts.get("build_optimizer", build_optimizer), self.recipe
        )

    def initialise(self) -> None:
        """Draw the weights, and return optimizer and scaler to where they begin."""
        # There is no generator here: order and augmentation are functions of seed, epoch and index.
        self.execution.restart(self.build_model().state_dict())
        self.step = 0

    def weights(self) -> Mapping[str, Tensor]:
        """The network's parameters and buffers."""
        weights: Mapping[str, Tensor] = self.network.state_dict()
        return weights

    def evaluated_weights(self) -> Mapping[str, Tensor]:
        """Those of `weights`: they are evaluated as they are trained."""
        return self.weights()

    def start(self, data_dir: Path) -> None:
        """Open the data, and start the processes that read them.

        Raises:
            DataError: a file is missing, damaged, or not what `metadata.json` says.
        """
        from workloads.streaming import loader

        train, order, test = self._open(data_dir)
        self._check_announced(data_dir, num_train=len(train), num_test=len(test))
        workers, prefetch = (int(self.execution.options[name]) for name in ("loader_workers", "loader_prefetch"))
        place = loader.Place(self.rank, self.num_ranks, self.device, workers, prefetch)
        self._train_from = partial(loader.TrainingLoader, train, order, self.config.seed, place, self.microbatch)
        self.training = self._train_from()
        self.testing = loader.EvaluationLoader(test, self.eval_batch, place)

    def _check_announced(self, data_dir: Path, **found: int) -> None:
        """Raises DataError: a number is another than in `metadata.json`, for which the network was built."""
        for key, number in found.items():
            if number != self.metadata[key]:
                raise DataError(f"{data_dir}: {key} is {number}; metadata.json says {self.metadata[key]}")

    def train_block(self, num_samples: int) -> Block:
        """Train on whole global batches until `num_samples` are consumed; wait for the device once, at the end."""
        import torch

        steps = -(-num_samples // self.recipe.global_batch_size)
        total_loss = torch.zeros((), device=self.device)
        self.model.train()
        for _ in range(steps):
            parts = list(self.training.next_batch())
            total_loss += self._step(parts, self.learning_rate(self.recipe, self.step))
            self.step += 1
        mean_loss = self.accelerator.reduce(total_loss, reduction="mean").item() / max(steps, 1)
        return Block(steps * self.recipe.global_batch_size, mean_loss, self.training.waited_s())

    def _step(self, parts: Sequence[tuple[Any, ...]], learning_rate: float) -> Tensor:
        """Do one update; return the sum of `_loss` over this rank's parts."""
        return self.execution.step(self._loss, parts, learning_rate)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Within it, `network` predicts."""
        import torch

        self.network.eval()
        with torch.inference_mode(), self.accelerator.autocast():
            yield
        self.network.train()

    def _gathered(self, own: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value for each of this rank's test examples, from all ranks: in the order of the test set, (num_test,)."""
        import numpy as np
        from accelerate.utils import gather_object

        found = np.empty(self.num_test, own.dtype)
        for rank, its in enumerate(gather_object([own])):
            found[rank :: self.num_ranks] = its
        return found

    def save(self, folder: Path) -> None:
        """Keep network, optimizer and scaler, and the place in the epoch."""
        checkpoint.save(self, folder, (), place=self.training.position)

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        place = checkpoint.load(self, folder)["place"]
        self.training.close()
        self.training = self._train_from(position=place)

    def close(self) -> None:
        """End the processes that read, and release everything."""
        for name in ("training", "testing", "execution"):
            if hasattr(self, name):
                getattr(self, name).close()
        self.__dict__.clear()
