"""The utterances of the full suite on their way from a shard to a batch: padded, with their masks and characters.

Dimension letters: N utterances, S samples, W characters, K masks.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workloads.speech_recognition.librispeech import ALPHABET
from workloads.speech_recognition.recipe import FullRecipe
from workloads.streaming.order import Ints, Order, shuffled

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

HOP = 160  # samples, 10 ms: those of a spectrum
NUM_BANDS = 80
GRID = 128  # spectra: batches are padded to a multiple of this, so that few shapes occur
TOKENS = {character: token for token, character in enumerate(ALPHABET, 1)}  # 0 is CTC's blank


def padded(num_spectra: int) -> int:
    """Number of spectra in a batch whose longest utterance has `num_spectra`."""
    return -(-num_spectra // GRID) * GRID


def bucketed(lengths_N: Ints, batch_size: int, batches_per_pool: int, seed: int) -> Order:
    """The order of training: a permutation, of which `batches_per_pool` global batches at a time are sorted by length
    and divided again; then all batches of the epoch are shuffled.

    Every utterance still occurs once; what fills no last batch is left out.
    """
    permuted = shuffled(len(lengths_N), batch_size, seed)

    def epoch_batches(epoch: int) -> Sequence[Ints]:
        order_N = np.asarray(permuted(epoch), np.int64).reshape(-1)
        pool_size = batch_size * batches_per_pool
        pools = [order_N[first : first + pool_size] for first in range(0, len(order_N), pool_size)]
        sorted_N = np.concatenate([pool[lengths_N[pool].argsort(kind="stable")] for pool in pools] or [order_N])
        batches = sorted_N.reshape(-1, batch_size)
        random = np.random.RandomState(
            [seed & 0xFFFFFFFF, seed >> 32, epoch, 1]
        )  # another stream than that of `shuffled`
        return [batches[number] for number in random.permutation(len(batches))]

    return epoch_batches


def load_training(rows: pa.Table, seeds: Ints, *, recipe: FullRecipe) -> tuple[Any, ...]:
    """audio_NS (int16), spectra_N, characters_NW (zeros at the end), masks_NK2 (first and number; those of bands come
    first), and as numbers that stay on the host the spectra and the characters of each utterance."""
    import torch

    audio_NS, spectra = _padded_audio(rows)
    texts = [[TOKENS[character] for character in text] for text in rows["text"].to_pylist()]
    characters_NW = np.zeros((len(texts), max(map(len, texts))), np.int64)
    for row_W, text in zip(characters_NW, texts, strict=True):
        row_W[: len(text)] = text
    drawn = [masks(int(seed), length, recipe) for seed, length in zip(seeds, spectra, strict=True)]
    masks_NK2 = np.array(drawn, np.int64).reshape(len(drawn), -1, 2)
    return (
        torch.from_numpy(audio_NS), torch.tensor(spectra), torch.from_numpy(characters_NW),
        torch.from_numpy(masks_NK2), spectra, [len(text) for text in texts],
    )  # fmt: skip


def load_test(rows: pa.Table, seeds: Ints, *, batch_size: int) -> tuple[Tensor, list[int]]:
    """audio_NS (int16), filled up to `batch_size`, and the number of spectra of each utterance."""
    import torch

    audio_NS, spectra = _padded_audio(rows)
    return torch.from_numpy(np.pad(audio_NS, ((0, batch_size - len(audio_NS)), (0, 0)))), spectra


def _padded_audio(rows: pa.Table) -> tuple[npt.NDArray[np.int16], list[int]]:
    contents = rows["audio"].to_pylist()
    spectra = [len(content) // 2 // HOP for content in contents]
    audio_NS = np.zeros((len(contents), padded(max(spectra)) * HOP), np.int16)
    for row_S, content in zip(audio_NS, contents, strict=True):
        samples_S = np.frombuffer(content, "<i2")[: len(row_S)]
        row_S[: len(samples_S)] = samples_S
    return audio_NS, spectra


def masks(seed: int, num_spectra: int, recipe: FullRecipe) -> list[tuple[int, int]]:
    """First place and width of each mask: SpecAugment's, of bands and then of spectra, as `seed` determines them."""
    random = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32])
    widest = int(recipe.data_mask_time_fraction * num_spectra)
    found = []
    for count, most, size in (
        (recipe.data_num_band_masks, recipe.data_mask_bands, NUM_BANDS),
        (recipe.data_num_time_masks, widest, num_spectra),
    ):
        for _ in range(count):
            width = random.randint(0, most + 1)
            found.append((random.randint(0, size - width + 1), width))
    return found
