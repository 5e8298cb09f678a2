"""The quality of speech recognition: the word error rate on the test set.

Dimension letters: N utterances, W words of the reference, U words of the hypothesis.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, printable
from harness.workload import Arrays, Quality, texts_from_bytes
from workloads.speech_recognition.data import read_words


class WordErrorRate:
    """Counts the errors of `transcripts`, the words heard in each test utterance, separated by spaces."""

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the transcripts are missing, damaged, or not those of the data."""
        try:
            metadata = json.loads((data_dir / "metadata.json").read_text(encoding="utf-8"))
            self._tokens = {str(word): token for token, word in enumerate(metadata["vocabulary"], 1)}
            num_test, self._max_words = int(metadata["num_test"]), int(metadata["max_hops"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{data_dir}/metadata.json cannot be read: {printable(error)}") from None
        self._words_NW = read_words(labels_dir, "test")
        if len(self._words_NW) != num_test or self._words_NW.max() > len(self._tokens):
            raise DataError(
                f"{labels_dir}/test_words.npy: {len(self._words_NW)} transcripts with tokens up to "
                f"{self._words_NW.max()}; metadata.json says {num_test} and {len(self._tokens)}"
            )
        self._num_words = int((self._words_NW > 0).sum())

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return substituted, missing and inserted words, divided by the number of spoken words.

        Raises:
            ValueError: the predictions are not a transcript in words of the vocabulary for each test utterance.
        """
        texts = texts_from_bytes(predict({}).get("transcripts"), len(self._words_NW), "transcripts")
        heard = [text.split() for text in texts]
        if max(map(len, heard)) > self._max_words:
            raise ValueError(f"expected transcripts of at most {self._max_words:,} words")
        if unknown := {word for words in heard for word in words} - self._tokens.keys():
            raise ValueError(f"expected words of the vocabulary, found {printable(min(unknown))!r}")
        heard_NU = np.zeros((len(heard), max(map(len, heard))), np.int64)
        for row_U, words in zip(heard_NU, heard, strict=True):
            row_U[: len(words)] = [self._tokens[word] for word in words]
        return Quality(int(word_errors(heard_NU, self._words_NW).sum()) / self._num_words, len(heard))


def word_errors(heard_NU: npt.NDArray[np.int64], spoken_NW: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Levenshtein distances (N,) over words, between rows of tokens (from 1) padded with zeros.

    One pass per reference word: each row of the table follows from the previous one by minima, and insertions within
    it by a running minimum, so there is no loop over utterances.
    """
    steps_U = np.arange(heard_NU.shape[1] + 1)
    row_NU = np.tile(steps_U, (len(heard_NU), 1))
    for word_N in spoken_NW.T:
        is_other_NU = heard_NU != word_N[:, None]
        best_NU = np.minimum(row_NU[:, 1:] + 1, row_NU[:, :-1] + is_other_NU)
        best_NU = np.concatenate([row_NU[:, :1] + 1, best_NU], axis=1)
        following_NU = np.minimum.accumulate(best_NU - steps_U, axis=1) + steps_U
        row_NU = np.where(word_N[:, None] > 0, following_NU, row_NU)
    errors_N: npt.NDArray[np.int64] = np.take_along_axis(row_NU, (heard_NU > 0).sum(1)[:, None], axis=1)[:, 0]
    return errors_N
