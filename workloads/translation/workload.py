"""Translation: AdamW on an encoder-decoder until the BLEU of greedy test-set translations is good enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N sentences, S source pieces, T target pieces, V vocabulary; a batch is this rank's share.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, UsageError, unknown_name
from harness.workload import Arrays, Block, RunConfig, texts_to_bytes
from workloads import checkpoint
from workloads.translation.recipe import NAME, Recipe
from workloads.translation.subwords import END, PAD, START, Subwords

if TYPE_CHECKING:
    from torch import Tensor

SUITES = ("mini", "standard")
EVAL_BATCH = {"mini": 100, "standard": 500}  # sentences of similar length translated at once
BUCKET_BATCHES = 20  # this many batches of pairs are sorted by length together, then divided into batches
STEP = 4  # every so many pieces, decoding looks for finished translations
# Lengths are padded to multiples of this. On a CPU padding costs its operations; on an accelerator, which a small step
# does not fill, few shapes are worth more: each is compiled or captured once.
GRID = {"mini": STEP, "standard": 16}
WARM_UP_GRID = 16


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
        metadata: Mapping[str, Any] = config.metadata
        for key in ("vocabulary", "max_length", "max_excess", "num_train", "num_test"):
            if key not in metadata:
                raise DataError(f"metadata.json of {NAME}_{config.suite} lacks {key!r}; prepare the data again")
        self._check_fits(int(metadata["num_train"]))
        self.subwords = Subwords(metadata["vocabulary"])
        self.num_pieces = len(self.subwords.vocabulary)
        self.grid = GRID[config.suite]
        self.max_length = _rounded(int(metadata["max_length"]), self.grid)
        self.max_excess = int(metadata["max_excess"])

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
        from workloads.translation.model import build_model, build_optimizer

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        recipe, parts = self.recipe, self.config.parts
        # A translation may be longer than any sentence in the data, by the excess that decoding allows.
        num_positions = self.max_length + self.max_excess
        self.build_model = partial(
            parts.get("build_model", build_model), self.config.suite, self.num_pieces, num_positions, recipe
        )
        optimizer = parts.get("build_optimizer", build_optimizer)
        self.learning_rate = parts.get("learning_rate", Recipe.learning_rate)
        self.model, self.network = self.execution.wrap(self.build_model(), optimizer, recipe)
        self._warm_up()

    def _warm_up(self) -> None:
        """Run training and evaluation on noise; with the grid of `standard`, every shape of training."""
        import torch

        share = self.recipe.global_batch_size // self.num_ranks
        widths = [*range(WARM_UP_GRID, self.max_length, WARM_UP_GRID), self.max_length]
        noise = torch.randint(START, self.num_pieces, (share, self.max_length + 1)).to(self.device)
        scale = torch.full((), 1 / noise.numel(), device=self.device)
        shapes = [(noise[:, :source], noise[:, : target + 1], scale) for source in widths for target in widths]
        self.execution.warm_up(self._loss, [[part] for part in shapes])
        size = min(EVAL_BATCH[self.config.suite], int(str(self.config.metadata["num_test"])))
        noise = torch.full((size, STEP), END, dtype=torch.int64, device=self.device)
        self._translated(noise, torch.full((size,), STEP, device=self.device))

    def initialise(self) -> None:
        """Draw the weights, and return optimizer, scaler and generators to where they begin."""
        import torch

        self.execution.restart(self.build_model().state_dict())
        # Epochs and batches come from this generator alone, so every rank draws the same ones.
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
        """Read training pairs and test sources.

        Raises:
            DataError: a file is missing, damaged, or not what `metadata.json` says.
            UsageError: the training set is smaller than one global batch.
        """
        import numpy as np
        import torch

        from workloads.translation.data import read_pieces, read_split

        sources, targets = read_split(data_dir, "train")
        test_sources = read_pieces(data_dir, "test", "sources")
        for name, array in (("train_sources", sources), ("train_targets", targets), ("test_sources", test_sources)):
            if array.max() >= self.num_pieces or array.shape[1] > self.max_length:
                raise DataError(
                    f"{data_dir}/{name}.npy: pieces up to {array.max()}, sentences up to {array.shape[1]}; "
                    f"metadata.json says {self.num_pieces} pieces and sentences up to {self.max_length}"
                )
        self.num_test = len(test_sources)
        self.num_train = len(sources)
        self._check_fits(self.num_train)
        # Lengths stay on the host: they determine shapes, and no step should have to read one from the device.
        self.source_lengths_N = torch.from_numpy((sources != PAD).sum(1))
        self.target_lengths_N = torch.from_numpy((targets != PAD).sum(1)) - 1  # the predicted pieces: all but START
        self.sources_NS, self.targets_NT = (
            torch.from_numpy(_wide(array, _rounded(array.shape[1], self.grid) + extra)).to(self.device)
            for array, extra in ((sources, 0), (targets, 1))
        )
        # Longest first, every num_ranks-th to this rank: no padding with duplicates, so none is translated twice.
        lengths_N = (test_sources != PAD).sum(1)
        order_N = np.argsort(-lengths_N, kind="stable")[self.rank :: self.num_ranks]
        self.test_order = order_N.tolist()
        self.test_lengths_N = torch.from_numpy(lengths_N[order_N]).to(self.device)
        self.test_widths = lengths_N[order_N].tolist()
        self.test_sources_NS = torch.from_numpy(test_sources[order_N].astype(np.int64)).to(self.device)
        self._new_epoch()

    def _new_epoch(self) -> None:
        """Draw an order, sort it by length within stretches of batches, divide it, and draw the order of the batches.

        Pairs that do not fill a last batch are dropped; they differ from epoch to epoch.
        """
        import torch

        batch = self.recipe.global_batch_size
        order_N = torch.randperm(self.num_train, generator=self.draws)[: self.num_train // batch * batch]
        rows = []
        for stretch_N in torch.split(order_N, BUCKET_BATCHES * batch):
            key_N = self.target_lengths_N[stretch_N] * 10_000 + self.source_lengths_N[stretch_N]
            rows.append(stretch_N[key_N.argsort(stable=True)].view(-1, batch))
        batches_BN = torch.cat(rows)
        batches_BN = batches_BN[torch.randperm(len(batches_BN), generator=self.draws)]
        # Widths and counts of every batch over all its ranks, so that every rank has the same shapes.
        self.source_widths = self.source_lengths_N[batches_BN].amax(1).tolist()
        self.target_widths = self.target_lengths_N[batches_BN].amax(1).tolist()
        num_predicted_B = self.target_lengths_N[batches_BN].sum(1)
        self.scales_B = (self.num_ranks / num_predicted_B.double()).float().to(self.device)
        # Every num_ranks-th of a sorted batch, so that ranks have sentences of similar lengths.
        self.batches_BN = batches_BN[:, self.rank :: self.num_ranks].to(self.device)
        self.cursor = 0

    def _next_batch(self) -> tuple[Tensor, Tensor, Tensor]:
        """This rank's share of the next global batch (sources_NS, targets_NT), and the scale of its loss: the number of
        ranks over the number of pieces that the whole batch predicts."""
        if self.cursor == len(self.batches_BN):
            self._new_epoch()
        at = self.cursor
        self.cursor += 1
        chosen_N = self.batches_BN[at]
        sources_NS = self.sources_NS[chosen_N, : _rounded(self.source_widths[at], self.grid)].long()
        targets_NT = self.targets_NT[chosen_N, : _rounded(self.target_widths[at], self.grid) + 1].long()
        return sources_NS, targets_NT, self.scales_B[at]

    def _loss(self, sources_NS: Tensor, targets_NT: Tensor, scale: Tensor) -> Tensor:
        """This rank's part of the global batch's mean loss times the number of ranks: its summed loss times `scale`.

        Gradients are averaged over the ranks, so they become those of the mean over all pieces of the batch.
        """
        from torch.nn import functional

        logits_NTV = self.model(sources_NS, targets_NT[:, :-1])
        total = functional.cross_entropy(
            logits_NTV.flatten(0, 1),
            targets_NT[:, 1:].flatten(),
            ignore_index=PAD,
            reduction="sum",
            label_smoothing=self.recipe.label_smoothing,
        )
        loss: Tensor = total * scale
        return loss

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
        """`translations`: greedy ones of the whole test set, in its order, as bytes, gathered from all ranks."""
        from accelerate.utils import gather_object

        mine = list(zip(self.test_order, self.translate(), strict=True))
        translations = dict(gather_object(mine))
        return {"translations": texts_to_bytes(translations[i] for i in range(self.num_test))}

    def translate(self) -> list[str]:
        """This rank's test sentences in German, in the order of `test_order`."""
        size = EVAL_BATCH[self.config.suite]
        texts = []
        self.network.eval()
        for first in range(0, len(self.test_order), size):
            sources_NS = self.test_sources_NS[first : first + size, : self.test_widths[first]]
            limits_N = self.test_lengths_N[first : first + size] + self.max_excess
            texts += [self.subwords.decode(row) for row in self._translated(sources_NS, limits_N).tolist()]
        self.network.train()
        return texts

    def _translated(self, sources_NS: Tensor, limits_N: Tensor) -> Tensor:
        """Pieces (N, T), the likeliest at every step; those after an END are meaningless.

        limits_N: the maximum number of pieces of each translation, including its END.
        """
        import torch

        n, width = len(sources_NS), sources_NS.shape[1] + self.max_excess
        with torch.inference_mode(), self.accelerator.autocast():
            pieces_NT = torch.full((n, width), END, dtype=torch.int64, device=self.device)
            rows_N = torch.arange(n, device=self.device)
            last_N = torch.full((n,), START, dtype=torch.int64, device=self.device)
            done_N = torch.zeros(n, dtype=torch.bool, device=self.device)
            too_late_NT = torch.arange(width, device=self.device) >= limits_N[:, None]
            state = self.network.begin(sources_NS)
            for t in range(width):
                last_N = self.network.step(state, last_N).argmax(1)
                pieces_NT[rows_N, t] = last_N
                done_N |= (last_N == END) | (limits_N <= t + 1)
                if t % STEP == STEP - 1:
                    # Reading from the device costs a wait; continuing finished sentences costs their steps.
                    unfinished_N = (~done_N).nonzero()[:, 0]
                    if len(unfinished_N) == 0:
                        break
                    if len(unfinished_N) < len(rows_N):
                        state.keep(unfinished_N)
                        rows_N, last_N = rows_N[unfinished_N], last_N[unfinished_N]
                        limits_N, done_N = limits_N[unfinished_N], done_N[unfinished_N]
            return pieces_NT.masked_fill_(too_late_NT, END)

    def save(self, folder: Path) -> None:
        """Keep network, optimizer, scaler and generator, and the place in the epoch."""
        checkpoint.save(self, folder, ("cursor", "source_widths", "target_widths", "scales_B", "batches_BN"))

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        checkpoint.load(self, folder)

    def close(self) -> None:
        """Release the network and the data."""
        if hasattr(self, "execution"):
            self.execution.close()
        self.__dict__.clear()


def _rounded(length: int, grid: int) -> int:
    """Round up to a multiple of `grid`."""
    return -(-length // grid) * grid


def _wide(array: Any, width: int) -> Any:
    """Pad the rows with PAD up to `width`."""
    import numpy as np

    return np.pad(array, ((0, 0), (0, max(0, width - array.shape[1]))))
