"""The full suite of translation: Adam on Transformer-big until the BLEU of newstest2014 by beam search is good enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N sentences, S source pieces, T target pieces, V vocabulary; a batch is this rank's share.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.errors import DataError
from harness.workload import Arrays, RunConfig, texts_to_bytes
from workloads.streaming.session import StreamedSession
from workloads.translation.full_recipe import FullRecipe
from workloads.translation.subwords import END, PAD, START

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from torch import Tensor

    from workloads.streaming.loader import Examples
    from workloads.streaming.order import Ints, Order

MAX_EXCESS = 50  # a translation has at most so many pieces more than its source, as in MLPerf's reference
STEP = 8  # lengths are padded to multiples of this: few shapes, and fast ones for matrix units


class FullSession(StreamedSession[FullRecipe]):
    """One run. A global batch is any `global_batch_size` pairs; every rank reads its share of it, sorted by length."""

    recipe_type = FullRecipe
    metadata_keys = ("num_pieces", "max_length", "max_test_length")
    eval_batch = 64  # sentences

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid hyperparameter or number of devices, DataError for incomplete metadata."""
        super().__init__(config)
        self.num_pieces = int(self.metadata["num_pieces"])
        self.max_length = _rounded(int(self.metadata["max_length"]))
        self.num_positions = max(self.max_length, int(self.metadata["max_test_length"]) + MAX_EXCESS)

    def _build(self) -> None:
        from workloads.translation.model import build_full_optimizer, build_model

        self.microbatch = self.execution.part_size(self.share)
        self._wrap(build_model, (self.num_pieces, self.num_positions, self.recipe), build_full_optimizer)

    def _warm_up(self) -> None:
        """Run training and evaluation on noise, the longest first: what it needs is then there for all others."""
        import torch

        from workloads.execution import batch_sizes

        for length in (self.max_length, 4 * STEP, 4 * STEP):
            noise = torch.randint(START, self.num_pieces, (self.microbatch, length + 1)).to(self.device)
            num_predicted = torch.tensor(self.microbatch * length, device=self.device)
            self._step([(noise[:, :-1], noise, num_predicted)] * min(2, self.execution.num_parts), 0.0)
        for size in batch_sizes(self.num_test, self.eval_batch, self.rank, self.num_ranks):
            self._translated(torch.full((size, STEP), END, device=self.device))

    def _open(self, data_dir: Path) -> tuple[Examples, Order, Examples]:
        """Within a batch, pairs are sorted by length; the tokenizer is read, too."""
        from workloads.streaming import loader
        from workloads.streaming.order import shuffled
        from workloads.translation import wmt

        self.tokenizer = wmt.read_tokenizer(data_dir)
        lengths_N2 = wmt.read_lengths(data_dir)
        self._check_announced(data_dir, num_pieces=self.tokenizer.get_vocab_size(), max_length=int(lengths_N2.max()))
        train = loader.Examples(data_dir / "train", load_training)
        if len(lengths_N2) != len(train):
            raise DataError(f"{data_dir}: {len(lengths_N2):,} lengths of {len(train):,} pairs")
        order = shuffled(len(train), self.recipe.global_batch_size, self.config.seed)
        return train, by_length(order, lengths_N2, self.num_ranks), loader.Examples(data_dir / "test", load_test)

    def _loss(self, sources_NS: Tensor, targets_NT: Tensor, num_predicted: Tensor) -> Tensor:
        """This part of the mean loss over the pieces of the global batch, times the number of ranks.

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
        loss: Tensor = total * (self.num_ranks / self.num_predicted)
        return loss

    def _step(self, parts: Sequence[tuple[Tensor, Tensor, Tensor]], learning_rate: float) -> Tensor:
        """Do one update; return this rank's part of the global batch's mean loss times the number of ranks."""
        import torch

        predicted = torch.stack([num_predicted for _, _, num_predicted in parts]).sum()
        self.num_predicted = self.accelerator.reduce(predicted, reduction="sum")
        return super()._step(parts, learning_rate)

    def predict(self, inputs: Arrays) -> Arrays:
        """`translations`: the best of a beam search of the whole test set, in its order, as bytes, from all ranks."""
        from accelerate.utils import gather_object

        mine = []
        for indices_N, sources_NS in self.testing:
            rows = self._translated(sources_NS).tolist()
            texts = [self.tokenizer.decode(row[: row.index(END)] if END in row else row) for row in rows]
            mine += list(zip(indices_N.tolist(), (text.strip() for text in texts), strict=True))
        translations = dict(gather_object(mine))
        return {"translations": texts_to_bytes(translations[i] for i in range(self.num_test))}

    def _translated(self, sources_NS: Tensor) -> Tensor:
        """Pieces (N, T); those from an END on are meaningless."""
        from workloads.translation.beam import translate

        limits_N = (sources_NS != PAD).sum(1) + MAX_EXCESS
        with self._evaluating():
            return translate(self.network, sources_NS, limits_N)


def by_length(order: Order, lengths_N2: npt.NDArray[np.uint8], num_ranks: int) -> Order:
    """The same global batches, each arranged so that every rank's consecutive share is sorted by length, and the ranks
    have sentences of similar lengths."""
    keys_N = lengths_N2[:, 1].astype(np.int64) * 256 + lengths_N2[:, 0]

    def epoch_batches(epoch: int) -> Ints:
        batches = np.asarray(order(epoch))
        batches = np.take_along_axis(batches, keys_N[batches].argsort(1, kind="stable"), 1)
        return np.concatenate([batches[:, rank::num_ranks] for rank in range(num_ranks)], 1)

    return epoch_batches


def load_training(rows: pa.Table, seeds: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
    """sources_NS, targets_NT with START, and the number of pieces that the targets have after it."""
    import torch

    sources_NS, targets_NT = _padded(rows["source"]), _padded(rows["target"], 1)
    num_predicted = int((targets_NT != PAD).sum()) - len(targets_NT)
    return torch.from_numpy(sources_NS), torch.from_numpy(targets_NT), torch.tensor(num_predicted)


def load_test(rows: pa.Table, seeds: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """The places of the sentences in the test set, and sources_NS."""
    import torch

    return torch.from_numpy(rows["index"].to_numpy().astype(np.int64)), torch.from_numpy(_padded(rows["source"]))


def _padded(column: pa.ChunkedArray, extra: int = 0) -> npt.NDArray[np.int64]:
    """Lists of pieces as rows, whose width is a multiple of STEP, and `extra`."""
    lists = column.combine_chunks()
    lengths_N = np.diff(lists.offsets.to_numpy())
    out_NL = np.full((len(lists), _rounded(int(lengths_N.max()) - extra) + extra), PAD, np.int64)
    out_NL[np.arange(out_NL.shape[1]) < lengths_N[:, None]] = lists.flatten().to_numpy()
    return out_NL


def _rounded(length: int) -> int:
    """Round up to a multiple of STEP."""
    return -(-length // STEP) * STEP
