"""The list of the code, and how code differs from that of releases."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from harness.errors import SubmissionError
from harness.submission import provenance
from harness.submission.claim import digest_lines
from harness.submission.provenance import Difference, code_files, difference, digest_of_list, nearest, read_list

RELEASES = {"0.1.0": {"a.py": "1" * 64, "b.py": "2" * 64}, "0.2.0": {"a.py": "1" * 64, "c.py": "3" * 64}}


def source(root: Path) -> Path:
    """A checkout with three files of code, and what does not belong to it."""
    for name in (
        "harness/cli.py",
        "harness/__pycache__/cli.cpython-311.pyc",
        "workloads/toy/workload.py",
        "workloads/toy/README.md",
        "workloads/toy/releases/odd.txt",
        "rules/v1/ruleset.yaml",
        "rules/v1/allowed_signers",
        "rules/releases/0.1.0.txt",
        "tests/test_cli.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_code_is_the_files_of_three_folders_without_prose_and_caches(tmp_path: Path) -> None:
    """A folder called releases is left out in rules/ only; links are not followed."""
    root = source(tmp_path)
    (root / "harness" / "link.py").symlink_to("cli.py")
    (root / "workloads" / "more").symlink_to("toy")
    os.mkfifo(root / "rules" / "pipe")

    found = code_files(root)

    assert set(found) == {
        "harness/cli.py",
        "workloads/toy/workload.py",
        "workloads/toy/releases/odd.txt",
        "rules/v1/ruleset.yaml",
    }
    assert found["harness/cli.py"] == hashlib.sha256(b"harness/cli.py").hexdigest()


def test_folder_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    """A list with a gap would have the digest of other code."""
    root = source(tmp_path)
    (root / "rules").rename(root / "gone")

    with pytest.raises(SubmissionError, match=r"rules: cannot be listed: No such file or directory"):
        code_files(root)


def test_list_is_what_sha256sum_writes_and_checks(tmp_path: Path) -> None:
    """Sorted by path; the digest of the list is that of the file."""
    root = source(tmp_path)
    (root / "code.txt").write_text(digest_lines(code_files(root)))

    assert subprocess.run(["sha256sum", "--check", "--strict", "code.txt"], cwd=root, check=False).returncode == 0
    assert digest_of_list(code_files(root)) == hashlib.sha256((root / "code.txt").read_bytes()).hexdigest()
    assert read_list(root / "code.txt") == code_files(root)


@pytest.mark.parametrize(
    ("text", "why"), [(None, "code.txt: is missing"), ("1234  a.py\n", "code.txt: line 1: not `<sha256>  <path>`")]
)
def test_list_that_cannot_be_read_says_why(tmp_path: Path, text: str | None, why: str) -> None:
    """One sentence that names the file."""
    if text is not None:
        (tmp_path / "code.txt").write_text(text)

    with pytest.raises(SubmissionError, match=why):
        read_list(tmp_path / "code.txt")


def test_difference_names_what_is_changed_added_and_missing() -> None:
    """Nothing is named where nothing differs."""
    files = {"a.py": "9" * 64, "n.py": "2" * 64}

    found = difference(files, "0.1.0", RELEASES["0.1.0"])

    assert found == Difference("0.1.0", ("a.py",), ("n.py",), ("b.py",))
    assert str(found) == "differs from release 0.1.0: changed: a.py; added: n.py; missing: b.py"
    assert difference(RELEASES["0.1.0"], "0.1.0", RELEASES["0.1.0"]).num_files == 0


def test_difference_names_a_few_files_and_counts_the_others() -> None:
    """Five are changed."""
    files = dict.fromkeys("abcde", "1" * 64)

    found = difference(files, "0.1.0", dict.fromkeys("abcde", "2" * 64))

    assert str(found) == f"differs from release 0.1.0: changed: a, b, c and {5 - provenance._MAX_NAMED} more"


def test_nearest_release_has_the_fewest_differing_files() -> None:
    """None where there is no release."""
    found = nearest({"a.py": "1" * 64, "c.py": "4" * 64}, RELEASES)

    assert found == Difference("0.2.0", ("c.py",), (), ())
    assert nearest({"a.py": "1" * 64}, {}) is None
