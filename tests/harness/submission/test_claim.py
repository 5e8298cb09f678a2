"""The small files of a submission: each is read up to its limit and no further, and its faults are reported."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.base.files import line_of, sha256_of, small_file
from harness.errors import SubmissionError
from harness.submission.claim import (
    Claim,
    Envelope,
    FileEntry,
    Unreadable,
    claimed_factor,
    excerpt,
    manifest_text,
    read_claim,
    read_envelope,
    read_manifest,
)
from harness.submission.layout import MANIFEST_NAME, SIGNATURE_NAME

CLAIM = {
    "submitter": "acme",
    "system": "box1",
    "benchmark": "toy_mini",
    "division": "closed",
    "category": "available",
    "ruleset": "v1",
    "system_sha256": "a" * 64,
    "submitted": "2026-01-01",
}
FILE = FileEntry("file", 1, "a" * 64)


@pytest.mark.parametrize("num_bytes", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_a_digest_is_of_all_bytes(tmp_path: Path, num_bytes: int) -> None:
    """The digest does not depend on how many pieces the file is read in."""
    data = bytes(i % 251 for i in range(num_bytes))
    (tmp_path / "f").write_bytes(data)

    assert sha256_of(tmp_path / "f") == hashlib.sha256(data).hexdigest()


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """A file of exactly the limit is read; for one byte more the message has the size."""
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)

    assert small_file(path, 10) == b"x" * 10
    with pytest.raises(SubmissionError, match="has 10 bytes; at most 9 are read"):
        small_file(path, 9)
    path.write_bytes(b"x" * (1 << 20))
    assert len(small_file(path)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 5))
    with pytest.raises(SubmissionError, match="has 1,048,581 bytes; at most 1,048,576 are read"):
        small_file(path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A link, a folder, a pipe without a writer, a missing file: one sentence each, and no waiting."""
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(SubmissionError, match="is not a regular file"):
            small_file(tmp_path / name)
    with pytest.raises(SubmissionError, match="cannot be read: No such file or directory"):
        small_file(tmp_path / "absent")


