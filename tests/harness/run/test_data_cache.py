"""Prepared data: created once, completely or not at all, and verified before every result."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.base import digests
from harness.errors import DataError, OutputError
from harness.run import data_cache
from harness.workload import Evaluator, Metric, RunConfig, Session


def two_files(folder: Path) -> None:
    (folder / "part").mkdir()
    (folder / "part" / "train.bin").write_bytes(b"train")
    (folder / "metadata.json").write_text('{"num_train": 5}')


@dataclass
class Maker:
    """A workload whose preparation is `make`; counts its calls."""

    make: Callable[[Path], None] = two_files
    name: str = "toy"
    metric: Metric = field(default_factory=lambda: Metric("accuracy", "fraction", "max"))
    labels: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    num_calls: int = 0

    def prepare_data(self, suite: str, data_dir: Path, source: Path | None) -> None:
        self.num_calls += 1
        self.make(data_dir)

    def open(self, config: RunConfig) -> Session:
        raise NotImplementedError

    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Evaluator:
        raise NotImplementedError

    def baselines(self, suite: str, data_dir: Path, labels_dir: Path) -> dict[str, float]:
        raise NotImplementedError


def test_data_are_made_once_and_described(tmp_path: Path) -> None:
    """The second call only verifies them; the metadata is the workload's."""
    maker = Maker()

    first = data_cache.prepare(maker, "mini", tmp_path)
    second = data_cache.prepare(maker, "mini", tmp_path)

    assert maker.num_calls == 1
    assert first == second
    assert first.path == tmp_path / "toy_mini" / "prepared" / "data"
    assert (first.num_files, first.num_bytes, first.metadata) == (2, 5 + 16, {"num_train": 5})


def test_labels_are_kept_apart_and_counted_in_the_digest(tmp_path: Path) -> None:
    """What the training must not see is in a folder of its own; the digest is that of all files, wherever they are."""

    def three_files(folder: Path) -> None:
        two_files(folder)
        (folder / "test_labels.npy").write_bytes(b"secret")

    together = data_cache.prepare(Maker(three_files), "mini", tmp_path / "together")
    apart = data_cache.prepare(Maker(three_files, labels=("test_labels.npy",)), "mini", tmp_path / "apart")

    assert sorted(path.name for path in apart.path.iterdir()) == ["metadata.json", "part"]
    assert [path.name for path in apart.labels.iterdir()] == ["test_labels.npy"]
    assert data_cache.drop_caches(apart.path, apart.labels)[1]["num_files"] == apart.num_files
    assert (apart.digest, apart.num_files, apart.num_bytes) == (together.digest, 3, 5 + 16 + 6)
    (apart.labels / "test_labels.npy").write_bytes(b"changed")
    assert data_cache.read(apart.path.parent).digest != together.digest


def test_digest_can_be_redone_with_sha256sum(tmp_path: Path) -> None:
    """SHA-256 over `<sha256>  <path>` lines, sorted by path."""
    data = data_cache.prepare(Maker(), "mini", tmp_path)

    lines = "".join(
        f"{hashlib.sha256((data.path / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("metadata.json", "part/train.bin")
    )
    assert data.digest == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("change", ["content", "name", "more", "less", "nothing visible"])
