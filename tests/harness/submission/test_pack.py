"""A submission gets into the tree completely, once, and never over another."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import OutputError, SubmissionError, UsageError
from harness.submission import pack
from harness.submission.claim import Claim
from harness.submission.result import Result, find_results, read_result
from tests.fabricate import MODULE, SYSTEM, Step, write_result

PLACE = Path("acme/results/box1/toy_mini")
DESCRIPTION = Path("acme/systems/box1.json")


def claim_for(result: Result, **changes: Any) -> Claim:
    assert result.system_sha256 is not None
    claim = Claim("acme", "box1", "toy_mini", "closed", "available", "v1", result.system_sha256, "2026-11-21", "a note")
    return dataclasses.replace(claim, **changes)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    return read_result(write_result(tmp_path / "run", num_runs=2))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def submit(tree: Path, result: Result, **changes: Any) -> Path:
    claim = claim_for(result, **changes)
    with pack.packed(tree, result, claim) as staging:
        return pack.add_to_tree(tree, staging, pack.pack_paths(claim, result.repeats))


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_placed_result_reads_back_as_it_was(tree: Path, tmp_path: Path) -> None:
    """Logs and description are copied byte for byte, and a manifest lists every file with its digest."""
    folder = write_result(tmp_path / "run", num_runs=2)
    text = json.dumps(SYSTEM, indent=7) + "\n\n"
    (folder / "system.json").write_text(text)
    result = read_result(folder)

    place = submit(tree, result)

    again = read_result(place)
    assert place == tree / PLACE
    assert again.kind == "submission"
    assert again.claim == claim_for(result)
    assert again.system == SYSTEM
    assert (tree / DESCRIPTION).read_text() == text
    assert [log.sha256 for log in again.runs] == [log.sha256 for log in result.runs]
    assert again.manifest == {name: entry.sha256 for name, entry in again.files.items() if name != "MANIFEST.sha256"}
    assert again.unreadable == ()
    assert sorted(content(tree)) == sorted([str(DESCRIPTION), *(str(PLACE / name) for name in again.files)])


def test_unfinished_attempts_are_submitted(tree: Path, tmp_path: Path) -> None:
    """The logs, not what else is in the folder, and not their power logs."""
    folder = write_result(tmp_path / "run", num_runs=1)
    for name in ("result_0.17.txt", "result_0.txt", "notes.txt", "result_0.17.power/node_0.txt"):
        (folder / "unfinished" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "unfinished" / name).write_text("killed\n")

    place = submit(tree, read_result(folder))

    assert [name for name in content(place) if "unfinished" in name] == ["unfinished/result_0.17.txt"]


def test_the_predictions_of_the_runs_are_submitted(tree: Path, tmp_path: Path) -> None:
    """Not those of another run, or files with almost their name."""
    folder = write_result(tmp_path / "run", num_runs=2)
    for name in ("predictions_0.npz", "predictions_1.npz", "predictions_2.npz", "predictions_00.npz"):
        (folder / name).write_bytes(name.encode())

    place = submit(tree, read_result(folder))

    submitted = [name for name in content(place) if "predictions" in name]
    assert submitted == ["predictions_0.npz", "predictions_1.npz"]
    assert set(submitted) <= set(read_result(place).manifest or {})


def test_the_weights_of_the_runs_are_submitted(tree: Path, tmp_path: Path) -> None:
    """Not those of another run, or files with almost their name."""
    folder = write_result(tmp_path / "run", num_runs=2)
    for name in ("weights_0.safetensors", "weights_1.safetensors", "weights_2.safetensors", "weights_0.pt"):
        (folder / name).write_bytes(name.encode())

    place = submit(tree, read_result(folder))

    submitted = [name for name in content(place) if "weights" in name]
    assert submitted == ["weights_0.safetensors", "weights_1.safetensors"]
    assert set(submitted) <= set(read_result(place).manifest or {})


def test_staging_has_the_layout_of_the_tree_and_is_never_found(tree: Path, result: Result) -> None:
    """The check before the submission sees what the organiser will see; a reader of the tree does not see it."""
    with pack.packed(tree, result, claim_for(result)) as staging:
        assert read_result(staging / PLACE).system == SYSTEM
        with pytest.raises(SubmissionError, match="there is no result"):
            find_results(tree)

    assert list(tree.iterdir()) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda place: write_result(place, num_runs=1),
        lambda place: place.write_text("precious"),
        lambda place: (place / "precious").mkdir(parents=True),
        lambda place: place.mkdir(),
        lambda place: place.symlink_to("nowhere"),
    ],
    ids=["result", "file", "folder", "empty folder", "broken link"],
)
def test_whatever_is_at_the_place_stays(tree: Path, result: Result, make: Callable[[Path], object]) -> None:
    """The submission is refused, and nothing in the tree changes, whether or not there is a result."""
    (tree / PLACE).parent.mkdir(parents=True)
    make(tree / PLACE)
    before = content(tree)

    with pytest.raises(OutputError, match="there is a result already"):
        submit(tree, result, notes="better")

    assert content(tree) == before
    assert [path.name for path in tree.iterdir()] == ["acme"]


@pytest.mark.parametrize("is_link", [False, True])
def test_other_description_of_the_same_name_is_refused(
    tree: Path, result: Result, tmp_path: Path, is_link: bool
) -> None:
    """A name stands for one machine; a link is not followed, not even to the same description. Nothing is placed."""
    (tree / DESCRIPTION).parent.mkdir(parents=True)
    if is_link:
        (tree / DESCRIPTION).symlink_to(tmp_path / "run" / "system.json")
    else:
        (tree / DESCRIPTION).write_text(json.dumps({**SYSTEM, "cooling": "water"}))
    before = content(tree)

    with pytest.raises(OutputError, match="another description of a system of that name"):
        submit(tree, result)

    assert content(tree) == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "/etc", "a/b", ".hidden", "-rf", "a b", "a\n", "é", "a\0", "x" * 101]
)
@pytest.mark.parametrize("what", ["submitter", "system", "benchmark"])
def test_name_that_cannot_be_a_folders_is_refused(tree: Path, result: Result, what: str, name: str) -> None:
    """No name leads out of the tree, hides in it, or breaks a shell."""
    with pytest.raises(UsageError, match=f"the {what} is called"):
        submit(tree, result, **{what: name})

    assert list(tree.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("missing", "is not a folder"),  # a typing error must not make a second leaderboard
        ("file", "is not a folder"),
        ("link", "is not a folder"),
        ("/proc", "^/proc: cannot be written: [A-Z]"),
        ("full", "full/acme.*: Not a directory; nothing was submitted"),
    ],
)
def test_tree_that_cannot_take_a_result_is_one_sentence(tmp_path: Path, result: Result, place: str, why: str) -> None:
    """It is not created, and what is there stays as it is."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "acme").write_text("precious")
    before = content(tmp_path)

    with pytest.raises(OutputError, match=why):
        submit(tmp_path / place, result)

    assert content(tmp_path) == before


