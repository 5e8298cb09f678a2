"""Criteo's display advertising data in the forms they are handed round: text, packed text, and Parquet.

    train.txt                          45,840,617 lines of label, 13 counts, 26 categories, separated by tabs
    train.txt.gz, *.tar.gz, *.tgz      the same, packed; an archive may have it in a folder
    *.parquet                          the same columns in this order, in files whose names are in the order of time

A count or a category may be missing. Counts are whole numbers, some negative; categories are 32 bits as eight
hexadecimal digits. The rows are in the order of time and cover seven days.

Dimension letters: R rows, D counts (13), F categories (26).
"""

from __future__ import annotations

# ruff: noqa: N806, N815 (dimension letters)
import gzip
import hashlib
import json
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.errors import DataError, printable

if TYPE_CHECKING:
    import pyarrow as pa

NUM_COUNTS, NUM_CATEGORIES = 13, 26
COLUMNS = ("label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27)))
ROWS_PER_PIECE = 1 << 18  # 60 MB of text, 42 MB prepared
_BLOCK_BYTES = 1 << 24
_DIGITS = np.full(256, 255, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _DIGITS[ord(_digit)] = int(_digit, 16)


class Piece(NamedTuple):
    """Consecutive rows of a source: of a text the bytes `first` to `last`, of a Parquet file the row group `first`."""

    path: str
    first: int
    last: int
    num_rows: int


class Rows(NamedTuple):
    """clicks_R (0 or 1, uint8), counts_RD (int32, 0 where missing), categories_RF (uint32, 0 where missing)."""

    clicks_R: npt.NDArray[np.uint8]
    counts_RD: npt.NDArray[np.int32]
    categories_RF: npt.NDArray[np.uint32]


def find_pieces(source: Path, kept: Path, rows_per_piece: int) -> list[Piece]:
    """Return the rows of a source in order, in pieces. `kept`: a folder for what the next attempt need not repeat.

    source: a folder with one of the forms, or one of the files.

    Raises:
        DataError: there is no data in any of the forms, or they are damaged.
    """
    if parquet := sorted(source.glob("*.parquet")) if source.is_dir() else [source] * (source.suffix == ".parquet"):
        return _row_groups(parquet)
    if (source / "train.txt").is_file():
        return _lines(source / "train.txt", kept, rows_per_piece)
    packed = [source] if source.is_file() else sorted([*source.glob("*.gz"), *source.glob("*.tgz")])
    if len(packed) == 1 and packed[0].name.endswith((".gz", ".tgz")):
        return _lines(_unpacked(packed[0], kept), kept, rows_per_piece)
    if source.is_file() and source.suffix == ".txt":
        return _lines(source, kept, rows_per_piece)
    raise DataError(
        f"{source}: no data of Criteo's recognised; expected train.txt, one .gz, .tgz or .tar.gz with it, or .parquet"
    )


def read_piece(piece: Piece) -> Rows:
    """Read the rows of a piece.

    Raises:
        DataError: they are not in Criteo's format; the message names the file and what is wrong.
    """
    import pyarrow as pa

    path = Path(piece.path)
    try:
        table = _parquet_rows(path, piece.first) if path.suffix == ".parquet" else _text_rows(path, piece)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: rows that cannot be read: {printable(error, 200)}") from None
    if len(table) != piece.num_rows or table.num_columns != len(COLUMNS):
        raise DataError(
            f"{path}: {len(table):,} rows of {table.num_columns} columns, expected {piece.num_rows:,} of {len(COLUMNS)}"
        )
    clicks_R = _numbers(path, table.column(0))
    if table.column(0).null_count or not np.isin(clicks_R, (0, 1)).all():
        raise DataError(f"{path}: a label that is not 0 or 1")
    counts = [_numbers(path, table.column(1 + k)) for k in range(NUM_COUNTS)]
    categories = [_categories(path, table.column(1 + NUM_COUNTS + k)) for k in range(NUM_CATEGORIES)]
    return Rows(clicks_R.astype(np.uint8), np.stack(counts, 1), np.stack(categories, 1))


def _unpacked(path: Path, kept: Path) -> Path:
    """Return the text in a packed file, unpacked in `kept` whole or not at all."""
    status = path.stat()
    name = hashlib.sha256(f"{path.absolute()} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:16]
    text, draft = kept / f"{name}.txt", kept / f"{name}.draft"
    if not text.is_file():
        try:
            with _content(path) as packed, draft.open("wb") as stream:
                shutil.copyfileobj(packed, stream, _BLOCK_BYTES)
        except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise DataError(f"{path} is damaged: {printable(error)}") from None
        draft.rename(text)
    return text


@contextmanager
def _content(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The train.txt in a file that is packed with or without tar."""
    if path.name.endswith((".tar.gz", ".tgz")):
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                if Path(member.name).name == "train.txt" and (stream := archive.extractfile(member)) is not None:
                    yield stream
                    return
        raise DataError(f"{path} contains no file train.txt")
    with gzip.open(path) as text:
        yield text


def _lines(path: Path, kept: Path, rows_per_piece: int) -> list[Piece]:
    """Divide a text into pieces of so many lines; where they begin is noted in `kept`."""
    status = path.stat()
    what = f"{path.absolute()} {status.st_size} {status.st_mtime_ns} {rows_per_piece}"
    noted = kept / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.pieces"
    if noted.is_file():
        return [Piece(*fields) for fields in json.loads(noted.read_text())]
    bounds, num_lines, place, last = [0], 0, 0, b"\n"
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            first = -(num_lines + 1) % rows_per_piece  # of the line ends in this block, the first that ends a piece
            bounds.extend((place + ends[first::rows_per_piece] + 1).tolist())
            num_lines += len(ends)
            place += len(block)
            last = block[-1:]
    if not num_lines or last != b"\n":
        raise DataError(f"{path} is empty or cut off: the last line has no line end")
    if bounds[-1] < place:
        bounds.append(place)
    left = num_lines - rows_per_piece * (len(bounds) - 2)
    sizes = [rows_per_piece] * (len(bounds) - 2) + [left]
    pieces = [
        Piece(str(path), first, end, rows) for first, end, rows in zip(bounds[:-1], bounds[1:], sizes, strict=True)
    ]
    noted.write_text(json.dumps(pieces))
    return pieces


def _row_groups(paths: list[Path]) -> list[Piece]:
    import pyarrow as pa
    from pyarrow import parquet

    pieces: list[Piece] = []
    for path in paths:
        try:
            metadata = parquet.read_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} is damaged: {printable(error, 200)}") from None
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        pieces.extend(Piece(str(path), group, group + 1, size) for group, size in enumerate(sizes))
    return pieces


def _parquet_rows(path: Path, group: int) -> pa.Table:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read_row_group(group)


def _text_rows(path: Path, piece: Piece) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    with path.open("rb") as stream:
        stream.seek(piece.first)
        text = stream.read(piece.last - piece.first)
    kinds = {name: pa.string() if name.startswith("C") else pa.int32() for name in COLUMNS}
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=COLUMNS, use_threads=False),
        csv.ParseOptions(delimiter="\t", quote_char=False),
        csv.ConvertOptions(column_types=kinds, null_values=[""], strings_can_be_null=True),
    )


def _numbers(path: Path, column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    import pyarrow as pa

    try:
        numbers: npt.NDArray[np.int32] = column.cast(pa.int32()).fill_null(0).to_numpy()
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: a count that is not a whole number of 32 bits: {printable(error)}") from None
    return numbers


def _categories(path: Path, column: pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        whole: npt.NDArray[np.uint32] = column.cast(pa.int64()).fill_null(0).to_numpy().astype(np.uint32)
        return whole
    texts = column.cast(pa.large_string()).fill_null("00000000").combine_chunks()
    fault = DataError(f"{path}: a category that is not eight hexadecimal digits")
    _, bounds, letters = texts.buffers()
    ends: Any = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if (np.diff(ends) != 8).any():
        raise fault
    digits = _DIGITS[np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]]].reshape(-1, 8)
    if (digits == 255).any():
        raise fault
    numbers: npt.NDArray[np.uint32] = (digits.astype(np.uint32) << np.arange(28, -1, -4, dtype=np.uint32)).sum(
        1, dtype=np.uint32
    )
    return numbers
