"""The Free Spoken Digit Dataset for the standard suite: its recordings, and the digit strings made of them.

A recording is `recordings/<digit>_<speaker>_<index>.wav`: 16 bits, one channel, 8 kHz.

Dimension letters: S samples.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import io
import math
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, printable
from workloads.speech_recognition.dataset import SAMPLE_HZ, Utterances, encoded

Samples = npt.NDArray[np.int16]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# The data set has no split by speaker. The last two of its six speakers by name are held out of training: a rule that
# does not depend on any recording.
SPEAKERS = {"train": ("george", "jackson", "lucas", "nicolas"), "validation": ("theo",), "test": ("yweweler",)}
PER_DIGIT = 50
MAX_BYTES = 100_000  # of a recording; the largest official one has 37 kB
URL = "https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.tar.gz"
NUM_STRINGS = {"train": 6000, "validation": 800, "test": 800}
SEED = 3000
NOISE_LEVELS = (410, 728, 1295)  # 4096 * 10 ** (-decibels / 20) for 20, 15 and 10 dB


def read(source: Path, per_digit: int = PER_DIGIT) -> tuple[dict[tuple[str, int], list[Samples]], str]:
    """Read the recordings by speaker and digit, in index order, from the folder `recordings` or its parent.

    Raises:
        DataError: the folder is missing, or a recording is missing, damaged or in another format.
    """
    for root in (source, source / "recordings"):
        if (root / f"0_{SPEAKERS['train'][0]}_0.wav").is_file():
            break
    else:
        raise DataError(f"{source}: no layout of FSDD recognised; expected recordings/<digit>_<speaker>_<index>.wav")
    recordings = {}
    for speaker in (name for names in SPEAKERS.values() for name in names):
        for digit in range(len(DIGITS)):
            paths = [root / f"{digit}_{speaker}_{index}.wav" for index in range(per_digit)]
            recordings[speaker, digit] = [_read_wav(path) for path in paths]
    return recordings, "recordings/<digit>_<speaker>_<index>.wav"


def download(folder: Path) -> NoReturn:
    """Refuse: GitHub builds the archive on request and its digest may change, so a download could not be verified.

    Raises:
        DataError: always; the message says what to fetch.
    """
    raise DataError(
        f"FSDD is not downloaded, since no digest of its archive is published: fetch {URL}, unpack it, and pass the "
        "folder as the source"
    )


def _read_wav(path: Path) -> Samples:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path}: {path.stat().st_size:,} bytes, expected at most {MAX_BYTES:,}")
        with wave.open(io.BytesIO(path.read_bytes())) as recording:
            form = (recording.getnchannels(), recording.getsampwidth(), recording.getframerate())
            count = recording.getnframes()
            content = recording.readframes(count)
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except (OSError, wave.Error, EOFError) as error:
        raise DataError(f"{path} is damaged: {printable(error) or 'it ends too early'}") from None
    if form != (1, 2, SAMPLE_HZ):
        raise DataError(f"{path}: {form[0]} channels, {8 * form[1]} bits, {form[2]} Hz; expected 1, 16 and {SAMPLE_HZ}")
    if len(content) != 2 * count or count < 100:
        raise DataError(f"{path} is damaged: {len(content) // 2} samples of {count}")
    samples = np.frombuffer(content, "<i2").astype(np.int16)
    if not samples.any():
        raise DataError(f"{path} is damaged: only silence")
    return samples


def strings(
    recordings: Mapping[tuple[str, int], list[Samples]], num_strings: Mapping[str, int] = NUM_STRINGS
) -> dict[str, Utterances]:
    """Make strings of three to six digits by one speaker, up to 120 ms apart, equally loud, in white noise.

    Integers throughout, as in the mini suite.
    """
    splits = {}
    for stream, (name, speakers) in enumerate(SPEAKERS.items()):
        random = np.random.RandomState(SEED + stream)
        audio, words = [], []
        for number in range(num_strings[name]):
            digits = [int(random.randint(10)) for _ in range(random.randint(3, 7))]
            parts = [np.zeros(random.randint(200, 1200), np.int64)]
            for digit in digits:
                takes = recordings[speakers[number % len(speakers)], digit]
                take_S = takes[random.randint(len(takes))].astype(np.int64)
                parts.append(take_S * 12000 // int(np.abs(take_S).max()))
                parts.append(np.zeros(random.randint(0, 961), np.int64))
            parts.append(np.zeros(random.randint(200, 1200), np.int64))
            speech_S = np.concatenate(parts)
            noise_S = random.randint(-1000, 1000, len(speech_S))
            ratio = math.sqrt(int((speech_S**2).sum()) / (int((noise_S**2).sum()) + 1))
            level = NOISE_LEVELS[random.randint(len(NOISE_LEVELS))] / 4096 * ratio
            heard_S = speech_S + np.rint(noise_S * level).astype(np.int64)
            audio.append(encoded(heard_S * int(random.randint(2000, 28000)) // int(np.abs(heard_S).max())))
            words.append([DIGITS[digit] for digit in digits])
        splits[name] = Utterances(audio, words)
    return splits
