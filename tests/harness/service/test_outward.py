"""What is published, as files: results that can be checked again, a log that can be verified, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from harness.base.files import sha256_of
from harness.errors import ExitStatus, OutputError
from harness.service import outward
from harness.service.worker import Exporter
from harness.submission.result import find_results
from harness.transparency.checkpoint import parse_note
from harness.transparency.event import parse_opening
from harness.transparency.tiles import nodes_of, tile_path
from harness.transparency.tree import root
from tests.harness.service.world import World


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_what_counts_is_there_and_the_log_verifies(small: World, tmp_path: Path) -> None:
    """Results as they were handed in; tiles under the root that the checkpoint signs; public events open its leaves."""
    submissions = [small.submit(small.alice), small.submit(small.bob)]
    small.work()
    out = tmp_path / "out"

    assert outward.export(small.instance, out) == 2
    assert len(list(find_results(out / "tree"))) == 2
    listed = [item for each in submissions for item in small.alice.get(f"/submissions/{each}/files").json()["files"]]
    for item in listed:
        assert sha256_of(out / "tree" / item["path"]) == item["sha256"]
    log = out / "log"
    point = parse_note((log / "checkpoint").read_bytes(), "it").checkpoint

    def fetch(level: int, number: int, width: int) -> bytes:
        return (log / tile_path(level, number, width)).read_bytes()

    node = nodes_of(fetch, point.size)
    assert root(node, point.size) == point.root
    openings = [parse_opening(json.loads(line), "line") for line in (log / "events.jsonl").read_text().splitlines()]
    assert openings
    assert all(node(0, item.seq) == item.leaf for item in openings)


def test_what_is_under_embargo_is_not_there(small_reviewed: World, tmp_path: Path) -> None:
    """Not its team's name, nor a byte of its files; published, it is; retracted, it is not any more."""
    world = small_reviewed
    submission = world.submit(world.alice)
    world.work()
    out = tmp_path / "out"
    assert outward.export(world.instance, out) == 0
    content = all_bytes(out)
    assert b"acme" not in content
    assert submission.encode() not in content
    world.olga.post(f"/submissions/{submission}/actions/accept", json={"reason": "good"})
    world.work()
    assert outward.export(world.instance, out) == 1
    assert b"acme" in all_bytes(out / "tree")
    world.bob.post(f"/submissions/{submission}/dispute", json={"reason": "no"})
    assert outward.export(world.instance, out) == 0
    assert not any((out / "tree").iterdir())


def test_the_site_is_made_and_stays_current(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command; the worker starts it after each change, and at no other time."""
    arguments = ["board", "export", str(tmp_path / "out"), "--data", str(small.instance.folder)]
    assert cli.main(arguments) == ExitStatus.OK
    assert not (tmp_path / "out" / "site").exists()
    submission = small.submit(small.alice)
    small.work()
    assert cli.main(arguments) == ExitStatus.OK
    assert "acme" in (tmp_path / "out" / "site" / "index.html").read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        outward.export(small.instance, tmp_path / "file")

    started = []

    class Ended:
        returncode = 1

        def __init__(self, command: list[str], **options: object) -> None:
            started.append(command)

        def poll(self) -> int:
            return 1

    monkeypatch.setattr("harness.service.worker.subprocess.Popen", Ended)
    exporter = Exporter(small.instance)
    exporter.look()
    assert started == []
    object.__setattr__(small.instance.settings, "export", str(tmp_path / "out"))
    for _ in range(3):
        exporter.look()
    assert len(started) == 1
    small.bob.post(f"/submissions/{submission}/dispute", json={"reason": "no"})
    exporter.look()
    assert [command[-3:] for command in started] == [[str(tmp_path / "out"), "--data", str(small.instance.folder)]] * 2
