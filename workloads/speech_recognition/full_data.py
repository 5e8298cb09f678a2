"""The data of the full suite: LibriSpeech as shards of samples with their texts.

`train/` and `test/` are Arrow shards: the samples of an utterance (int16, little-endian, 16 kHz), their number, and for
training the text. `test_words.npy` (uint8) has the texts of the test set as UTF-8, separated by newlines. Test
utterances are sorted by length, so that a batch has little padding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import DataError, printable
from harness.workload import texts_from_bytes, texts_to_bytes
from workloads.speech_recognition import librispeech
from workloads.speech_recognition.librispeech import Recording

ROWS_PER_SHARD = 500  # 200 MB
Part = tuple[Sequence[Recording], bool]  # whether it is for training: then its rows have the texts


def prepare(
    data_dir: Path,
    source: Path,
    num_utterances: Mapping[str, int] = librispeech.NUM_UTTERANCES,
    sha256: Mapping[str, str] = librispeech.SHA256,
) -> None:
    """Fill `data_dir` from the folder `source`: LibriSpeech in either layout.

    Raises:
        DataError: a file is missing, damaged, or not the official one.
        MissingDependencyError: there is no decoder for FLAC.
    """
    import datasets

    from workloads.streaming.shards import Shards

    downloads = data_dir.parent / "downloads"
    downloads.mkdir(exist_ok=True)
    found = librispeech.recordings(source, downloads, num_utterances, sha256)
    found["test"].sort(key=lambda recording: librispeech.num_samples(recording.path))
    value = datasets.Value
    features = {"audio": value("binary"), "num_samples": value("int32")}
    longest = 0
    with Shards(data_dir) as shards:
        for split, some in found.items():
            is_training = split == "train"
            parts = [
                (tuple(some[first : first + ROWS_PER_SHARD]), is_training)
                for first in range(0, len(some), ROWS_PER_SHARD)
            ]
            columns = datasets.Features({**features, **({"text": value("string")} if is_training else {})})
            shards.write(split, columns, parts, rows)
            longest = max(longest, int(shards.read(split).data.column("num_samples").to_numpy().max()))
    np.save(data_dir / "test_words.npy", texts_to_bytes(recording.text for recording in found["test"]))
    metadata = {
        "suite": "full",
        "source": "LibriSpeech",
        "sample_hz": librispeech.SAMPLE_HZ,
        "vocabulary": list(librispeech.ALPHABET),
        "max_samples": longest,
        "num_train": len(found["train"]),
        "num_test": len(found["test"]),
    }
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def rows(part: Part) -> Iterator[Mapping[str, Any]]:
    """The examples of a shard."""
    some, is_training = part
    for recording in some:
        audio = librispeech.samples(recording.path)
        row = {"audio": audio, "num_samples": len(audio) // 2}
        yield {**row, "text": recording.text} if is_training else row


def read_texts(labels_dir: Path, num_texts: int) -> list[str]:
    """Read the texts of the test set.

    Raises:
        DataError: the file is missing, damaged, or does not have as many.
    """
    path = labels_dir / "test_words.npy"
    try:
        return texts_from_bytes(np.load(path), num_texts, "texts")
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
