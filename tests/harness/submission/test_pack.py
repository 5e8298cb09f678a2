"""A submission gets into the tree whole, once, and never over another."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.errors import OutputError, SubmissionError, UsageError
from harness.submission import pack
from harness.submission.claim import Claim
from harness.submission.result import Result, find_results, read_result
from tests.fabricate import SYSTEM, write_result, write_submission

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
        return pack.add_to_tree(tree, staging, claim)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_placed_result_reads_back_as_it_was(tree: Path, result: Result) -> None:
    """Logs byte for byte, description, claim, and a manifest that lists every file with its digest."""
    place = submit(tree, result)

    again = read_result(place)
    assert place == tree / PLACE
    assert again.kind == "submission"
    assert again.claim == claim_for(result)
    assert again.system == SYSTEM
    assert [log.sha256 for log in again.runs] == [log.sha256 for log in result.runs]
    assert again.manifest == {name: entry.sha256 for name, entry in again.files.items() if name != "MANIFEST.sha256"}
    assert again.unreadable == ()
    assert sorted(content(tree)) == sorted([str(DESCRIPTION), *(str(PLACE / name) for name in again.files)])


def test_staging_is_in_the_trees_own_layout_and_never_found(tree: Path, result: Result) -> None:
    """So the organiser's check sees what it will see; and a tree that is read meanwhile does not see it."""
    with pack.packed(tree, result, claim_for(result)) as staging:
        assert read_result(staging / PLACE).system == SYSTEM
        with pytest.raises(SubmissionError, match="there is no result"):
            find_results(tree)

    assert list(tree.iterdir()) == []


def test_result_that_is_there_is_never_replaced(tree: Path, result: Result) -> None:
    """The second submission of the same place is refused, and changes nothing."""
    submit(tree, result)
    before = content(tree)

    with pytest.raises(OutputError, match="there is a result already"):
        submit(tree, result, notes="better")

    assert content(tree) == before


@pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "broken link"])
def test_whatever_is_at_the_place_stays(tree: Path, result: Result, kind: str) -> None:
    """Also what is no result; and no description is placed for it."""
    (tree / PLACE).parent.mkdir(parents=True)
    if kind == "file":
        (tree / PLACE).write_text("precious")
    elif kind == "broken link":
        (tree / PLACE).symlink_to("nowhere")
    else:
        (tree / PLACE).mkdir()
        if kind == "folder":
            (tree / PLACE / "precious").touch()

    with pytest.raises(OutputError, match="there is a result already"):
        submit(tree, result)

    assert not (tree / DESCRIPTION).exists()
    assert [path.name for path in tree.iterdir()] == ["acme"]


def test_same_system_may_have_several_results(tree: Path, result: Result) -> None:
    """One description for all of them."""
    submit(tree, result)
    submit(tree, result, benchmark="other_mini")

    assert len(find_results(tree)) == 2


def test_what_lies_beside_the_results_of_a_submitter_is_none(tmp_path: Path) -> None:
    """Reference runs and tries are read where they are named, and never swept up with the leaderboard."""
    submission = write_submission(tmp_path / "tree")
    beside = write_result(tmp_path / "tree" / submission.parts[-4] / "convergence" / "toy_mini")

    assert find_results(tmp_path / "tree") == [submission]
    assert find_results(beside) == find_results(beside.parent) == [beside]


def test_other_description_of_the_same_name_is_refused(tree: Path, result: Result, tmp_path: Path) -> None:
    """A name stands for one machine; nothing is placed."""
    submit(tree, result)
    other = read_result(write_result(tmp_path / "run2", num_runs=1, system={**SYSTEM, "cooling": "water"}))
    before = content(tree)

    with pytest.raises(OutputError, match="another description of a system of that name"):
        submit(tree, other, benchmark="other_mini")

    assert content(tree) == before


def test_link_at_the_descriptions_place_is_not_followed(tree: Path, result: Result, tmp_path: Path) -> None:
    """Not even to a file with the same content."""
    (tree / DESCRIPTION).parent.mkdir(parents=True)
    (tree / DESCRIPTION).symlink_to(tmp_path / "run" / "system.json")

    with pytest.raises(OutputError, match="another description"):
        submit(tree, result)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "/etc", "a/b", ".hidden", "-rf", "a b", "a\n", "é", "a\0", "x" * 101]
)
@pytest.mark.parametrize("what", ["submitter", "system", "benchmark"])
def test_name_that_is_no_folders_name_is_refused(tree: Path, result: Result, what: str, name: str) -> None:
    """Nothing gets out of the tree, hides in it, or breaks a shell."""
    with pytest.raises(UsageError, match=f"the {what} is called"):
        submit(tree, result, **{what: name})

    assert list(tree.iterdir()) == []


