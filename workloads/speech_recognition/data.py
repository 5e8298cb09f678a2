"""The data of speech recognition, in the same form whatever their source.

For train, validation and test: `<split>_audio.npy` (uint8, all utterances of the split concatenated, 8 kHz; a sample
is the index of one of the 255 levels of G.711's mu-law, counted from the lowest), `<split>_hops.npy` (int32, the length
of each utterance in hops of 80 samples), `<split>_words.npy` (uint8, (N, W), tokens from 1, then zeros); and
`metadata.json`.

Dimension letters: N utterances, W words, S samples.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name
from workloads.speech_recognition import fsdd
from workloads.speech_recognition.dataset import HOP, LEVELS, SAMPLE_HZ, WINDOW_HOPS, Bytes, Ints, Split, Utterances
from workloads.speech_recognition.mini import VOCABULARY, render

SUITES = ("mini", "standard", "full")


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with the suite's arrays and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: an unknown suite, or a source for the suite that makes its own data.
        DataError: the source is missing, damaged, or in none of the card's layouts; there is no verified download; or
            the synthesiser is not the benchmark's.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name("suite of speech_recognition", suite, SUITES))
    if suite == "mini":
        if source is not None:
            raise UsageError("speech_recognition_mini makes its own data; leave the source out")
        write(data_dir, suite, render(), VOCABULARY, "spoken by eSpeak NG")
    elif suite == "full":
        from workloads.speech_recognition import full_data

        if source is None:
            raise DataError(
                "LibriSpeech is not downloaded: fetch train-clean-100, train-clean-360, train-other-500, dev-clean and "
                "dev-other (.tar.gz, 61 GB) from https://www.openslr.org/12 into a folder, and pass it as the source"
            )
        full_data.prepare(data_dir, source)
    else:
        recordings, layout = fsdd.read(source) if source is not None else fsdd.download(data_dir.parent / "downloads")
        write(data_dir, suite, fsdd.strings(recordings), fsdd.DIGITS, layout)


def write(
    data_dir: Path, suite: str, splits: Mapping[str, Utterances], vocabulary: tuple[str, ...], source: str
) -> None:
    """Save arrays and metadata. Token 0 is CTC's blank; the words follow in the vocabulary's order."""
    tokens = {word: token for token, word in enumerate(vocabulary, 1)}
    max_words = max(len(words) for split in splits.values() for words in split.words)
    metadata: dict[str, object] = {
        "suite": suite,
        "source": source,
        "sample_hz": SAMPLE_HZ,
        "vocabulary": list(vocabulary),
        "max_words": max_words,
        "min_hops": min(len(audio) for split in splits.values() for audio in split.audio) // HOP,
        "max_hops": max(len(audio) for split in splits.values() for audio in split.audio) // HOP,
    }
    for name, split in splits.items():
        words_NW = np.zeros((len(split.words), max_words), np.uint8)
        for row, words in zip(words_NW, split.words, strict=True):
            row[: len(words)] = [tokens[word] for word in words]
        np.save(data_dir / f"{name}_audio.npy", np.concatenate(split.audio))
        np.save(data_dir / f"{name}_hops.npy", np.array([len(audio) // HOP for audio in split.audio], np.int32))
        np.save(data_dir / f"{name}_words.npy", words_NW)
        metadata[f"num_{name}"] = len(split.words)
    (data_dir / "metadata.json").write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_split(data_dir: Path, split: str, labels_dir: Path | None = None) -> Split:
    """Read one prepared split. labels_dir: where its transcripts are; None for `data_dir`.

    Raises:
        DataError: a file is missing, damaged, or does not match the others; the message names it.
    """
    audio, hops = read_audio(data_dir, split)
    words = read_words(labels_dir or data_dir, split)
    if len(hops) != len(words):
        raise DataError(f"{data_dir}: {len(hops)} {split} lengths but {len(words)} transcripts")
    return Split(audio, hops, words)


def read_audio(data_dir: Path, split: str) -> tuple[Bytes, Ints]:
    """Read the audio (S,) and the hops (N,) of one prepared split.

    Raises:
        DataError: a file is missing, damaged, or does not match the other; the message names it.
    """
    audio: Bytes = _load(data_dir / f"{split}_audio.npy", np.dtype(np.uint8), 1)
    hops: Ints = _load(data_dir / f"{split}_hops.npy", np.dtype(np.int32), 1)
    if hops.min() <= WINDOW_HOPS or int(hops.sum(dtype=np.int64)) * HOP != len(audio):
        raise DataError(f"{data_dir}: {split}_hops.npy does not match the {len(audio):,} samples of {split}_audio.npy")
    if audio.max() >= len(LEVELS):
        raise DataError(f"{data_dir}/{split}_audio.npy: sample {audio.max()}, expected 0 to {len(LEVELS) - 1}")
    return audio, hops


def read_words(labels_dir: Path, split: str) -> Bytes:
    """Read the transcripts of one prepared split, (N, W).

    Raises:
        DataError: the file is missing or damaged; the message names it.
    """
    words: Bytes = _load(labels_dir / f"{split}_words.npy", np.dtype(np.uint8), 2)
    if not (words[:, 0] > 0).all() or ((words[:, 1:] > 0) & (words[:, :-1] == 0)).any():
        raise DataError(f"{labels_dir}/{split}_words.npy: a transcript that is empty or has a gap")
    return words


def _load(path: Path, dtype: np.dtype[Any], ndim: int) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing; prepare the data first") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    if array.dtype != dtype or array.ndim != ndim or len(array) == 0:
        raise DataError(f"{path}: expected {ndim}-d {dtype}, found {array.dtype} of shape {array.shape}")
    return array
