"""Fabricated clicks in the forms of Criteo's display advertising data."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import numpy as np

COLUMNS = ("label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27)))
Row = list[str]


def rows(num_rows: int, seed: int = 0) -> list[Row]:
    """Fields as text, in the order of time; a fifth of the counts and a tenth of the categories are missing.

    Every category has some frequent values and a long tail, and what the first count and the first two categories are
    decides most of the clicks.
    """
    random = np.random.RandomState(seed)
    counts = np.floor(random.lognormal(2, 1.5, (num_rows, 13))).astype(int) - 2
    categories = np.minimum(random.zipf(1.3, (num_rows, 26)), 10**6)
    effects = random.randn(2, 8)
    odds = -1 + effects[0, categories[:, 0] % 8] + effects[1, categories[:, 1] % 8] + 0.5 * (counts[:, 0] > 8)
    clicks = random.rand(num_rows) < 1 / (1 + np.exp(-2 * odds))
    lost_counts, lost_categories = random.rand(num_rows, 13) < 0.2, random.rand(num_rows, 26) < 0.1
    lost_counts[:, 0] = lost_categories[:, :2] = False
    return [
        [
            str(int(clicks[r])),
            *("" if lost_counts[r, k] else str(counts[r, k]) for k in range(13)),
            *("" if lost_categories[r, k] else f"{categories[r, k] * 2654435761 % 2**32:08x}" for k in range(26)),
        ]
        for r in range(num_rows)
    ]


def as_text(made: list[Row]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in made).encode()


def write(folder: Path, form: str, made: list[Row]) -> Path:
    """Write the rows as `train.txt`, `train.txt.gz`, `dac.tar.gz` or `parquet`; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_bytes(as_text(made))
    if form == "train.txt":
        return folder
    if form == "dac.tar.gz":
        with tarfile.open(folder / form, "w:gz") as archive:
            archive.add(folder / "train.txt", "dac/train.txt")
    elif form == "train.txt.gz":
        (folder / form).write_bytes(gzip.compress(as_text(made)))
    else:
        _write_parquet(folder, made)
    (folder / "train.txt").unlink()
    return folder


def _write_parquet(folder: Path, made: list[Row]) -> None:
    """Two files with several row groups each."""
    import pyarrow as pa
    from pyarrow import parquet

    half = len(made) // 2
    for number, part in enumerate((made[:half], made[half:])):
        columns = {
            name: pa.array([row[k] or None for row in part]).cast(pa.string() if name[0] == "C" else pa.int64())
            for k, name in enumerate(COLUMNS)
        }
        parquet.write_table(pa.table(columns), folder / f"train-{number:05d}-of-00002.parquet", row_group_size=150)
