"""Utterances as mu-law codes with their words, and the splits made of them.

Dimension letters: N utterances, W words, S samples.
"""

from __future__ import annotations

# ruff: noqa: N803 (dimension letters)
import dataclasses

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]

SAMPLE_HZ = 8000
HOP = 80  # samples, 10 ms; an utterance is a whole number of them
WINDOW_HOPS = 4  # the most hops that a spectrum's window spans
LEVELS = np.array(
    sorted({s * (((2 * m + 33) << e) - 33) * 4 for e in range(8) for m in range(16) for s in (-1, 1)}), np.int32
)
SILENCE = 127  # the level 0
_BETWEEN = (LEVELS[1:] + LEVELS[:-1] + 1) // 2


@dataclasses.dataclass(frozen=True, slots=True)
class Utterances:
    """Spoken utterances: the mu-law codes (uint8) and the words of each."""

    audio: list[Bytes]
    words: list[list[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """One prepared split: audio (S,) uint8, hops (N,) int32, words (N, W) uint8."""

    audio: Bytes
    hops: Ints
    words: Bytes


def encoded(samples_S: npt.NDArray[np.int64]) -> Bytes:
    """Codes of the nearest of the 255 levels (ties go up), with up to 79 samples of silence to fill the last hop."""
    codes = np.searchsorted(_BETWEEN, samples_S, side="right").astype(np.uint8)
    return np.pad(codes, (0, -len(codes) % HOP), constant_values=SILENCE)
