"""The file of an SQLite store: its path in a URI, and its lock."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from harness.tracking import store as tracking_store


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sqlite:////a/b.db", Path("/a/b.db")),
        ("sqlite:///b.db", Path.cwd() / "b.db"),
        ("sqlite+pysqlite:////a/b.db?timeout=5", Path("/a/b.db")),
        ("sqlite://", None),
        ("sqlite:///", None),
        ("postgresql:////a/b.db", None),
        ("xsqlite:////a/b.db", None),
        ("/a/b.db", None),
    ],
)
def test_the_file_of_a_uri(uri: str, path: Path | None) -> None:
    """A store in memory or of another database has none."""
    assert tracking_store.sqlite_path(uri) == path


def test_a_lock_is_had_as_soon_as_it_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that finds it locked retries until it is released, and then holds it."""
    store = tmp_path / "mlflow.db"
    other = contextlib.ExitStack()
    other.enter_context(tracking_store.locked(store))
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            other.close()

    monkeypatch.setattr("harness.tracking.store.time.sleep", nap)

    with tracking_store.locked(store, patience_s=3600.0):
        assert len(naps) == 3
        with pytest.raises(TimeoutError, match=r"held .*mlflow\.db\.lock for 0 s"), tracking_store.locked(store, 0.0):
            pass


def test_a_store_that_is_none_is_an_error_of_sqlites(tmp_path: Path) -> None:
    """The folder is missing, or the file is not a database."""
    (tmp_path / "text").write_text("no database, but long enough to be read as the head of one")

    for path in (tmp_path / "absent" / "mlflow.db", tmp_path / "text"):
        with pytest.raises(sqlite3.Error):
            tracking_store.set_write_ahead(path)
