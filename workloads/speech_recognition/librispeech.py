"""LibriSpeech for the full suite: its recordings, in a fixed order, from the official archives or their folders.

A recording is `LibriSpeech/<part>/<speaker>/<chapter>/<speaker>-<chapter>-<number>.flac`: 16 bits, one channel, 16 kHz.
The texts of a chapter are the lines `<speaker>-<chapter>-<number> TEXT` of `<speaker>-<chapter>.trans.txt`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.errors import DataError, MissingDependencyError, printable

SAMPLE_HZ = 16_000
ALPHABET = " 'ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# AlgoPerf trains on the three parts for training together, and its target is for the two parts `dev` together.
PARTS = {"train": ("train-clean-100", "train-clean-360", "train-other-500"), "test": ("dev-clean", "dev-other")}
# The utterances of each part: 281,241 for training (960.9 hours) and 5,567 for the evaluation (10.5 hours).
NUM_UTTERANCES = {
    "train-clean-100": 28_539,
    "train-clean-360": 104_014,
    "train-other-500": 148_688,
    "dev-clean": 2_703,
    "dev-other": 2_864,
}
# Of https://www.openslr.org/resources/12/<part>.tar.gz, as torchaudio publishes them (`datasets/librispeech.py`).
SHA256 = {
    "train-clean-100": "d4ddd1d5a6ab303066f14971d768ee43278a5f2a0aa43dc716b0e64ecbbbf6e2",
    "train-clean-360": "146a56496217e96c14334a160df97fffedd6e0a04e66b9c5af0d40be3c792ecf",
    "train-other-500": "ddb22f27f96ec163645d53215559df6aa36515f26e01dd70798188350adcb6d2",
    "dev-clean": "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
    "dev-other": "12661c48e8c3fe1de2c1caa4c3e135193bfb1811584f11f569dd12645aa84365",
}
MIN_SAMPLES, MAX_SAMPLES = 1_600, 640_000  # of an utterance; the longest has 35 seconds
MAX_FLAC_BYTES, MAX_TEXT_BYTES = 2 << 20, 1 << 20
_MEMBER = re.compile(r"(?:\./)?LibriSpeech/([a-z]+-[a-z]+(?:-\d+)?)/(\d+)/(\d+)/(\2-\3(?:-\d{4}\.flac|\.trans\.txt))")
_LINE = re.compile(r"(\d+-\d+-\d{4}) ([A-Z' ]*[A-Z][A-Z' ]*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """A FLAC file, and what is said in it."""

    path: Path
    text: str


def recordings(
    source: Path,
    unpacked: Path,
    num_utterances: Mapping[str, int] = NUM_UTTERANCES,
    sha256: Mapping[str, str] = SHA256,
) -> dict[str, list[Recording]]:
    """Return the recordings of each split, part by part, sorted by name within a part.

    source: a folder that is `LibriSpeech/`, contains it, or has the official archives; per part, whichever is there.
    unpacked: where archives are unpacked; what a call has unpacked completely, the next one finds there.

    Raises:
        DataError: a part is missing, damaged, or does not have the official number of utterances.
    """
    found = {}
    for split, parts in PARTS.items():
        found[split] = [
            recording
            for part in parts
            for recording in _part(source, unpacked, part, num_utterances[part], sha256[part])
        ]
    return found


def _part(source: Path, unpacked: Path, part: str, num_utterances: int, sha256: str) -> Iterator[Recording]:
    archive = source / f"{part}.tar.gz"
    for root in (source / part, source / "LibriSpeech" / part, unpacked / part):
        if root.is_dir():
            break
    else:
        if not archive.is_file():
            raise DataError(f"{source}: neither LibriSpeech/{part} nor {part}.tar.gz is there; is this LibriSpeech?")
        root = _unpack(archive, unpacked / part, sha256)
    texts = [path for path in sorted(root.glob("*/*/*.trans.txt")) if path.is_file()]
    found = {path.parent / f"{name}.flac": text for path in texts for name, text in _lines(path)}
    if len(found) != num_utterances:
        raise DataError(f"{root}: {len(found):,} utterances with a text, expected {num_utterances:,}")
    for path in sorted(found, key=lambda path: path.name):
        yield Recording(path, found[path])


def _unpack(archive: Path, folder: Path, sha256: str) -> Path:
    """Unpack the recordings and texts of an archive to `folder`, whole or not at all."""
    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != sha256:
        raise DataError(f"{archive}: SHA-256 is {digest}, expected {sha256}; fetch it again")
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                if member.isfile() and (name := _MEMBER.fullmatch(member.name)) and name[1] == folder.name:
                    # Only what the pattern allows becomes part of a path.
                    place = draft / name[2] / name[3] / name[4]
                    place.parent.mkdir(parents=True, exist_ok=True)
                    content = members.extractfile(member)
                    assert content is not None, "a regular file has a stream"
                    place.write_bytes(content.read(MAX_FLAC_BYTES + 1))
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} is damaged: {printable(error)}") from None
    if not draft.is_dir():
        raise DataError(f"{archive}: contains no LibriSpeech/{folder.name}")
    return draft.rename(folder)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of a chapter."""
    with path.open("rb") as stream:
        content = stream.read(MAX_TEXT_BYTES + 1)
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        matched = _LINE.fullmatch(line.rstrip())
        if matched is None or not matched[1].startswith(path.name.removesuffix(".trans.txt") + "-"):
            raise DataError(f"{path}: line {number} is {printable(line)!r}, expected a name and a text in capitals")
        yield matched[1], matched[2]