@pytest.mark.parametrize("kind", ["missing", "file", "broken link"])
def test_tree_that_is_no_folder_is_refused(tmp_path: Path, result: Result, kind: str) -> None:
    """It is not made: a typing error would be a leaderboard of its own."""
    tree = tmp_path / "nowhere"
    if kind == "file":
        tree.touch()
    elif kind == "broken link":
        tree.symlink_to("elsewhere")

    with pytest.raises(OutputError, match="is not a folder"):
        submit(tree, result)


def test_tree_on_a_file_system_that_takes_nothing_is_one_sentence(result: Result) -> None:
    """In /proc nobody makes a folder, whoever it is."""
    with pytest.raises(OutputError, match=r"^/proc: cannot be written: [A-Z]"):
        submit(Path("/proc"), result)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_tree_that_cannot_be_written_is_one_sentence(tree: Path, result: Result) -> None:
    """A share that is mounted read-only."""
    tree.chmod(0o555)

    with pytest.raises(OutputError, match="cannot be written"):
        submit(tree, result)


def test_folder_in_the_tree_that_is_a_file_is_one_sentence(tree: Path, result: Result) -> None:
    """Somebody's file where the submitter's folder should be."""
    (tree / "acme").write_text("precious")

    with pytest.raises(OutputError, match="nothing was submitted"):
        submit(tree, result)

    assert content(tree) == {"acme": b"precious"}


def test_log_that_changed_since_it_was_read_is_refused(tree: Path, result: Result) -> None:
    """What is placed is what was looked at."""
    with result.runs[0].path.open("a") as stream:
        stream.write("more\n")

    with pytest.raises(SubmissionError, match="changed while it was being read"):
        submit(tree, result)

    assert list(tree.iterdir()) == []


def test_power_log_that_changed_since_it_was_read_is_refused(tree: Path, tmp_path: Path) -> None:
    """Of a run as of the idle baseline: neither is taken for what it was."""
    for number, name in enumerate(("power/result_1/node_0.txt", "power/idle/node_0.txt")):
        metered = read_result(write_result(tmp_path / str(number), num_runs=2, power="node"))
        with (metered.path / name).open("a") as stream:
            stream.write("more\n")

        with pytest.raises(SubmissionError, match=f"{name}: changed while it was being read"):
            submit(tree, metered)

    assert list(tree.iterdir()) == []


def test_log_that_vanished_is_one_sentence(tree: Path, result: Result) -> None:
    """The folder was cleaned up meanwhile."""
    result.runs[1].path.unlink()

    with pytest.raises(OutputError, match=r"result_1\.txt: No such file"):
        submit(tree, result)

    assert list(tree.iterdir()) == []


class Crash(BaseException):
    """Nothing catches it, as nothing catches a power cut."""


@pytest.mark.parametrize("step", ["staged", "sync", "system", "rename"])
def test_crash_between_steps_leaves_no_result_and_the_next_try_succeeds(
    tree: Path, result: Result, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At every moment the tree has the whole result or none of it."""

    def crash(*arguments: object, **options: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        # The seams of the outside world: what the operating system does for us.
        if step == "staged":
            patch.setattr(pack, "add_to_tree", crash)
        elif step == "sync":
            patch.setattr(os, "fsync", crash)
        elif step == "system":
            patch.setattr(os, "link", crash)
        elif step == "rename":
            patch.setattr(Path, "rename", crash)
        patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)  # nobody tidies up after a power cut
        with pytest.raises(Crash):
            submit(tree, result)

    with pytest.raises(SubmissionError, match="there is no result"):
        find_results(tree)
    assert submit(tree, result) == tree / PLACE
    assert read_result(tree / PLACE).unreadable == ()


def test_failed_rename_takes_the_description_away_again(
    tree: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description that belongs to no result is in the way of a corrected one."""

    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(OutputError, match="Input/output error; nothing was submitted"):
            submit(tree, result)

    assert content(tree) == {}


def test_who_is_faster_wins_and_keeps_the_description(
    tree: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our description and our rename somebody else's result comes in: theirs stays, and stays described."""
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
    """Eight at the same time: one result, whole; seven refusals; nothing left over."""
    gate = threading.Barrier(8)
    outcomes: list[str] = []

    def run(number: int) -> None:
        claim = claim_for(result, notes=str(number))
        try:
            with pack.packed(tree, result, claim) as staging:
                gate.wait(20)
                pack.add_to_tree(tree, staging, claim)
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
    """YAML is quoted as it must be; what is no text at all does not end in a traceback."""
    placed = read_result(submit(tree, result, notes=notes))

    assert placed.claim is not None
    assert placed.claim.notes == notes.replace("\udcff", "?") or placed.claim.notes == notes


def test_description_is_placed_byte_for_byte(tree: Path, tmp_path: Path) -> None:
    """Its digest is in the claim; white space counts."""
    folder = write_result(tmp_path / "run", num_runs=1)
    text = json.dumps(SYSTEM, indent=7) + "\n\n"
    (folder / "system.json").write_text(text)

    submit(tree, read_result(folder))

    assert (tree / DESCRIPTION).read_text() == text
