"""The quality of the full suite: the word error rate on LibriSpeech's two parts `dev` together.

Dimension letters: N utterances, W words of the reference, U words of the hypothesis.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, printable
from harness.workload import Arrays, Quality, texts_from_bytes
from workloads.speech_recognition.evaluation import word_errors
from workloads.speech_recognition.full_data import read_texts

SAMPLES_PER_WORD = 1_280  # at least: a word is a character and a space, a frame of 40 ms each


class FullWordErrorRate:
    """Counts the errors of `transcripts`, the words heard in each test utterance, separated by spaces."""

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the texts are missing, damaged, or not those of the data."""
        try:
            metadata = json.loads((data_dir / "metadata.json").read_text(encoding="utf-8"))
            num_test = int(metadata["num_test"])
            self._max_words = int(metadata["max_samples"]) // SAMPLES_PER_WORD + 1
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{data_dir}/metadata.json cannot be read: {printable(error)}") from None
        self._spoken = [text.split() for text in read_texts(labels_dir, num_test)]

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return substituted, missing and inserted words, divided by the number of spoken words.

        Raises:
            ValueError: the predictions are not a transcript for each test utterance.
        """
        texts = texts_from_bytes(predict({}).get("transcripts"), len(self._spoken), "transcripts")
        heard = [text.split() for text in texts]
        if max(map(len, heard)) > self._max_words:
            raise ValueError(f"expected transcripts of at most {self._max_words:,} words")
        tokens: dict[str, int] = {}
        heard_NU, spoken_NW = _numbered(heard, tokens), _numbered(self._spoken, tokens)
        return Quality(int(word_errors(heard_NU, spoken_NW).sum()) / int((spoken_NW > 0).sum()), len(heard))


def _numbered(texts: list[list[str]], tokens: dict[str, int]) -> npt.NDArray[np.int64]:
    """Words as numbers from 1, padded with zeros; `tokens` has the numbers given so far."""
    numbered_NW = np.zeros((len(texts), max(map(len, texts))), np.int64)
    for row_W, words in zip(numbered_NW, texts, strict=True):
        row_W[: len(words)] = [tokens.setdefault(word, len(tokens) + 1) for word in words]
    return numbered_NW
