"""Recommendation: AdamW on a gated tower until the next item is often enough among the ten best of all items.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N interactions to predict (this rank's share of a batch), U users, I items, L items of history,
F context fields, S side fields, A attributes, P places in the sequence of all histories.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, UsageError, unknown_name
from harness.workload import Arrays, Block, RunConfig
from workloads import checkpoint
from workloads.recommendation.evaluation import NUM_BEST
from workloads.recommendation.recipe import NAME, SUITES, Recipe

if TYPE_CHECKING:
    from torch import Tensor

EVAL_BATCH = 1000  # users at once
SIZES = ("num_users", "num_items", "num_attributes", "context_sizes", "side_sizes", "num_train", "num_test")


class TrainingSession:
    """One run. Every rank holds all the data, draws the same epochs, and computes its share of each batch."""

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid suite or hyperparameter, DataError for incomplete metadata."""
        if config.suite not in SUITES:
            raise UsageError(unknown_name(f"suite of {NAME}", config.suite, SUITES))
        self.config = config
        self.recipe = Recipe.parse(config.hyperparameters, "build_optimizer" in config.parts)
        batch = self.recipe.global_batch_size
        if batch % config.num_devices:
            raise UsageError(f"{NAME}: global_batch_size {batch} cannot be shared by {config.num_devices} devices")
        sizes: Mapping[str, Any] = config.metadata
        for key in SIZES:
            if key not in sizes:
                raise DataError(f"metadata.json of {NAME}_{config.suite} lacks {key!r}; prepare the data again")
        self.sizes = sizes
        self._check_fits(int(sizes["num_train"]))

    def _check_fits(self, num_train: int) -> None:
        batch = self.recipe.global_batch_size
        if batch > num_train:
            raise UsageError(f"{NAME}: global_batch_size {batch} is larger than the training set of {num_train}")

    def prepare(self) -> None:
        """Build and warm up.

        Raises:
            UsageError: the number of processes started is not the number of devices declared.
        """
        from workloads.execution import Execution
        from workloads.recommendation.model import build_model, build_optimizer

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        recipe = self.recipe
        parts = self.config.parts
        build: Callable[..., Any] = parts.get("build_model", build_model)
        self.build_model = partial(build, self.config.suite, self.sizes, recipe)
        optimizer = parts.get("build_optimizer", build_optimizer)
        self.learning_rate = parts.get("learning_rate", Recipe.learning_rate)
        self.model, self.network = self.execution.wrap(self.build_model(), optimizer, recipe)
        self._warm_up()

    def _warm_up(self) -> None:
        """Run every shape of training and evaluation on noise."""
        import torch

        from workloads.execution import batch_sizes

        sizes, length = self.sizes, self.recipe.history_length

        def noise(high: int, *shape: int) -> Tensor:
            return torch.randint(0, high, shape).to(self.device)

        def inputs(n: int) -> tuple[Tensor, ...]:
            fields = [[noise(size, n) for size in sizes[name]] for name in ("context_sizes", "side_sizes")]
            return noise(sizes["num_items"] + 1, n, length), *(torch.stack(field, 1) for field in fields)

        self.attributes_IA = noise(2, sizes["num_items"], sizes["num_attributes"]).float()
        share = self.recipe.global_batch_size // self.num_ranks
        self.execution.warm_up(self._loss, [[(inputs(share), noise(sizes["num_items"], share))]])
        self.network.eval()
        with torch.inference_mode():
            for n in batch_sizes(int(sizes["num_test"]), EVAL_BATCH, self.rank, self.num_ranks):
                taken_NI = noise(2, n, sizes["num_items"]) == 1
                best_items(self.network(*inputs(n), self.attributes_IA), taken_NI)
        self.network.train()

    def initialise(self) -> None:
        """Draw the weights, and return optimizer, scaler and generators to where they begin."""
        import torch

        self.execution.restart(self.build_model().state_dict())
        # The order of each epoch comes from this generator alone, so every rank draws the same one.
        self.draws = torch.Generator().manual_seed(self.config.seed)
        self.step = 0

    def weights(self) -> Mapping[str, Tensor]:
        """The network's parameters and buffers."""
        weights: Mapping[str, Tensor] = self.network.state_dict()
        return weights

    def evaluated_weights(self) -> Mapping[str, Tensor]:
        """Those of `weights`: they are evaluated as they are trained."""
        return self.weights()

    def start(self, data_dir: Path) -> None:
        """Read the interactions and lay them out on the device.

        Raises:
            DataError: a file is missing, damaged, or not what `metadata.json` says.
            UsageError: the training set is smaller than one global batch.
        """
        import numpy as np
        import torch

        from workloads.recommendation.data import read_known

        fields = [tuple(int(size) for size in self.sizes[name]) for name in ("context_sizes", "side_sizes")]
        data = read_known(data_dir, *fields)
        num_items, num_attributes = data.item_attributes.shape
        found = {"num_users": len(data.user_sides), "num_items": num_items, "num_attributes": num_attributes}
        for name, count in found.items():
            if count != self.sizes[name]:
                raise DataError(f"{data_dir}: {name} is {count}; metadata.json says {self.sizes[name]}")
        # One sequence of all histories: per user, L times "no item", the training part, the validation item.
        length, lengths_U = self.recipe.history_length, np.diff(data.train_offsets)
        begins_U = data.train_offsets[:-1] + (length + 1) * np.arange(len(lengths_U)) + length
        ends_U = begins_U + lengths_U  # where the validation item is
        owner_T = np.repeat(np.arange(len(lengths_U)), lengths_U)
        place_T = np.arange(len(owner_T)) + (begins_U - data.train_offsets[:-1])[owner_T]
        line_P = np.full(ends_U[-1] + 1, num_items, np.int64)
        contexts_PF = np.zeros((len(line_P), len(fields[0])), np.int64)
        line_P[place_T], contexts_PF[place_T] = data.train_items, data.train_contexts
        line_P[ends_U] = data.validation_items
        owner_P = np.zeros(len(line_P), np.int64)
        owner_P[place_T] = owner_T
        is_predicted_T = np.ones(len(owner_T), bool)
        is_predicted_T[data.train_offsets[:-1]] = False  # nothing precedes a user's first interaction

        def put(array: Any) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

        self.line_P, self.contexts_PF, self.owner_P = put(line_P), put(contexts_PF), put(owner_P)
        self.sides_US = put(data.user_sides.astype(np.int64))
        self.attributes_IA = put(data.item_attributes.astype(np.float32))
        self.back_L = torch.arange(-length, 0, device=self.device)
        self.places_N = torch.from_numpy(place_T[is_predicted_T])  # on the CPU, where the epoch's order is drawn
        self.num_train = len(self.places_N)
        self._check_fits(self.num_train)
        # Each rank takes every num_ranks-th user: no padding, so no user is counted twice.
        self.num_test = len(lengths_U)
        users = np.arange(self.rank, self.num_test, self.num_ranks)
        taken_UI = np.zeros((self.num_test, num_items), bool)
        taken_UI[owner_T, data.train_items] = True
        taken_UI[np.arange(self.num_test), data.validation_items] = True
        self.taken_UI = put(taken_UI[users])
        self.test_users_U, self.test_places_U = put(users), put(ends_U[users] + 1)
        self.test_contexts_UF = put(data.test_contexts[users].astype(np.int64))
        self.epoch = -1
        self._new_epoch()

    def _new_epoch(self) -> None:
        """Draw the order of all training interactions; those that do not fill a last batch are dropped."""
        import torch

        self.epoch += 1
        self.cursor = 0
        self.order_N = self.places_N[torch.randperm(self.num_train, generator=self.draws)].to(self.device)

    def _next_batch(self) -> tuple[tuple[Tensor, ...], Tensor]:
        """This rank's share of the next global batch: (history_NL, contexts_NF, sides_NS), items_N."""
        batch = self.recipe.global_batch_size
        if self.cursor + batch > self.num_train:
            self._new_epoch()
        share = batch // self.num_ranks
        first = self.cursor + self.rank * share
        self.cursor += batch
        places_N = self.order_N[first : first + share]
        history_NL = self.line_P[places_N[:, None] + self.back_L]
        sides_NS = self.sides_US[self.owner_P[places_N]]
        return (history_NL, self.contexts_PF[places_N], sides_NS), self.line_P[places_N]

    def _loss(self, inputs: tuple[Tensor, ...], items_N: Tensor) -> Tensor:
        """The mean loss of this rank's share of a batch: softmax over all items."""
        from torch.nn import functional

        return functional.cross_entropy(self.model(*inputs, self.attributes_IA), items_N)

    def train_block(self, num_samples: int) -> Block:
        """Train on whole global batches until `num_samples` are consumed; wait for the device once, at the end."""
        import torch

        steps = -(-num_samples // self.recipe.global_batch_size)
        total_loss = torch.zeros((), device=self.device)
        data_wait_s = 0.0
        self.model.train()
        for _ in range(steps):
            waiting_since = perf_counter()
            batch = self._next_batch()
            data_wait_s += perf_counter() - waiting_since
            total_loss += self.execution.step(self._loss, [batch], self.learning_rate(self.recipe, self.step))
            self.step += 1
        mean_loss = self.accelerator.reduce(total_loss, reduction="mean").item() / max(steps, 1)
        return Block(steps * self.recipe.global_batch_size, mean_loss, data_wait_s)

    def predict(self, inputs: Arrays) -> Arrays:
        """`items` (U, 10) int32: for every user the items that rank among the ten best, gathered from all ranks."""
        import numpy as np
        import torch
        from accelerate.utils import gather_object

        parts = []
        self.network.eval()
        with torch.inference_mode():
            for first in range(0, len(self.test_users_U), EVAL_BATCH):
                chunk = slice(first, first + EVAL_BATCH)
                history_NL = self.line_P[self.test_places_U[chunk, None] + self.back_L]
                known = (history_NL, self.test_contexts_UF[chunk], self.sides_US[self.test_users_U[chunk]])
                parts.append(best_items(self.network(*known, self.attributes_IA), self.taken_UI[chunk]))
            own_UB = torch.cat(parts).to(torch.int32).cpu().numpy()
        self.network.train()
        items_UB = np.empty((self.num_test, NUM_BEST), np.int32)
        for rank, its_UB in enumerate(gather_object([own_UB])):
            items_UB[rank :: self.num_ranks] = its_UB
        return {"items": items_UB}

    def save(self, folder: Path) -> None:
        """Keep network, optimizer, scaler and generator, and the place in the epoch."""
        checkpoint.save(self, folder, ("epoch", "cursor", "order_N"))

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        checkpoint.load(self, folder)

    def close(self) -> None:
        """Release the network and the data."""
        if hasattr(self, "execution"):
            self.execution.close()
        self.__dict__.clear()


def best_items(scores_NI: Tensor, taken_NI: Tensor) -> Tensor:
    """The items that at most ten untaken items, themselves included, score at least as high as: (N, 10), -1 for none.

    Of items tied around the tenth place none is returned, so a constant score returns nothing. A score that is not a
    number is at least as high as any, and is not returned. The taken items' scores are overwritten.
    """
    # NaN is torch's largest value, and here equal to infinity.
    best_NB, items_NB = scores_NI.masked_fill_(taken_NI, float("-inf")).topk(NUM_BEST + 1, dim=1)
    limit_N1 = best_NB[:, NUM_BEST:].nan_to_num(float("inf"), float("inf"), float("-inf"))
    return items_NB[:, :NUM_BEST].masked_fill(~(best_NB[:, :NUM_BEST] > limit_N1), -1)  # NaN exceeds nothing
