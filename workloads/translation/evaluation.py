"""The quality of translation: BLEU of the test set's translations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.errors import DataError
from harness.workload import Arrays, Quality, texts_from_bytes
from workloads.translation.data import read_pieces, read_text


class Bleu:
    """sacrebleu's BLEU of `translations`, German texts in the order of the test set, against its references."""

    def __init__(self, data_dir: Path, labels_dir: Path) -> None:
        """Raises DataError if the references are missing, damaged, or not those of the sources."""
        from sacrebleu.metrics.bleu import BLEU

        references = read_text(labels_dir, "test", "de")
        self._num_test = len(read_pieces(data_dir, "test", "sources"))
        if len(references) != self._num_test:
            raise DataError(f"{labels_dir}/test.de: {len(references)} sentences for {self._num_test} sources")
        self._metric = BLEU(references=[references])  # their n-grams are counted here, once

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        """Return BLEU, with sacrebleu's signature.

        Raises:
            ValueError: the predictions are not one text for each test sentence.
        """
        translations = texts_from_bytes(predict({}).get("translations"), self._num_test, "translations")
        value = float(self._metric.corpus_score(translations, None).score)
        return Quality(value, self._num_test, str(self._metric.get_signature()))


class FullBleu(Bleu):
    """The same without regard to case, as MLPerf's reference takes it ("BLEU uncased")."""

    def __init__(self, labels_dir: Path) -> None:
        """Raises DataError if the references are missing or damaged."""
        from sacrebleu.metrics.bleu import BLEU

        references = read_text(labels_dir, "test", "de")
        self._num_test = len(references)
        self._metric = BLEU(lowercase=True, references=[references])
