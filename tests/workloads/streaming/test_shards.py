"""Shards: complete or not there, made once, the same bytes from however many processes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from pyarrow import parquet

from harness.base import digests
from harness.errors import DataError
from tests.workloads.streaming import toy
from workloads.streaming import shards
from workloads.streaming.shards import Shards


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_split_is_what_datasets_reads(data_dir: Path) -> None:
    """In order, with the types of the features, as a set on disk that the library opens; an empty split too."""
    with Shards(data_dir, num_processes=1) as made:
        assert made.write("train", toy.FEATURES, toy.parts(34), toy.read_part) == 34
        assert made.write("test", toy.FEATURES, [(0, 0)], toy.read_part) == 0
        assert made.read("train")[[33]]["index"].to_pylist() == [33]
        assert not list(data_dir.iterdir())

    found = datasets.load_from_disk(str(data_dir / "train"))
    assert list(found) == [row for part in toy.parts(34) for row in toy.read_part(part)]
    assert found.features == toy.FEATURES
    assert sorted(path.name for path in (data_dir / "train").glob("*.arrow"))[-1] == "data-00003-of-00004.arrow"
    assert not (data_dir.parent / "unfinished").exists()


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_parts_can_be_read_by_datasets(
    kind: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two local files in a format of the library's, streamed; it needs no network and keeps no copy."""
    cache = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    parts = [(kind, str(tmp_path / f"{name}.{kind}")) for name in "ab"]
    for _, path in parts:
        texts = ["one", Path(path).stem, "grüß"]
        if kind == "text":
            Path(path).write_text("\n".join(texts), "utf-8")
        else:
            parquet.write_table(pa.table({"text": texts}), path)

    with Shards(data_dir, num_processes=1) as made:
        made.write("train", datasets.Features({"text": datasets.Value("string")}), parts, toy.read_with_datasets)

    assert shards.read(data_dir / "train")[:]["text"].to_pylist() == ["one", "a", "grüß", "one", "b", "grüß"]
    assert not any(path.is_file() and path.stat().st_size > 0 for path in cache.rglob("*.arrow"))


def test_bytes_do_not_depend_on_who_writes_them(tmp_path: Path) -> None:
    """One process or two, in another folder; rows that come as a table have the same content."""
    found = []
    for name, num_processes in (("one", 1), ("two", 2)):
        data_dir = tmp_path / name / "data"
        data_dir.mkdir(parents=True)
        with Shards(data_dir, num_processes) as made:
            made.write("train", toy.FEATURES, toy.parts(34), toy.read_part)
            made.write("tables", toy.FEATURES, toy.parts(34), toy.read_as_table)
        found.append(files(data_dir))
        assert list(shards.read(data_dir / "train")) == list(shards.read(data_dir / "tables"))

    assert found[0] == found[1]


def test_failed_preparation_is_completed_by_the_next(data_dir: Path) -> None:
    """Two of four shards are complete when it fails; the second attempt makes the other two, and only those."""
    with pytest.raises(OSError, match="No space"), Shards(data_dir, num_processes=1) as made:
        made.write("train", toy.FEATURES, toy.parts(34), toy.read_and_fail)
    unfinished = data_dir.parent / "unfinished" / "train"
    before = {path.name: path.stat().st_mtime_ns for path in unfinished.glob("*.arrow")}
    assert not list(data_dir.iterdir())

    with Shards(data_dir, num_processes=1) as made:
        assert made.write("train", toy.FEATURES, toy.parts(34), toy.read_part) == 34

    after = {path.name: path.stat().st_mtime_ns for path in (data_dir / "train").iterdir()}
    assert sorted(before) == ["data-00000-of-00004.arrow", "data-00001-of-00004.arrow"]
    assert before.items() <= after.items()
    assert sorted(after) == [f"data-{i:05d}-of-00004.arrow" for i in range(4)] + ["dataset_info.json", "state.json"]


def test_failure_in_a_process_of_its_own_is_reported(data_dir: Path) -> None:
    with pytest.raises(OSError, match="No space"), Shards(data_dir, num_processes=2) as made:
        made.write("train", toy.FEATURES, toy.parts(34), toy.read_and_fail)


def test_killed_process_is_reported(data_dir: Path) -> None:
    """As when memory is short: no trace of Python's, and the shards that are complete stay."""
    message = "train: a process that made shards was killed, .* prepare the data again"
    with pytest.raises(DataError, match=message), Shards(data_dir, num_processes=2) as made:
        made.write("train", toy.FEATURES, toy.parts(34), toy.read_and_die)


@pytest.mark.parametrize("change", ["parts", "features", "code"])
def test_shards_of_something_else_are_not_used(data_dir: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other parts, features or code than those of the attempt that failed: all shards are made again."""
    with pytest.raises(OSError, match="No space"), Shards(data_dir, num_processes=1) as made:
        made.write("train", toy.FEATURES, toy.parts(34), toy.read_and_fail)
    shard = data_dir.parent / "unfinished" / "train" / "data-00000-of-00004.arrow"
    before = shard.stat().st_mtime_ns
    if change == "code":
        monkeypatch.setattr(shards, "_code", lambda: "other")
    features = datasets.Features({**toy.FEATURES, "index": datasets.Value("int64")})

    with Shards(data_dir, num_processes=1) as made:
        made.write(
            "train",
            features if change == "features" else toy.FEATURES,
            toy.parts(32 if change == "parts" else 34),
            toy.read_part,
        )

    assert (data_dir / "train" / shard.name).stat().st_mtime_ns != before


def test_digests_of_shards_are_stored_as_they_are_made(data_dir: Path) -> None:
    """Whoever verifies the data afterwards reads no shard again."""
    with Shards(data_dir, num_processes=1) as made:
        made.write("train", toy.FEATURES, toy.parts(34), toy.read_part)

    stored = digests.stored(data_dir.parent / digests.NAME)
    assert {name: entry["sha256"] for name, entry in stored.items()} == {
        name: digest for name, digest in files(data_dir).items() if name.endswith(".arrow")
    }
    assert all(digests.entry(data_dir / name, entry) == entry for name, entry in stored.items())


@pytest.mark.parametrize("fault", ["folder", "state", "shard", "cut off"])
def test_damaged_split_is_named(data_dir: Path, fault: str) -> None:
    with Shards(data_dir, num_processes=1) as made:
        made.write("train", toy.FEATURES, toy.parts(34), toy.read_part)
    folder = data_dir / "train"
    shard = folder / "data-00001-of-00004.arrow"
    match fault:
        case "folder":
            folder = data_dir / "missing"
        case "state":
            (folder / "state.json").write_text(json.dumps({}))
        case "shard":
            shard.unlink()
        case "cut off":
            shard.write_bytes(shard.read_bytes()[:100])

    with pytest.raises(DataError, match=f"{folder}: cannot be read: .*; prepare the data again"):
        shards.read(folder)