@pytest.fixture
def soon() -> Iterator[None]:
    """A reader that waits for a pipe fails after ten seconds."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Swapped(type(Path())):  # type: ignore[misc]
    """A path that had a regular file when it was looked at, and something else when it was opened."""

    def lstat(self) -> os.stat_result:
        return Path(__file__).lstat()


@pytest.mark.usefixtures("soon")
def test_what_takes_the_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    """A link is not followed, a pipe not waited for, a folder not taken for a file."""
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("link", "cannot be read: Too many levels of symbolic links"),
        ("pipe", "is not a regular file"),
        (".", "Is a directory"),
        ("absent", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(SubmissionError, match=why):
            small_file(Swapped(tmp_path / name))

    assert small_file(Swapped(tmp_path / "f")) == b"x"
    assert sha256_of(tmp_path / "pipe") == hashlib.sha256(b"").hexdigest()


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs /proc")
def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    """A file in /proc has a size of 0: nothing is hashed, and at most one byte more than permitted is read."""
    assert sha256_of(Path("/proc/version")) == hashlib.sha256(b"").hexdigest()
    with pytest.raises(SubmissionError, match="has 10 bytes; at most 9 are read"):
        small_file(Path("/proc/version"), 9)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"target: 1\n", 1),
        (b'{\n  "size": 2,\n  "target": 1}\n', 3),
        (b"  target : 1", 1),
        (b'{"target": 1}', 1),
        (b"a: target\nno_target: 1\n", None),
        (b"target\n", None),
        (b"", None),
        (b"\xfftarget: 1\n", None),
    ],
)
def test_the_line_of_a_field(tmp_path: Path, text: bytes, line: int | None) -> None:
    """A field is found where it begins a line of JSON or YAML; its name elsewhere does not count."""
    (tmp_path / "f").write_bytes(text)

    assert line_of(tmp_path / "f", "target") == line
    assert line_of(tmp_path / "absent", "target") is None


def claim_of(folder: Path, text: str) -> tuple[Claim | None, list[str]]:
    path = folder / "submission.yaml"
    path.write_text(text)
    unreadable: list[Unreadable] = []
    claim = read_claim(path, unreadable)
    assert {item.path for item in unreadable} <= {path}
    return claim, [item.message for item in unreadable]


def lines_of(fields: dict[str, str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def test_a_claim_is_texts(tmp_path: Path) -> None:
    """A date stays a text; notes are optional."""
    assert claim_of(tmp_path, lines_of(CLAIM)) == (Claim(**CLAIM), [])
    assert claim_of(tmp_path, lines_of({**CLAIM, "notes": "5"})) == (Claim(**CLAIM, notes="5"), [])


def test_a_claim_says_where_weights_are_only_if_some_are_elsewhere(tmp_path: Path) -> None:
    """A submission without any has the lines that it always had."""
    place = "https://weights.example/acme"

    assert set(Claim(**CLAIM).record()) == {*CLAIM, "notes"}
    assert Claim(**CLAIM, weights_at=place).record() == {**CLAIM, "notes": "", "weights_at": place}
    assert claim_of(tmp_path, lines_of({**CLAIM, "weights_at": place})) == (Claim(**CLAIM, weights_at=place), [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lines_of({**CLAIM, "scale": "2"}), "unknown key 'scale'"),
        (lines_of({name: CLAIM[name] for name in CLAIM if name != "system"}), "'system' is missing"),
        (lines_of({**CLAIM, "system": "[box1]"}), "'system' is not a text"),
        ("- acme\n", "must be a list of `name: value` lines"),
        ("", "must be a list of `name: value` lines"),
        ("a: [\n", "not YAML: while parsing a flow node"),
        ("a" * (1 << 16) + "b", "not YAML: {path}: has 65,537 bytes; at most 65,536 are read"),
    ],
)
def test_an_invalid_claim_says_why(tmp_path: Path, text: str, message: str) -> None:
    """The claim is unreadable, and the message names the fault."""
    found = claim_of(tmp_path, text)

    assert found == (None, [message.format(path=tmp_path / "submission.yaml")])


def test_a_claim_may_be_of_the_greatest_length(tmp_path: Path) -> None:
    """65,536 bytes with the notes are read."""
    text = lines_of({**CLAIM, "notes": ""})
    notes = "n" * ((1 << 16) - len(text))
    claim, problems = claim_of(tmp_path, text.removesuffix("\n") + notes + "\n")

    assert problems == []
    assert claim is not None
    assert claim.notes == notes


@pytest.mark.parametrize(("num_keys", "more"), [(10, None), (11, 1), (1500, 1490)])
def test_ten_problems_of_a_claim_are_listed(tmp_path: Path, num_keys: int, more: int | None) -> None:
    """The message then has how many more there are."""
    _, (message,) = claim_of(tmp_path, lines_of({**CLAIM, **{f"key_{i}": "x" for i in range(num_keys)}}))
    problems = message.split("; ")

    assert problems[:10] == [f"unknown key 'key_{i}'" for i in range(10)]
    assert problems[10:] == ([] if more is None else [f"and {more:,} more problems"])


def manifest_of(folder: Path, text: str | bytes) -> tuple[dict[str, str] | None, dict[str, int], list[str]]:
    path = folder / MANIFEST_NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    unreadable: list[Unreadable] = []
    listed, lines = read_manifest(path, unreadable)
    return listed, lines, [item.message for item in unreadable]


def test_a_manifest_has_a_digest_and_a_line_for_each_path(tmp_path: Path) -> None:
    """The first of two entries counts; an invalid line is reported with its number, and the rest is read."""
    one, two = "1" * 64, "2" * 64
    text = f"{one}  a b.txt\n{two} c\n{two}  a b.txt\n{two}  d/e\n{one.upper()[:-1]}A  f\n"

    assert manifest_of(tmp_path, text) == (
        {"a b.txt": one, "d/e": two},
        {"a b.txt": 1, "d/e": 4},
        ["line 2: not `<sha256>  <path>`", "line 3: 'a b.txt' is listed twice", "line 5: not `<sha256>  <path>`"],
    )
    assert manifest_of(tmp_path, "") == ({}, {}, [])


@pytest.mark.parametrize(("num_faults", "more"), [(100, []), (101, ["and 1 more such lines"])])
def test_a_hundred_faults_of_a_manifest_are_listed(tmp_path: Path, num_faults: int, more: list[str]) -> None:
    """A last message has how many more there are."""
    _, _, messages = manifest_of(tmp_path, "x\n" * num_faults)

    assert messages == [f"line {number}: not `<sha256>  <path>`" for number in range(1, 101)] + more


def test_a_missing_manifest_is_none_and_an_unreadable_one_is_reported(tmp_path: Path) -> None:
    """A dangling link counts as unreadable, not as missing."""
    unreadable: list[Unreadable] = []
    assert read_manifest(tmp_path / "absent", unreadable) == (None, {})
    assert unreadable == []

    (tmp_path / "link").symlink_to(tmp_path / "absent")
    assert read_manifest(tmp_path / "link", unreadable) == (None, {})
    assert [item.message for item in unreadable] == [
        f"is not a readable manifest: {tmp_path / 'link'}: is not a regular file"
    ]
    listed, lines, (message,) = manifest_of(tmp_path, b"\xff")
    assert (listed, lines) == (None, {})
    assert message.startswith("is not a readable manifest: 'utf-8' codec")


def test_an_envelope_has_what_exists(tmp_path: Path) -> None:
    """It is empty without a signature; an unreadable signature says why; one without a manifest is there alone."""
    assert read_envelope(tmp_path, {}) == Envelope()
    assert read_envelope(tmp_path, {MANIFEST_NAME: FILE}) == Envelope()

    there = {MANIFEST_NAME: FILE, SIGNATURE_NAME: FILE}
    assert read_envelope(tmp_path, there) == Envelope(why="cannot be read: No such file or directory")
    (tmp_path / SIGNATURE_NAME).write_text("signed")
    assert read_envelope(tmp_path, there) == Envelope(None, b"signed")
    (tmp_path / MANIFEST_NAME).write_text("listed")
    assert read_envelope(tmp_path, there) == Envelope(b"listed", b"signed")


def test_a_manifest_lists_all_but_itself_by_name() -> None:
    """The lines are as sha256sum writes them; the signature is not listed either."""
    files = {name: FileEntry("file", 1, digest * 64) for name, digest in (("b", "2"), ("a/c", "1"))}

    assert manifest_text({**files, MANIFEST_NAME: FILE, SIGNATURE_NAME: FILE}) == f"{'1' * 64}  a/c\n{'2' * 64}  b\n"


@pytest.mark.parametrize(
    ("text", "factor", "why"),
    [
        ('{"scaling_factor": 1.5}', 1.5, ""),
        ('{"scaling_factor": 2, "more": []}', 2.0, ""),
        ('{"scaling_factor": true}', None, "scaling_factor is not a number"),
        ('{"scaling_factor": "1.5"}', None, "scaling_factor is not a number"),
        ('{"factor": 1.5}', None, "scaling_factor is not a number"),
        ("[1.5]", None, "scaling_factor is not a number"),
        ('{"scaling_factor": NaN}', None, "NaN is not a JSON number"),
        ('{"scaling_factor": 1.5, "scaling_factor": 1}', None, "the key 'scaling_factor' occurs twice"),
        ("", None, "not JSON: Expecting value at column 1"),
    ],
)
def test_a_factor_is_one_number(tmp_path: Path, text: str, factor: float | None, why: str) -> None:
    """Anything else is not a factor, and neither is a folder; the reason is given."""
    (tmp_path / "scaling.json").write_text(text)

    assert claimed_factor(tmp_path / "scaling.json") == (factor, why)
    assert claimed_factor(tmp_path) == (None, "is not a regular file")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b" --rcp_bypass \n", "--rcp_bypass"),
        (b"--a\n--b\x1b[2J\xff", "--a\\n--b\\x1b[2J\ufffd"),
        (b"x" * 60, "x" * 60),
        (b"x" * 61, "x" * 59 + "…"),
        (b" \n", "empty"),
        (b"", "empty"),
        (b"x" * ((1 << 20) + 1), "not readable"),
    ],
)
def test_the_first_words_of_a_file_fit_into_a_message(tmp_path: Path, data: bytes, words: str) -> None:
    """They are on one line, at most 60, without control characters; a folder has none."""
    (tmp_path / "f").write_bytes(data)

    assert excerpt(tmp_path / "f") == words
    assert excerpt(tmp_path) == "not readable"