def num_samples(path: Path) -> int:
    """Return the number of samples of a recording, as its header has it; raises DataError as `samples` does."""
    return _stated(path, _read(path, 42))[0]


def samples(path: Path) -> bytes:
    """Return the samples of a recording: int16, little-endian.

    A FLAC file has the MD5 of its samples, so that whatever decodes it, the bytes are known to be the right ones.

    Raises:
        DataError: the file is missing, damaged or in another format.
        MissingDependencyError: there is no decoder.
    """
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the package is there, and its library is not
        raise MissingDependencyError(
            "LibriSpeech is FLAC, and the package that decodes it is not installed: pip install 'tta-harness[audio]'; "
            "only preparing the data needs it"
        ) from None
    content = _read(path)
    count, md5 = _stated(path, content)
    try:
        decoded: bytes = soundfile.read(io.BytesIO(content), dtype="int16")[0].astype("<i2").tobytes()
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None
    found = hashlib.md5(decoded, usedforsecurity=False).digest()
    if len(decoded) != 2 * count or (any(md5) and found != md5):
        raise DataError(f"{path} is damaged: its samples are not those that were encoded")
    return decoded


def _read(path: Path, limit: int = MAX_FLAC_BYTES + 1) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(limit)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _stated(path: Path, content: bytes) -> tuple[int, bytes]:
    """The number of samples and their MD5 (zeros: not known), of a FLAC file in LibriSpeech's format."""
    # "fLaC", the header of the first block (4 bytes), and that block, STREAMINFO (34 bytes): RFC 9639, section 8.2.
    if len(content) < 42 or content[:4] != b"fLaC" or content[4] & 0x7F:
        raise DataError(f"{path} is not FLAC")
    stated = int.from_bytes(content[18:26])
    rate, num_channels, num_bits = stated >> 44, (stated >> 41 & 7) + 1, (stated >> 36 & 31) + 1
    if (num_channels, num_bits, rate) != (1, 16, SAMPLE_HZ):
        raise DataError(f"{path}: {num_channels} channels, {num_bits} bits, {rate} Hz; expected 1, 16 and {SAMPLE_HZ}")
    if not MIN_SAMPLES <= (count := stated & (1 << 36) - 1) <= MAX_SAMPLES:
        raise DataError(f"{path}: {count:,} samples, expected {MIN_SAMPLES:,} to {MAX_SAMPLES:,}")
    return count, content[26:42]