def append(path: Path) -> None:
    with path.open("a") as stream:
        stream.write("more\n")


@pytest.mark.parametrize(
    ("name", "damage", "error", "why"),
    [
        ("result_0.txt", append, SubmissionError, "changed while it was being read"),
        ("power/result_1/node_0.txt", append, SubmissionError, "changed while it was being read"),
        ("power/idle/node_0.txt", append, SubmissionError, "changed while it was being read"),
        ("result_1.txt", Path.unlink, OutputError, "No such file or directory; nothing was submitted"),
    ],
)
def test_log_that_is_no_longer_what_was_read_is_refused(
    tree: Path, tmp_path: Path, name: str, damage: Callable[[Path], None], error: type[Exception], why: str
) -> None:
    """A run's log, its power log and the idle baseline are placed as they were checked, or not at all."""
    metered = read_result(write_result(tmp_path / "metered", num_runs=2, power="node"))
    damage(metered.path / name)

    with pytest.raises(error, match=f"{name}: {why}"):
        submit(tree, metered)

    assert list(tree.iterdir()) == []


class Crash(BaseException):
    """Nothing catches it, like a power cut."""


@pytest.mark.parametrize("step", ["staged", "sync", "system", "rename"])
def test_crash_between_steps_leaves_no_result_and_the_next_try_succeeds(
    tree: Path, result: Result, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The tree always has either the whole result or nothing of it."""

    def crash(*arguments: object, **options: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        if step == "staged":
            patch.setattr(pack, "add_to_tree", crash)
        elif step == "sync":
            patch.setattr(os, "fsync", crash)
        elif step == "system":
            patch.setattr(os, "link", crash)
        elif step == "rename":
            patch.setattr(Path, "rename", crash)
        patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)  # nothing is removed after a power cut
        with pytest.raises(Crash):
            submit(tree, result)

    with pytest.raises(SubmissionError, match="there is no result"):
        find_results(tree)
    assert submit(tree, result) == tree / PLACE
    assert read_result(tree / PLACE).unreadable == ()


def test_failed_rename_takes_the_description_away_again(
    tree: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description without a result would be in the way of a corrected one."""

    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(OutputError, match="Input/output error; nothing was submitted"):
            submit(tree, result)

    assert content(tree) == {}


def test_faster_submission_wins_and_keeps_the_description(
    tree: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another result is placed between the description and the rename of this one: it stays, with its description."""
    rename = Path.rename

    def overtaken(source: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        submit(tree, result, notes="faster")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    with pytest.raises(OutputError, match="there is a result already"):
        submit(tree, result, notes="slower")

    placed = read_result(tree / PLACE)
    assert placed.claim is not None
    assert placed.claim.notes == "faster"
    assert placed.system == SYSTEM


def test_of_many_submissions_of_one_place_exactly_one_wins(tree: Path, result: Result) -> None:
    """Of eight simultaneous ones, one is placed completely and seven are refused; nothing else is left."""
    gate = threading.Barrier(8)
    outcomes: list[str] = []

    def run(number: int) -> None:
        claim = claim_for(result, notes=str(number))
        try:
            with pack.packed(tree, result, claim) as staging:
                gate.wait(20)
                pack.add_to_tree(tree, staging, pack.pack_paths(claim))
            outcomes.append(str(number))
        except OutputError as error:
            outcomes.append("refused" if "already" in str(error) else str(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    placed = read_result(tree / PLACE)
    assert placed.claim is not None
    assert sorted(outcomes) == sorted([placed.claim.notes, *["refused"] * 7])
    assert placed.system == SYSTEM
    assert len(placed.runs) == 2
    assert [path.name for path in tree.iterdir()] == ["acme"]


@pytest.mark.parametrize(
    "notes", ["", "a: b # c", "- x", "é ≥ 😀", "two\nlines", "\x1b[31m", "'", '"', "null", "\udcff", "{"]
)
def test_notes_of_any_kind_are_read_back_as_they_were(tree: Path, result: Result, notes: str) -> None:
    """The YAML is quoted as necessary; a lone surrogate does not end in a traceback."""
    placed = read_result(submit(tree, result, notes=notes))

    assert placed.claim is not None
    assert placed.claim.notes == notes.replace("\udcff", "?") or placed.claim.notes == notes


def test_reproduction_is_placed_beside_with_its_module(tree: Path, tmp_path: Path) -> None:
    """The submitter's own result of the benchmark and the reproduction share the system and the folder of modules."""

    def again(index: int, steps: list[Step]) -> list[Step]:
        steps.insert(2, Step(0.0, "tta_reproduces", {"digest": "5d" * 32}))
        return steps

    options: dict[str, Any] = {"num_runs": 2, "division": "open", "module": MODULE}
    own = submit(tree, read_result(write_result(tmp_path / "own", **options)), division="open")
    found = read_result(write_result(tmp_path / "again", change=again, **options))
    place = submit(tree, found, division="open")

    assert (own.name, place) == ("toy_mini", own.with_name("toy_mini-again-5d5d5d5d5d5d"))
    assert [path.name for path in (tree / "acme" / "benchmarks").iterdir()] == ["toy_mini"]
    assert read_result(place).code == read_result(own).code != {}
