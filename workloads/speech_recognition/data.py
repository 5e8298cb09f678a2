"""The data of speech recognition as they lie prepared, whatever their source.

For train, validation and test: `<split>_audio.npy` (uint8, all utterances of the split one after the other, 8 kHz, each
sample the number of one of the 255 levels of G.711's mu-law, from the lowest), `<split>_hops.npy` (int32, the length of
each in hops of 80 samples), `<split>_words.npy` (uint8, (N, W), tokens from 1, then zeros); and `metadata.json`.

Dimension letters: N utterances, W words, S samples.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, UsageError, printable, unknown_name

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]

SUITES = ("mini", "standard")
SAMPLE_HZ = 8000
HOP = 80  # samples, 10 ms; an utterance is a whole number of them
WINDOW_HOPS = 4  # the hops a spectrum's window reaches over, at most
LEVELS = np.array(
    sorted({s * (((2 * m + 33) << e) - 33) * 4 for e in range(8) for m in range(16) for s in (-1, 1)}), np.int32
)
SILENCE = 127  # the level 0
_BETWEEN = (LEVELS[1:] + LEVELS[:-1] + 1) // 2


@dataclasses.dataclass(frozen=True, slots=True)
class Utterances:
    """What was said: mu-law codes (uint8) and words of each utterance."""

    audio: list[Bytes]
    words: list[list[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """One split as it lies prepared: audio (S,) uint8, hops (N,) int32, words (N, W) uint8."""

    audio: Bytes
    hops: Ints
    words: Bytes


def encoded(samples_S: npt.NDArray[np.int64]) -> Bytes:
    """The nearest of the 255 levels (a tie goes up), at most 79 samples of silence appended to fill the last hop."""
    codes = np.searchsorted(_BETWEEN, samples_S, side="right").astype(np.uint8)
    return np.pad(codes, (0, -len(codes) % HOP), constant_values=SILENCE)


def prepare(suite: str, data_dir: Path, source: Path | None) -> None:
    """Fill `data_dir` with the suite's arrays and `metadata.json`; the same bytes on every machine.

    Raises:
        UsageError: no such suite, or a source for the suite that makes its own data.
        DataError: the source is missing, damaged, or in none of the layouts of the card; or no network; or the
            synthesiser is not the one of the contest.
    """
    if suite not in SUITES:
        raise UsageError(unknown_name("suite of speech_recognition", suite, SUITES))
    if suite == "mini":
        from workloads.speech_recognition.mini import VOCABULARY, render

        if source is not None:
            raise UsageError("speech_recognition_mini makes its own data; leave the source out")
        write(data_dir, suite, render(), VOCABULARY, "spoken by eSpeak NG")
    else:
        from workloads.speech_recognition import fsdd

        recordings, layout = fsdd.read(source) if source is not None else fsdd.download(data_dir.parent / "downloads")
        write(data_dir, suite, fsdd.strings(recordings), fsdd.DIGITS, layout)


def write(
    data_dir: Path, suite: str, splits: Mapping[str, Utterances], vocabulary: tuple[str, ...], source: str
) -> None:
    """Token 0 is CTC's blank; the words follow in the vocabulary's order."""
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


def read_split(data_dir: Path, split: str) -> Split:
    """One split as it was prepared.

    Raises:
        DataError: a file is missing, damaged, or does not fit its fellows; the message names it.
    """
    arrays = {}
    for kind, dtype, ndim in (("audio", np.uint8, 1), ("hops", np.int32, 1), ("words", np.uint8, 2)):
        path = data_dir / f"{split}_{kind}.npy"
        try:
            array = np.load(path)
        except FileNotFoundError:
            raise DataError(f"{path} is missing; prepare the data first") from None
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} is damaged: {printable(error)}") from None
        if array.dtype != dtype or array.ndim != ndim or len(array) == 0:
            raise DataError(f"{path}: expected {ndim}-d {np.dtype(dtype)}, found {array.dtype} of shape {array.shape}")
        arrays[kind] = array
    audio, hops, words = arrays.values()
    if len(hops) != len(words):
        raise DataError(f"{data_dir}: {len(hops)} {split} lengths but {len(words)} transcripts")
    if hops.min() <= WINDOW_HOPS or int(hops.sum(dtype=np.int64)) * HOP != len(audio):
        raise DataError(f"{data_dir}: {split}_hops.npy does not fit the {len(audio):,} samples of {split}_audio.npy")
    if audio.max() >= len(LEVELS):
        raise DataError(
            f"{data_dir}/{split}_audio.npy: a sample of {audio.max()}; the levels are 0 to {len(LEVELS) - 1}"
        )
    if not (words[:, 0] > 0).all() or ((words[:, 1:] > 0) & (words[:, :-1] == 0)).any():
        raise DataError(f"{data_dir}/{split}_words.npy: a transcript that is empty or has a gap")
    return Split(audio, hops, words)
