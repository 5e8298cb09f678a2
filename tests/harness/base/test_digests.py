"""Digests of files: read once, and again when the file is another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.base import digests

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


@pytest.mark.parametrize("change", ["nothing", "size", "timestamp"])
def test_file_is_read_if_it_is_not_the_known_one(tmp_path: Path, change: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    known = {**digests.entry(path), "sha256": "0" * 64}
    if change == "size":
        path.write_bytes(b"hello!")
        os.utime(path, ns=(0, known["mtime_ns"]))
    elif change == "timestamp":
        os.utime(path, ns=(0, 1))

    assert (digests.entry(path, known)["sha256"] == "0" * 64) == (change == "nothing")


def test_digest_that_is_given_is_not_computed(tmp_path: Path) -> None:
    """Whoever has written the bytes knows it; stored, it is what the next reader finds."""
    path = tmp_path / "file"
    path.write_bytes(b"hello")

    assert digests.entry(path)["sha256"] == HELLO
    given = digests.entry(path, sha256="1" * 64)

    assert given == {"size": 5, "mtime_ns": path.stat().st_mtime_ns, "sha256": "1" * 64}
    digests.store(tmp_path / "digests.json", {"file": given})
    assert digests.stored(tmp_path / "digests.json") == {"file": given}