def test_digest_changes_with_the_data(tmp_path: Path, change: str) -> None:
    """Another byte, another name, a file more, a file less; a file of the same size and timestamp is not read again."""
    before = data_cache.prepare(Maker(), "mini", tmp_path)
    train = before.path / "part" / "train.bin"
    stamp = train.stat().st_mtime_ns
    if change in ("content", "nothing visible"):
        train.write_bytes(b"trajn")
        os.utime(train, ns=(1, stamp if change == "nothing visible" else 1))
    elif change == "name":
        train.rename(train.with_name("other.bin"))
    elif change == "more":
        (before.path / "more").touch()
    else:
        train.unlink()

    assert (data_cache.read(before.path.parent).digest == before.digest) == (change == "nothing visible")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "5",
        '{"metadata.json": 5}',
        '{"metadata.json": {}}',
        '{"metadata.json": {"sha256": 5}}',
        '{"metadata.json": [], "other": null}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:20],
)
def test_spoilt_digests_cost_only_time(tmp_path: Path, content: str) -> None:
    """Stored digests only save time; if they are invalid, every file is read."""
    before = data_cache.prepare(Maker(), "mini", tmp_path)
    (before.path.parents[1] / "digests.json").write_text(content)

    assert data_cache.read(before.path.parent) == before


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"5", b"null", b"\xff", b"[" * 100_000])
def test_spoilt_metadata_is_a_damaged_data_set(tmp_path: Path, content: bytes | None) -> None:
    """Missing or invalid, the message says what to delete."""
    data = data_cache.prepare(Maker(), "mini", tmp_path)
    (data.path / "metadata.json").unlink()
    if content is not None:
        (data.path / "metadata.json").write_bytes(content)

    with pytest.raises(DataError, match=r"metadata\.json: .*delete .*toy_mini/prepared and prepare again"):
        data_cache.prepare(Maker(), "mini", tmp_path)


class BoomError(Exception):
    """An error that `tta` does not know."""


@pytest.mark.parametrize(
    ("error", "raised", "why"),
    [
        (BoomError("boom"), BoomError, "boom"),
        (KeyboardInterrupt("boom"), KeyboardInterrupt, "boom"),
        (DataError("no network"), DataError, "no network"),
        (OSError(28, "No space left on device", "train.bin"), OutputError, r"train\.bin: No space left on device"),
    ],
)
def test_preparation_that_fails_leaves_only_its_downloads(
    tmp_path: Path, error: BaseException, raised: type[BaseException], why: str
) -> None:
    """Nothing that looks like data is left; the next call starts over and finds what was downloaded."""

    def fail(folder: Path) -> None:
        two_files(folder)
        (folder.parent / "downloads").mkdir()
        (folder.parent / "downloads" / "archive.part").write_bytes(b"half")
        raise error

    def resume(folder: Path) -> None:
        assert (folder.parent / "downloads" / "archive.part").read_bytes() == b"half"
        two_files(folder)

    with pytest.raises(raised, match=why):
        data_cache.prepare(Maker(fail), "mini", tmp_path)

    assert sorted(path.name for path in (tmp_path / "toy_mini").iterdir()) == ["downloads", "lock"]
    assert data_cache.prepare(Maker(resume), "mini", tmp_path).num_files == 2
    assert (tmp_path / "toy_mini" / "downloads" / "archive.part").exists()


@pytest.mark.parametrize("place", ["file", "file/below", "/dev/null/x", "x" * 300])
def test_cache_that_cannot_be_is_an_output_error(tmp_path: Path, place: str) -> None:
    """A file in the way, a device, a name that is too long."""
    (tmp_path / "file").touch()

    with pytest.raises(OutputError, match="cannot be prepared there"):
        data_cache.prepare(Maker(), "mini", tmp_path / place)


def test_two_preparations_at_once_make_one(tmp_path: Path) -> None:
    """The second waits for the first, whose folder it does not remove, and finds the data complete."""
    is_inside, may_go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        two_files(folder)
        is_inside.set()
        assert may_go_on.wait(10)
        assert (folder / "metadata.json").exists()

    found: list[int] = []
    first, second = Maker(slow), Maker()
    threads = [
        threading.Thread(target=lambda maker=maker: found.append(data_cache.prepare(maker, "mini", tmp_path).num_files))
        for maker in (first, second)
    ]
    threads[0].start()
    assert is_inside.wait(10)
    threads[1].start()
    threads[1].join(0.1)
    may_go_on.set()
    for thread in threads:
        thread.join(10)

    assert found == [2, 2]
    assert (first.num_calls, second.num_calls) == (1, 0)


