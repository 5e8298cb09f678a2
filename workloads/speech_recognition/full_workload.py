"""Speech recognition at full size: a Conformer on LibriSpeech, whose utterances are read while training.

Nothing here knows the target. Heavy libraries are imported when a session is prepared, not when this module is.

Dimension letters: N utterances, W characters, S samples, T spectra (10 ms), M bands, U output frames, V tokens,
K masks; a batch is a part of this rank's share.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.workload import Arrays, RunConfig, texts_to_bytes
from workloads.speech_recognition.recipe import FullRecipe
from workloads.streaming.session import StreamedSession

if TYPE_CHECKING:
    from torch import Tensor

    from workloads.streaming.loader import Examples
    from workloads.streaming.order import Order


class FullSession(StreamedSession[FullRecipe]):
    """One run. A rank holds the batches that are being made, and nothing else of the data."""

    recipe_type = FullRecipe
    metadata_keys = ("vocabulary", "max_samples")
    eval_batch = 32  # utterances; the last batch is filled up

    def __init__(self, config: RunConfig) -> None:
        """Raises UsageError for an invalid hyperparameter or number of devices, DataError for incomplete metadata."""
        super().__init__(config)
        self.vocabulary = [str(character) for character in self.metadata["vocabulary"]]
        self.max_samples = int(self.metadata["max_samples"])

    def _build(self) -> None:
        from workloads.speech_recognition.full_audio import NUM_BANDS
        from workloads.speech_recognition.full_model import FrontEnd, build_model
        from workloads.speech_recognition.model import build_optimizer

        self._wrap(build_model, (NUM_BANDS, len(self.vocabulary) + 1, self.recipe), build_optimizer)
        self.spectra = FrontEnd().to(self.device)
        self.microbatch = -(-self.share // self.execution.num_parts)

    def _warm_up(self) -> None:
        """Run every shape of training and evaluation on noise."""
        import torch

        from workloads.execution import batch_sizes
        from workloads.speech_recognition.full_audio import GRID, HOP, padded

        num_masks = self.recipe.data_num_band_masks + self.recipe.data_num_time_masks
        for length in range(GRID, padded(self.max_samples // HOP) + 1, GRID):
            for size in batch_sizes(self.share, self.microbatch):
                part = (
                    torch.randint(-1000, 1000, (size, length * HOP), dtype=torch.int16).to(self.device),
                    torch.full((size,), length, device=self.device),
                    torch.ones(size, length // 16, dtype=torch.int64, device=self.device),
                    torch.zeros(size, num_masks, 2, dtype=torch.int64, device=self.device),
                    [length] * size,
                    [length // 16] * size,
                )
                self._step([part], 0.0)
            audio_NS = torch.zeros(self.eval_batch, length * HOP, dtype=torch.int16, device=self.device)
            self._transcripts(audio_NS, [length])

    def _open(self, data_dir: Path) -> tuple[Examples, Order, Examples]:
        """Utterances of similar lengths make a batch."""
        from workloads.speech_recognition.full_audio import bucketed, load_test, load_training
        from workloads.streaming import loader, shards

        lengths_N, test_lengths_N = (
            shards.read(data_dir / split).data.column("num_samples").to_numpy() for split in ("train", "test")
        )
        self._check_announced(data_dir, max_samples=int(max(lengths_N.max(), test_lengths_N.max())))
        recipe = self.recipe
        return (
            loader.Examples(data_dir / "train", partial(load_training, recipe=recipe)),
            bucketed(lengths_N, recipe.global_batch_size, recipe.data_bucket_batches, self.config.seed),
            loader.Examples(data_dir / "test", partial(load_test, batch_size=self.eval_batch)),
        )

    def _loss(
        self,
        audio_NS: Tensor,
        spectra_N: Tensor,
        characters_NW: Tensor,
        masks_NK2: Tensor,
        spectra: list[int],
        num_characters: list[int],
    ) -> Tensor:
        """This part's share of the mean loss of this rank's share, per spoken character."""
        import torch
        from torch.nn import functional

        features_NTM = self.spectra(audio_NS, spectra_N, masks_NK2, self.recipe.data_num_band_masks)
        logits_UNV = self.model(features_NTM, spectra_N)
        # Lengths stay on the host, since the loss would fetch them from the device. A text too long for its frames has
        # an infinite loss, which counts as 0.
        loss: Tensor = functional.ctc_loss(
            logits_UNV.float().log_softmax(2),
            characters_NW,
            torch.tensor(_frames(spectra)),
            torch.tensor(num_characters),
            zero_infinity=True,
        )
        part: Tensor = loss * (len(spectra) / self.share)
        return part

    def predict(self, inputs: Arrays) -> Arrays:
        """`transcripts`: the words heard in every test utterance, as bytes, gathered from all ranks."""
        import numpy as np

        heard = [text for audio_NS, spectra in self.testing for text in self._transcripts(audio_NS, spectra)]
        return {"transcripts": texts_to_bytes(self._gathered(np.array(heard, object)))}

    def _transcripts(self, audio_NS: Tensor, spectra: list[int]) -> list[str]:
        """The words heard in the first utterances of a batch, those of `spectra`."""
        import torch

        from workloads.speech_recognition.model import decoded

        lengths = spectra + [1] * (len(audio_NS) - len(spectra))
        spectra_N, frames_N = (torch.tensor(some, device=self.device) for some in (lengths, _frames(lengths)))
        nothing_N02 = torch.zeros(len(audio_NS), 0, 2, dtype=torch.int64, device=self.device)
        with self._evaluating():
            logits_UNV = self.network(self.spectra(audio_NS, spectra_N, nothing_N02, 0), spectra_N)
            heard_NU = decoded(logits_UNV, frames_N)
        texts = ["".join(self.vocabulary[token - 1] for token in row if token) for row in heard_NU.tolist()]
        return [" ".join(text.split()) for text in texts[: len(spectra)]]


def _frames(spectra: list[int]) -> list[int]:
    """Number of the network's output frames for utterances of so many spectra."""
    return [-(-length // 4) for length in spectra]
