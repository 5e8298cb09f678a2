"""A preparation that is killed: the next one goes on, with the same bytes, and verifying them reads nothing again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.base import digests
from harness.run import data_cache
from tests.killing import ROOT, until
from tests.workloads.streaming import toy

pytestmark = pytest.mark.slow


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "wait").touch()
    return tmp_path / "source"


@pytest.fixture
def waiting(tmp_path: Path, source: Path) -> Iterator[psutil.Process]:
    """A preparation that waits in its third part, when the other four are complete."""
    code = (
        "if __name__ == '__main__':\n"
        "    import sys; from pathlib import Path; from harness.run import data_cache\n"
        "    from tests.workloads.streaming.toy import Streamed\n"
        "    data_cache.prepare(Streamed(), 'full', *map(Path, sys.argv[1:]))\n"
    )
    (tmp_path / "prepare.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "prepare.py"), str(tmp_path / "cache"), str(source)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    unfinished = tmp_path / "cache" / "streamed_full" / "unfinished" / "train"
    assert until(lambda: len(list(unfinished.glob("*.arrow"))) == 4)
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()


def test_killed_preparation_is_resumed_with_the_same_bytes(
    tmp_path: Path, source: Path, waiting: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process of the killed one writes on; one of five parts is read again; no shard is read to verify it."""
    writers = waiting.children(recursive=True)
    waiting.kill()
    assert until(lambda: not any(writer.is_running() for writer in writers))
    (source / "wait").unlink()
    (source / "parts").unlink()
    read: list[str] = []
    sha256_of = digests.sha256_of

    def noted(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(digests, "sha256_of", noted)

    resumed = data_cache.prepare(toy.Streamed(), "full", tmp_path / "cache", source)

    assert (source / "parts").read_text() == "20\n"
    assert sorted(read) == ["dataset_info.json", "metadata.json", "state.json", "test_labels.txt"]
    assert sorted(path.name for path in resumed.path.parents[1].iterdir()) == ["digests.json", "lock", "prepared"]
    monkeypatch.undo()
    assert data_cache.read(resumed.path.parent) == resumed
    shutil.rmtree(resumed.path.parents[1] / "prepared")
    (resumed.path.parents[1] / "digests.json").unlink()
    again = data_cache.prepare(toy.Streamed(), "full", tmp_path / "cache", source)
    assert again.digest == resumed.digest
    assert (source / "parts").read_text().split() != ["20"]
