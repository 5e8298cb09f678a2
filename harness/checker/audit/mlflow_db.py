"""The runs of an MLflow store, read straight from its SQLite file: without MLflow, bounded, and nothing is written.

A store behind a server cannot be read this way; an auditor asks for the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import SubmissionError, printable

_MAX_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class MirrorRun:
    """A run in the store. metrics: the last value written, by name and step."""

    run_id: str
    tags: Mapping[str, str]
    metrics: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def read_mirror(path: Path) -> tuple[MirrorRun, ...]:
    """The runs that `tta` mirrored into the store at `path`, by run id.

    Raises:
        SubmissionError: it does not exist, or is not the SQLite file of an MLflow store.
    """
    if not path.is_file():
        raise SubmissionError(f"{path}: there is no such file; a mirror is read from MLflow's SQLite file")
    tags: dict[str, dict[str, str]] = {}
    metrics: dict[str, dict[str, dict[int, float]]] = {}
    try:
        store = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            query = "SELECT run_uuid, key, value FROM tags WHERE key LIKE 'tta.%' LIMIT ?"
            for run, name, value in store.execute(query, (_MAX_ROWS,)):
                tags.setdefault(str(run), {})[str(name)] = str(value)
            query = "SELECT run_uuid, key, step, value FROM metrics ORDER BY timestamp LIMIT ?"
            for run, name, step, value in store.execute(query, (_MAX_ROWS,)):
                if str(run) in tags:
                    metrics.setdefault(str(run), {}).setdefault(str(name), {})[int(step)] = float(value)
        finally:
            store.close()
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise SubmissionError(f"{path}: not the SQLite file of an MLflow store: {printable(error)}") from None
    return tuple(
        MirrorRun(found["tta.run_id"], found, metrics.get(run, {}))
        for run, found in sorted(tags.items())
        if "tta.run_id" in found
    )
