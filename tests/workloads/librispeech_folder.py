"""Writes LibriSpeech's layout in small: FLAC files of tones, a tone per letter, and the texts of their chapters.

The files are real FLAC, without compression (RFC 9639). Where `soundfile`, which decodes them, is not installed,
`Decoder` stands in for it and reads what is written here.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.int16]

NUM_UTTERANCES = {"train-clean-100": 6, "train-clean-360": 4, "train-other-500": 3, "dev-clean": 3, "dev-other": 2}
LETTERS = "ABCDE "
LETTER_SAMPLES = 3200  # 0.2 seconds
BLOCK = 4096


def write(root: Path, num_utterances: dict[str, int] = NUM_UTTERANCES) -> Path:
    """Write `LibriSpeech/` below `root`, of all parts, with one to three utterances in a chapter; return `root`."""
    random = np.random.RandomState(0)
    for speaker, (part, count) in enumerate(num_utterances.items(), 20):
        for chapter in range(-(-count // 3)):
            folder = root / "LibriSpeech" / part / str(speaker) / str(100 + chapter)
            folder.mkdir(parents=True)
            lines = []
            for number in range(3 * chapter, min(3 * chapter + 3, count)):
                name = f"{speaker}-{100 + chapter}-{number:04d}"
                text = spoken(random)
                (folder / f"{name}.flac").write_bytes(flac(tones(text, random)))
                lines.append(f"{name} {text}\n")
            (folder / f"{speaker}-{100 + chapter}.trans.txt").write_text("".join(lines))
    return root


def pack(root: Path) -> dict[str, str]:
    """Replace the folders below `root` by archives named as the official ones; return their SHA-256 by part."""
    digests = {}
    for part in sorted((root / "LibriSpeech").iterdir()):
        archive = root / f"{part.name}.tar.gz"
        with tarfile.open(archive, "w:gz") as members:
            members.add(part, f"LibriSpeech/{part.name}")
        digests[part.name] = hashlib.sha256(archive.read_bytes()).hexdigest()
    (root / "LibriSpeech").rename(root / "before")
    return digests


def spoken(random: np.random.RandomState) -> str:
    words = [
        "".join(LETTERS[random.randint(5)] for _ in range(random.randint(1, 4))) for _ in range(random.randint(1, 4))
    ]
    return " ".join(words)


def tones(text: str, random: np.random.RandomState) -> Samples:
    """A tone per letter, silence for a space, some noise, and some samples more than whole spectra."""
    seconds = np.arange(LETTER_SAMPLES) / 16_000
    parts = [8000 * np.sin(2 * np.pi * (300 + 500 * LETTERS.index(c)) * seconds) * (c != " ") for c in text]
    parts.append(np.zeros(random.randint(1600, 4000)))
    heard = np.concatenate(parts)
    return (heard + random.randint(-100, 100, len(heard))).astype(np.int16)


def flac(samples: Samples, rate: int = 16_000, has_md5: bool = True) -> bytes:
    """One channel of 16 bits, every block verbatim."""
    stated = rate << 44 | (16 - 1) << 36 | len(samples)
    md5 = hashlib.md5(samples.astype("<i2").tobytes()).digest() if has_md5 else bytes(16)
    info = BLOCK.to_bytes(2) * 2 + bytes(6) + stated.to_bytes(8) + md5
    frames = b"".join(
        _frame(number, samples[first : first + BLOCK]) for number, first in enumerate(range(0, len(samples), BLOCK))
    )
    return b"fLaC" + bytes([0x80, 0, 0, len(info)]) + info + frames


def _frame(number: int, samples: Samples) -> bytes:
    assert number < 128, "a number of one byte"
    # Sync; 16 bits of block size at the end of the header, 16 kHz; one channel of 16 bits; number; block size.
    header = bytes([0xFF, 0xF8, 0x75, 0x08, number]) + (len(samples) - 1).to_bytes(2)
    header += _crc(header, 0x07, 8).to_bytes(1)
    frame = header + bytes([0x02]) + samples.astype(">i2").tobytes()
    return frame + _crc(frame, 0x8005, 16).to_bytes(2)


def _crc(data: bytes, polynomial: int, bits: int) -> int:
    found, top, mask = 0, 1 << bits - 1, (1 << bits) - 1
    table = []
    for byte in range(256):
        value = byte << bits - 8
        for _ in range(8):
            value = (value << 1 ^ (polynomial if value & top else 0)) & mask
        table.append(value)
    for byte in data:
        found = (found << 8 & mask) ^ table[(found >> bits - 8) ^ byte]
    return found


class Decoder:
    """What `librispeech` uses of the module `soundfile`."""

    class LibsndfileError(RuntimeError):
        """The file cannot be decoded."""

    @classmethod
    def read(cls, stream: Any, dtype: str) -> tuple[Samples, int]:
        content = stream.read()[42:]
        parts = []
        while content:
            if content[:2] != b"\xff\xf8":
                raise cls.LibsndfileError("lost sync")
            size = int.from_bytes(content[5:7]) + 1
            parts.append(np.frombuffer(content[9 : 9 + 2 * size], ">i2"))
            content = content[9 + 2 * size + 2 :]
        return np.concatenate(parts).astype(dtype), 16_000
