"""Speech recognition: AdamW on a small Conformer with CTC until the word error rate on the test set is low enough.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N utterances, W words, S samples, T spectra (10 ms), M bands, U output frames, V tokens; a batch is
this rank's share.
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
from workloads.speech_recognition.recipe import NAME, Recipe

if TYPE_CHECKING:
    from torch import Tensor

SUITES = ("mini", "standard")
GRID = 16  # spectra: batches are padded to a multiple of this, so that few shapes occur
EVAL_BATCH = 200  # most utterances at once; without gradients memory is not a concern
METADATA = ("vocabulary", "max_words", "min_hops", "max_hops", "num_train", "num_test")


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
        for key in METADATA:
            if key not in metadata:
                raise DataError(f"metadata.json of {NAME}_{config.suite} lacks {key!r}; prepare the data again")
        self._check_fits(int(metadata["num_train"]))
        self.vocabulary = [str(word) for word in metadata["vocabulary"]]
        self.num_tokens = len(self.vocabulary) + 1
        self.max_words = int(metadata["max_words"])
        self.min_hops, self.max_hops = int(metadata["min_hops"]), int(metadata["max_hops"])

    def _check_fits(self, num_train: int) -> None:
        batch = self.recipe.global_batch_size
        if batch > num_train:
            raise UsageError(f"{NAME}: global_batch_size {batch} is larger than the training set of {num_train}")

    def prepare(self) -> None:
        """Build and warm up.

        Raises:
            UsageError: the number of processes started is not the number of devices declared.
        """
        import torch

        from workloads.execution import Execution
        from workloads.speech_recognition.model import NUM_BANDS, LogMel, build_model, build_optimizer

        self.execution = Execution(self.config)
        self.accelerator, self.device = self.execution.accelerator, self.execution.device
        self.rank, self.num_ranks = self.execution.rank, self.execution.num_ranks
        recipe, parts = self.recipe, self.config.parts
        self.build_model = partial(
            parts.get("build_model", build_model), self.config.suite, NUM_BANDS, self.num_tokens, recipe.dropout
        )
        optimizer = parts.get("build_optimizer", build_optimizer)
        self.learning_rate = parts.get("learning_rate", Recipe.learning_rate)
        self.model, self.network = self.execution.wrap(self.build_model(), optimizer, recipe)
        self.front_end = LogMel().to(self.device)
        self.bands_M = torch.arange(NUM_BANDS, device=self.device)
        self._warm_up()

    def _warm_up(self) -> None:
        """Run every shape of training and evaluation on noise."""
        import torch

        from workloads.speech_recognition.dataset import HOP

        share = self.recipe.global_batch_size // self.num_ranks
        self.front_end(torch.zeros(8 * HOP, dtype=torch.uint8, device=self.device), [8])
        words_NW = torch.ones(share, self.max_words, dtype=torch.int64, device=self.device)
        spoken_N = torch.ones(share, dtype=torch.int64)
        for length in range(_padded(self.min_hops), _padded(self.max_hops) + 1, GRID):
            features_NTM = torch.randn(share, length, len(self.bands_M), device=self.device)
            spectra_N = torch.full((share,), length)
            self.execution.warm_up(self._loss, [[(features_NTM, spectra_N, words_NW, spoken_N)]])
            self._heard(features_NTM, spectra_N)

    def initialise(self) -> None:
        """Draw the weights, and return optimizer, scaler and generators to where they begin."""
        import torch

        self.execution.restart(self.build_model().state_dict())
        # Permutations, batch order and shifts come from this generator alone, so every rank draws the same ones.
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
        """Read both splits onto the device and compute their spectra once; no random draw changes them.

        Raises:
            DataError: a file is missing, damaged, or not what `metadata.json` says.
            UsageError: the training set is smaller than one global batch.
        """
        import torch

        from workloads.speech_recognition.data import read_audio, read_split

        train, (test_audio, test_hops) = read_split(data_dir, "train"), read_audio(data_dir, "test")
        for name, hops in (("train", train.hops), ("test", test_hops)):
            if not self.min_hops <= hops.min() <= hops.max() <= self.max_hops:
                raise DataError(
                    f"{data_dir}/{name}_hops.npy: {hops.min()} to {hops.max()} hops; metadata.json says "
                    f"{self.min_hops} to {self.max_hops}"
                )
        if train.words.max() >= self.num_tokens or train.words.shape[1] != self.max_words:
            raise DataError(
                f"{data_dir}/train_words.npy: tokens up to {train.words.max()}, {train.words.shape[1]} words; "
                f"metadata.json says {self.num_tokens - 1} and {self.max_words}"
            )
        self.features_TM, self.test_features_TM = (
            self.front_end(torch.from_numpy(audio).to(self.device), hops.tolist())
            for audio, hops in ((train.audio, train.hops), (test_audio, test_hops))
        )
        self.hops_N, self.words_NW = torch.from_numpy(train.hops).long(), torch.from_numpy(train.words).long()
        self.num_train = len(self.hops_N)
        self._check_fits(self.num_train)
        self.first_N = self.hops_N.cumsum(0) - self.hops_N
        self.spoken_N = (self.words_NW > 0).sum(1)
        self._group_test(torch.from_numpy(test_hops).long())
        self._new_epoch()

    def _group_test(self, hops_N: Tensor) -> None:
        """This rank's test utterances in batches of one padded length, with their numbers.

        Each is padded according to its own length only and belongs to one rank, so its words depend on neither the
        batch nor the number of ranks, and none is heard twice.
        """
        self.num_test = len(hops_N)
        first_N = hops_N.cumsum(0) - hops_N
        self.test_batches: list[tuple[Tensor, Tensor, list[int]]] = []
        padded = [_padded(int(hops)) for hops in hops_N]
        for length in sorted(set(padded)):
            mine = [n for n in range(self.rank, self.num_test, self.num_ranks) if padded[n] == length]
            for begin in range(0, len(mine), EVAL_BATCH):
                chosen = mine[begin : begin + EVAL_BATCH]
                rows_NT = self._rows(first_N[chosen], hops_N[chosen], length, len(self.test_features_TM) - 1)
                self.test_batches.append((rows_NT, _spectra(hops_N[chosen]), chosen))

    def _rows(self, first_N: Tensor, hops_N: Tensor, length: int, nothing: int) -> Tensor:
        """Rows of the features that form a batch of `length` spectra: (N, T) on the device; row `nothing` is zeros."""
        import torch

        steps_T = torch.arange(length)
        rows_NT = torch.where(steps_T < hops_N[:, None], first_N[:, None] + steps_T, nothing)
        return rows_NT.to(self.device, non_blocking=True)

    def _new_epoch(self) -> None:
        """Draw the order and the shifts of all training utterances; those that do not fill a last batch are dropped.

        `data_bucket_batches` global batches at a time are sorted by length and divided again, so that a batch has
        little padding; then the batches of the whole epoch are shuffled. Every utterance still occurs once.
        """
        import torch

        batch, shift = self.recipe.global_batch_size, self.recipe.data_frequency_shift
        order_N = torch.randperm(self.num_train, generator=self.draws)[: self.num_train // batch * batch]
        pools = torch.split(order_N, batch * self.recipe.data_bucket_batches)
        batches = torch.cat([pool[self.hops_N[pool].argsort(stable=True)] for pool in pools]).view(-1, batch)
        self.batches_BN = batches[torch.randperm(len(batches), generator=self.draws)]
        self.shifts_BN = torch.randint(-shift, shift + 1, self.batches_BN.shape, generator=self.draws)
        self.cursor = 0

    def _next_batch(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """This rank's share of the next global batch: features_NTM, spectra_N (host), words_NW, spoken_N (host)."""
        if self.cursor == len(self.batches_BN):
            self._new_epoch()
        whole_N, shifts_N = self.batches_BN[self.cursor], self.shifts_BN[self.cursor]
        self.cursor += 1
        # The length is that of the longest utterance in the global batch, so that all ranks pad alike.
        length = _padded(int(self.hops_N[whole_N].max()))
        mine = slice(self.rank, None, self.num_ranks)
        chosen_N = whole_N[mine]
        hops_N = self.hops_N[chosen_N]
        rows_NT = self._rows(self.first_N[chosen_N], hops_N, length, len(self.features_TM) - 1)
        # Spectra shifted by a band are the same word from a shorter or longer vocal tract.
        shifts_N = shifts_N[mine].to(self.device, non_blocking=True)
        bands_NM = (self.bands_M + shifts_N[:, None]).clamp(0, len(self.bands_M) - 1)
        features_NTM = self.features_TM[rows_NT[:, :, None], bands_NM[:, None, :]]
        words_NW = self.words_NW[chosen_N].to(self.device, non_blocking=True)
        return features_NTM, _spectra(hops_N), words_NW, self.spoken_N[chosen_N]

    def _loss(self, features_NTM: Tensor, spectra_N: Tensor, words_NW: Tensor, spoken_N: Tensor) -> Tensor:
        """The mean loss of this rank's share of a batch, per spoken word."""
        from torch.nn import functional

        logits_UNV = self.model(features_NTM, spectra_N.to(self.device, non_blocking=True))
        frames_N = _frames(spectra_N, features_NTM.shape[1], len(logits_UNV))
        # Lengths stay on the host, since the loss would fetch them from the device. A word sequence too long for its
        # frames has an infinite loss, which counts as 0.
        scores_UNV = logits_UNV.float().log_softmax(2)
        return functional.ctc_loss(scores_UNV, words_NW, frames_N, spoken_N, zero_infinity=True)

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
        """`transcripts`: the words heard in every test utterance, as bytes, gathered from all ranks."""
        from accelerate.utils import gather_object

        self.execution.average_statistics()
        heard = [self._heard(self.test_features_TM[rows_NT], spectra_N) for rows_NT, spectra_N, _ in self.test_batches]
        mine = [
            (n, " ".join(self.vocabulary[token - 1] for token in tokens if token))
            for (_, _, chosen), heard_NU in zip(self.test_batches, heard, strict=True)
            for n, tokens in zip(chosen, heard_NU.tolist(), strict=True)
        ]
        transcripts = dict(gather_object(mine))
        return {"transcripts": texts_to_bytes(transcripts[n] for n in range(self.num_test))}

    def _heard(self, features_NTM: Tensor, spectra_N: Tensor) -> Tensor:
        """The tokens heard in these utterances: (N, U), on the device."""
        import torch

        from workloads.speech_recognition.model import decoded

        self.network.eval()
        with torch.inference_mode():
            logits_UNV = self.network(features_NTM, spectra_N.to(self.device))
            heard_NU = decoded(logits_UNV, _frames(spectra_N, features_NTM.shape[1], len(logits_UNV)).to(self.device))
        self.network.train()
        return heard_NU

    def save(self, folder: Path) -> None:
        """Keep network, optimizer, scaler and generator, and the place in the epoch."""
        checkpoint.save(self, folder, ("cursor", "batches_BN", "shifts_BN"))

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called."""
        checkpoint.load(self, folder)

    def close(self) -> None:
        """Release the network and the data."""
        if hasattr(self, "execution"):
            self.execution.close()
        self.__dict__.clear()


def _padded(hops: int) -> int:
    """Number of spectra in a batch whose longest utterance has `hops` hops."""
    return -(-hops // GRID) * GRID


def _spectra(hops_N: Tensor) -> Tensor:
    """Number of spectra of utterances of `hops_N` hops: the last three windows would reach beyond their ends."""
    return hops_N - 3


def _frames(spectra_N: Tensor, padded_spectra: int, padded_frames: int) -> Tensor:
    """Number of the network's output frames for utterances of `spectra_N` spectra, rounded up."""
    return -(-spectra_N * padded_frames // padded_spectra)
