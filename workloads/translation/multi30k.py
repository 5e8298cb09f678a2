"""Multi30k task 1, English and German, raw, for the standard suite: three layouts, or the download."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from pathlib import Path

from harness.errors import DataError, printable
from workloads.translation.mini import Pair

# Names in github.com/multi30k/dataset, data/task1/raw.
STEMS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
NUM_LINES = {"train": 29_000, "validation": 1_014, "test": 1_000}
# The archives of the shared task (WMT16), each with the stem of its members.
ARCHIVES = {
    "train": ("training.tar.gz", "train"),
    "validation": ("validation.tar.gz", "val"),
    "test": ("mmt16_task1_test.tar.gz", "test"),
}
LANGUAGES = ("en", "de")
MAX_BYTES = 20_000_000  # of a text; the largest has 2,110,398
MAX_ARCHIVE_BYTES = 100_000_000  # unpacked
URL = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
}


def read(source: Path, num_lines: dict[str, int] = NUM_LINES) -> dict[str, list[Pair]]:
    """Read Multi30k from a folder that holds, for every split, the official `.gz` files, the same files unpacked, or
    the archive of the shared task; a clone of the official repository is also such a folder.

    Raises:
        DataError: a file is missing, damaged, not text, or does not have the official number of lines.
    """
    raw = source / "data" / "task1" / "raw"
    folder = raw if raw.is_dir() else source
    return {split: _pairs(folder, split, num_lines[split]) for split in STEMS}


def download(folder: Path, url: str = URL, sha256: dict[str, str] = SHA256) -> dict[str, list[Pair]]:
    """Download Multi30k from its home (or `url`); the files stay in `folder`, so that a second attempt can resume.

    Raises:
        DataError: there is no network, or a file is not the official one.
    """
    from harness.base.download import download as fetch

    folder.mkdir(exist_ok=True)
    for name, digest in sha256.items():
        fetch(f"{url}/{name}", folder / name, digest, MAX_BYTES)
    return read(folder)


def _pairs(folder: Path, split: str, num_lines: int) -> list[Pair]:
    sides = []
    for language in LANGUAGES:
        place, text = _text(folder, split, language)
        lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")  # the shared task's files end with an empty line
        if len(lines) != num_lines:
            raise DataError(f"{place}: {len(lines)} lines, expected {num_lines}")
        if empty := [i for i, line in enumerate(lines, 1) if not line.strip()]:
            raise DataError(f"{place}: line {empty[0]} is empty")
        sides.append(lines)
    return list(zip(*sides, strict=True))


def _text(folder: Path, split: str, language: str) -> tuple[str, str]:
    """Find a text; return where it was found, and the text."""
    plain = folder / f"{STEMS[split]}.{language}"
    packed = plain.with_name(plain.name + ".gz")
    archive, stem = folder / ARCHIVES[split][0], ARCHIVES[split][1]
    place = str(next((path for path in (packed, plain, archive) if path.is_file()), ""))
    if not place:
        raise DataError(f"{folder}: none of {packed.name}, {plain.name} and {archive.name}; is this Multi30k, task 1?")
    try:
        if place == str(packed):
            with gzip.open(packed) as stream:
                content = stream.read(MAX_BYTES + 1)
        elif place == str(plain):
            with plain.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        else:
            place = f"{archive}: {stem}.{language}"
            content = _member(archive, f"{stem}.{language}")
        if len(content) > MAX_BYTES:
            raise DataError(f"{place}: more than {MAX_BYTES:,} bytes")
        return place, content.decode("utf-8")
    except (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError) as error:
        raise DataError(f"{place} is damaged: {printable(error)}") from None


def _member(archive: Path, name: str) -> bytes:
    """The bytes of one regular file in an archive; nothing is unpacked to a path that the archive chooses."""
    with gzip.open(archive) as stream:
        # Bounded here, since tarfile itself reads a header of whatever size it claims to have.
        unpacked = stream.read(MAX_ARCHIVE_BYTES + 1)
    if len(unpacked) > MAX_ARCHIVE_BYTES:
        raise DataError(f"{archive}: more than {MAX_ARCHIVE_BYTES:,} bytes when unpacked")
    with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as members:
        for member in members:
            if member.size > MAX_BYTES:
                raise DataError(f"{archive}: a member of {member.size:,} bytes, expected at most {MAX_BYTES:,}")
            if member.name.removeprefix("./") == name and member.isfile():
                content = members.extractfile(member)
                assert content is not None, "a regular file has a stream"
                return content.read(MAX_BYTES + 1)
    raise DataError(f"{archive}: contains no file {name}")
