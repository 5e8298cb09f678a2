"""MovieLens in the two layouts GroupLens publishes: `ml-1m` and `ml-100k`, as folders or from the official archive.

Every rating counts as an interaction, whatever its stars; items are the movies that have a rating.

Dimension letters: R ratings.
"""

from __future__ import annotations

# ruff: noqa: N806 (dimension letters)
import dataclasses
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.base.download import download as fetch
from harness.errors import DataError, printable
from workloads.recommendation.dataset import Interactions, Ints, leave_two_out

Read = Callable[[str], bytes]  # the content of one of the layout's files, by name

URL = "https://files.grouplens.org/datasets/movielens/ml-1m.zip"
# Pinned by Keras' and TensorFlow Lite's recommendation examples and by SecretFlow's data sets.
SHA256 = "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"
MAX_ARCHIVE_BYTES = 10_000_000  # it has 5.9 million
MAX_FILE_BYTES = 50_000_000  # the largest has 24.6 million

CONTEXT_SIZES = (24, 7)  # hour and weekday of the rating, UTC
AGES = (1, 18, 25, 35, 45, 50, 56)  # lower ends of ml-1m's bands, to which ml-100k's ages are mapped
NUM_OCCUPATIONS = 21
SIDE_SIZES = (2, len(AGES), NUM_OCCUPATIONS)
GENRES = (
    "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
OCCUPATIONS_100K = (
    "administrator", "artist", "doctor", "educator", "engineer", "entertainment", "executive", "healthcare",
    "homemaker", "lawyer", "librarian", "marketing", "none", "other", "programmer", "retired", "salesman",
    "scientist", "student", "technician", "writer",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A layout of the data: file names, a pattern for the lines of each file, and the official counts.

    The groups of `ratings` are user, item, time; of `users` user, gender, age, occupation; of `items` item, genres.
    """

    name: str
    ratings_file: str
    users_file: str
    items_file: str
    ratings: re.Pattern[str]
    users: re.Pattern[str]
    items: re.Pattern[str]
    counts: tuple[int, int, int]  # ratings, users, items


LAYOUTS = (
    Layout(
        "ml-1m",
        *("ratings.dat", "users.dat", "movies.dat"),
        re.compile(r"(\d{1,9})::(\d{1,9})::[1-5]::(\d{1,10})"),
        re.compile(r"(\d{1,9})::([MF])::(1|18|25|35|45|50|56)::([01]?\d|20)::[^:]*"),
        re.compile(r"(\d{1,9})::.+::([^:]+)"),
        (1_000_209, 6040, 3883),
    ),
    Layout(
        "ml-100k",
        *("u.data", "u.user", "u.item"),
        re.compile(r"(\d{1,9})\t(\d{1,9})\t[1-5]\t(\d{1,10})"),
        re.compile(rf"(\d{{1,9}})\|(\d{{1,3}})\|([MF])\|({'|'.join(OCCUPATIONS_100K)})\|[^|]*"),
        re.compile(r"(\d{1,9})\|.*\|[01]\|((?:[01]\|){17}[01])"),  # the first of 19 flags is "unknown"
        (100_000, 943, 1682),
    ),
)


def read(source: Path) -> tuple[Interactions, str]:
    """Read the interactions from `source`, or from `ml-1m` or `ml-100k` in it; also return the layout's name.

    Raises:
        DataError: the layout is unknown, a file is missing or damaged, or its number of lines is not the official one.
    """
    for layout in LAYOUTS:
        for folder in (source, source / layout.name):
            if any((folder / name).is_file() for name in (layout.ratings_file, layout.users_file, layout.items_file)):
                return read_layout(layout, lambda name, folder=folder: _content(folder / name)), layout.name  # type: ignore[misc]
    raise DataError(
        f"{source}: no layout of MovieLens recognised; expected ratings.dat, users.dat and movies.dat (ml-1m), "
        "or u.data, u.user and u.item (ml-100k), there or in a subfolder ml-1m or ml-100k"
    )


def download(folder: Path, url: str = URL, sha256: str = SHA256) -> tuple[Interactions, str]:
    """Download the official archive of ml-1m into `folder` and read the interactions without unpacking it.

    Raises:
        DataError: there is no network, the archive is not the official one, or a file in it is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ml-1m.zip"
    fetch(url, path, sha256, MAX_ARCHIVE_BYTES)
    layout = LAYOUTS[0]
    try:
        with zipfile.ZipFile(path) as archive:
            return read_layout(layout, lambda name: _member(archive, f"{layout.name}/{name}")), layout.name
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, RuntimeError) as error:
        raise DataError(f"{path} is damaged: {printable(error)}") from None


def read_layout(layout: Layout, content: Read, counts: tuple[int, int, int] | None = None) -> Interactions:
    """Read a layout's files as interactions; `counts` (ratings, users, items) replace the official ones.

    A user's ratings are in time order. Ratings of the same second, of which MovieLens has many, are ordered by a hash
    of user and movie number: that does not depend on the order of the lines and, unlike ascending numbers, reveals
    nothing about the movies.

    Raises:
        DataError: a file is missing or damaged, a number is unknown, or the counts are not the expected ones.
    """
    ratings = _lines(content, layout.ratings_file, layout.ratings)
    users = _lines(content, layout.users_file, layout.users)
    items = _lines(content, layout.items_file, layout.items)
    names = (layout.ratings_file, layout.users_file, layout.items_file)
    for name, found, wanted in zip(names, map(len, (ratings, users, items)), counts or layout.counts, strict=True):
        if found != wanted:
            raise DataError(f"{name}: {found:,} lines, expected {wanted:,} for {layout.name}")
    user_R, item_R, time_R = np.array(ratings, dtype=np.int64).T
    user_numbers, item_numbers = (_numbers(name, rows) for name, rows in ((names[1], users), (names[2], items)))
    for known, given, what in ((user_numbers, user_R, names[1]), (item_numbers, item_R, names[2])):
        if not np.isin(given, known).all():
            stranger = given[~np.isin(given, known)][0]
            raise DataError(f"{names[0]}: number {stranger} is not in {what}")
    rated = np.unique(item_R)
    mixed_R = (user_R.astype(np.uint64) * np.uint64(2_654_435_761)) ^ (
        item_R.astype(np.uint64) * np.uint64(2_246_822_519)
    )
    mixed_R = (mixed_R * np.uint64(3_266_489_917)) >> np.uint64(16)  # wraps around, as intended
    user_R, item_R = np.searchsorted(user_numbers, user_R), np.searchsorted(rated, item_R)
    order = np.lexsort((item_R, mixed_R, time_R, user_R))
    user_R, item_R, time_R = user_R[order], item_R[order], time_R[order]
    lengths = np.bincount(user_R, minlength=len(users))
    if lengths.min() < 3:
        poor = user_numbers[lengths.argmin()]
        raise DataError(f"{names[0]}: user {poor} has {lengths.min()} ratings; leaving two out needs at least 3")
    if len(np.unique(user_R * len(rated) + item_R)) < len(item_R):
        raise DataError(f"{names[0]}: a user rated the same movie twice")
    sides = {int(row[0]): _side(layout, row) for row in users}
    genres = {int(row[0]): _genres(layout, row[1]) for row in items}
    return leave_two_out(
        item_R,
        np.stack([time_R // 3600 % 24, time_R // 86400 % 7], axis=1),
        lengths,
        np.array([sides[int(number)] for number in user_numbers]),
        np.array([genres[int(number)] for number in rated]),
        CONTEXT_SIZES,
        SIDE_SIZES,
    )


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {printable(error.strerror)}") from None
    return _bounded(str(path), content)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as stream:
            return _bounded(name, stream.read(MAX_FILE_BYTES + 1))
    except KeyError:
        raise DataError(f"{archive.filename} contains no file {name}") from None


def _bounded(name: str, content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"{name} has more than {MAX_FILE_BYTES:,} bytes, unlike any file of MovieLens")
    return content


def _lines(content: Read, name: str, pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    """The pattern's groups in every line of a file; the files are in Latin-1."""
    rows = []
    text = content(name).decode("latin-1")
    if not text.endswith("\n"):
        raise DataError(f"{name} is empty or cut off: the last line has no line end")
    for number, line in enumerate(text.split("\n"), start=1):
        if match := pattern.fullmatch(line.removesuffix("\r")):
            rows.append(match.groups())
        elif line:
            raise DataError(f"{name}, line {number}: not in the expected format: {printable(line, 60)!r}")
    return rows


def _numbers(name: str, rows: list[tuple[str, ...]]) -> Ints:
    numbers = np.sort(np.array([int(row[0]) for row in rows], dtype=np.int64))
    if (np.diff(numbers) == 0).any():
        raise DataError(f"{name}: number {numbers[:-1][np.diff(numbers) == 0][0]} occurs twice")
    return numbers


def _side(layout: Layout, row: tuple[str, ...]) -> tuple[int, int, int]:
    if layout.name == "ml-1m":
        return int(row[1] == "F"), AGES.index(int(row[2])), int(row[3])
    band = max(k for k, age in enumerate(AGES) if int(row[1]) >= age or k == 0)
    return int(row[2] == "F"), band, OCCUPATIONS_100K.index(row[3])


def _genres(layout: Layout, text: str) -> list[bool]:
    if layout.name == "ml-100k":
        return [flag == "1" for flag in text.split("|")]
    if strange := set(text.split("|")) - set(GENRES):
        raise DataError(f"{layout.items_file}: unknown genre {printable(sorted(strange)[0])!r}")
    return [genre in text.split("|") for genre in GENRES]
