"""A tree that somebody changes between two looks at it, and results that lie where no submitter's folder is around."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PosixPath

import pytest

from harness.base import files
from harness.errors import SubmissionError
from harness.submission import claim, result
from tests import fabricate


class Changing(PosixPath):
    """A path below which something happens right after it was looked at, once."""

    happens: dict[tuple[str, str], Callable[[Path], object]] = {}  # noqa: RUF012  (a fixture sees that it is empty)

    def lstat(self) -> os.stat_result:
        found = super().lstat()
        if change := self.happens.pop(("lstat", self.name), None):
            change(Path(self))
        return found

    def is_dir(self) -> bool:
        found = super().is_dir()
        if change := self.happens.pop(("is_dir", self.name), None):
            change(Path(self))
        return found


@pytest.fixture(autouse=True)
def still() -> Iterator[None]:
    yield
    assert Changing.happens == {}


def becomes_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def becomes_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (becomes_a_pipe, "is not a regular file"),
        (becomes_a_link, "cannot be read: Too many levels of symbolic links"),
        (Path.unlink, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_becomes_another_is_not_read(tmp_path: Path, change: Callable[[Path], object], why: str) -> None:
    """What is read is a regular file when it is opened, not only when it is looked at; a pipe is not waited for."""
    (tmp_path / "claim").write_text("text")
    Changing.happens["lstat", "claim"] = change

    with pytest.raises(SubmissionError, match=why):
        files.small_file(Changing(tmp_path) / "claim")


def test_a_file_that_goes_while_the_result_is_listed_has_no_digest(tmp_path: Path) -> None:
    """Its size when it was looked at is all that is known of it; the rest of the result is read."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    (folder / "note").write_text("four")
    Changing.happens["lstat", "note"] = Path.unlink

    found = result.read_result(Changing(folder))

    assert found.files["note"] == claim.FileEntry("file", 4, None)
    assert len(found.runs) == 1


def test_a_folder_that_goes_before_it_is_listed_is_one_sentence(tmp_path: Path) -> None:
    """It was there when its name was given."""
    (tmp_path / "out").mkdir()
    Changing.happens["is_dir", "out"] = Path.rmdir

    with pytest.raises(SubmissionError, match="out: cannot be listed: No such file or directory"):
        result.read_result(Changing(tmp_path / "out"))


@pytest.mark.parametrize(("num_bytes", "is_read"), [(9, True), (10, True), (11, False)])
def test_a_result_has_no_more_bytes_than_a_result_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_bytes: int, is_read: bool
) -> None:
    """All its files together, one of them in a folder: exactly as many are read, one more is refused."""
    monkeypatch.setattr(result, "MAX_RESULT_BYTES", 10)
    (tmp_path / "more").mkdir()
    (tmp_path / "a").write_text("123456")
    (tmp_path / "more" / "b").write_text("x" * (num_bytes - 6))

    if is_read:
        assert result.read_result(tmp_path).files["more/b"].sha256 is not None
    else:
        with pytest.raises(SubmissionError, match="more than 10 bytes; no result is that large"):
            result.read_result(tmp_path)


@pytest.mark.parametrize("text", ["[]", "1", '"box1"', "null"])
def test_a_description_that_is_no_object_is_told_and_not_used(tmp_path: Path, text: str) -> None:
    """Neither for the system nor for its number of nodes; the runs are read."""
    folder = fabricate.write_result(tmp_path / "out", num_runs=1)
    (folder / "system.json").write_text(text)

    found = result.read_result(folder)

    assert (found.system, found.system_sha256, found.num_nodes, len(found.runs)) == (None, None, None, 1)
    assert [(item.path.name, item.message) for item in found.unreadable] == [
        ("system.json", "the system description is not a JSON object")
    ]


def test_a_result_near_the_root_has_no_submitter_around_it() -> None:
    """At /tmp/<name> there is no third folder above: descriptions and modules are looked for beside the logs alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # as near to the root as one may write
        folder = fabricate.write_result(Path(name), num_runs=1)
        fields = dict.fromkeys(claim.Claim.__dataclass_fields__, "box1")
        described = json.loads((folder / "system.json").read_text())
        unclaimed = result.read_result(folder)
        single = result.read_result(folder / "result_0.txt")
        (folder / "system.json").unlink()
        bare = result.read_result(folder)
        (folder / "submission.yaml").write_text("".join(f"{field}: {text}\n" for field, text in fields.items()))
        claimed = result.read_result(folder)

    assert unclaimed.system == described
    assert unclaimed.num_nodes == single.num_nodes == int(described["number_of_nodes"])
    assert (bare.system, bare.num_nodes) == (None, None)
    assert (claimed.system_path, claimed.code_path) == (None, folder / "code")