def test_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TTA_DATA, or the user's cache folder; an empty variable does not count."""
    monkeypatch.setenv("TTA_DATA", "/data")
    assert data_cache.default_cache() == Path("/data")
    monkeypatch.setenv("TTA_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_cache.default_cache() == tmp_path / "tta"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_cache.default_cache() == tmp_path / ".cache" / "tta"


@pytest.mark.parametrize("is_prepared", [True, False])
def test_leftovers_of_a_killed_preparation_are_tidied(tmp_path: Path, is_prepared: bool) -> None:
    """The next call removes it, whether or not the data are complete."""
    if is_prepared:
        data_cache.prepare(Maker(), "mini", tmp_path)
    left = tmp_path / "toy_mini" / "preparing-abcd1234"
    (left / "part").mkdir(parents=True)
    (left / "part" / "train.bin").write_bytes(b"half")

    assert data_cache.prepare(Maker(), "mini", tmp_path).num_files == 2

    assert sorted(path.name for path in (tmp_path / "toy_mini").iterdir()) == ["digests.json", "lock", "prepared"]


@pytest.mark.parametrize("has_digests", [True, False])
def test_cache_that_cannot_be_written_is_good_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_digests: bool
) -> None:
    """Complete data on a shared read-only disk are verified every time, and nothing is written."""
    before = data_cache.prepare(Maker(), "mini", tmp_path / "shared")
    folder = tmp_path / "shared" / "toy_mini"
    (folder / "lock").unlink()
    if not has_digests:
        (folder / "digests.json").unlink()
    there = sorted(path.name for path in folder.iterdir())
    maker, opened = Maker(), Path.open

    def refuse(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if set(mode) & set("wax+"):
            raise OSError(errno.EROFS, "Read-only file system", str(self))
        return opened(self, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)

    assert data_cache.prepare(maker, "mini", tmp_path / "shared") == before
    assert data_cache.prepare(maker, "mini", tmp_path / "shared") == before

    assert maker.num_calls == 0
    assert sorted(path.name for path in folder.iterdir()) == there
    os.truncate(before.path / "part" / "train.bin", 2)
    assert data_cache.prepare(maker, "mini", tmp_path / "shared").digest != before.digest


def test_digests_that_cannot_be_noted_cost_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the data are complete."""

    def full(self: Path, *arguments: Any, **options: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full)

    def with_bytes(folder: Path) -> None:
        (folder / "metadata.json").write_bytes(b"{}")

    assert data_cache.prepare(Maker(with_bytes), "mini", tmp_path).num_files == 1


def test_data_that_cannot_be_read_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad block in one file: the message names it, and no digest is returned."""

    def digest(path: Path) -> str:
        if path.name == "train.bin":
            raise OSError(errno.EIO, "Input/output error")
        return "0" * 64

    monkeypatch.setattr(digests, "sha256_of", digest)

    with pytest.raises(DataError, match=r"part/train\.bin: cannot be read: Input/output error"):
        data_cache.prepare(Maker(), "mini", tmp_path)


def test_cache_that_was_not_cleared_is_never_called_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log counts the files; if the file system refuses the request for one of two, it counts one."""
    data = data_cache.prepare(Maker(), "mini", tmp_path)
    assert data_cache.drop_caches(data.path) == (True, {"method": "posix_fadvise", "num_files": 2})
    calls: list[int] = []

    def refuse_the_second(fd: int, offset: int, length: int, advice: int) -> None:
        calls.append(fd)
        if len(calls) == 2:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "posix_fadvise", refuse_the_second)

    assert data_cache.drop_caches(data.path) == (False, {"method": "posix_fadvise", "num_files": 1})
    for fd in calls:
        with pytest.raises(OSError, match="Bad file descriptor"):  # none is left open
            os.fstat(fd)
