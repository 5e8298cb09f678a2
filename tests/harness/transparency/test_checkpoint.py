"""Checkpoints: what is written is read again, and nothing else is."""

from __future__ import annotations

import base64

import pytest

from harness.errors import InputError
from harness.transparency.checkpoint import Checkpoint, SignedCheckpoint, is_origin, parse_note

CHECKPOINT = Checkpoint("board.example.com/log", 20852163, bytes(range(32)))
SIGNATURE = "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"
ROOT = base64.b64encode(bytes(range(32))).decode()


def test_a_note_is_read_as_it_was_written() -> None:
    """With as many signatures as there are."""
    for signatures in ((), (SIGNATURE,), (SIGNATURE, SIGNATURE)):
        signed = SignedCheckpoint(CHECKPOINT, signatures)

        assert parse_note(signed.note.encode(), "here") == signed


def test_the_text_is_that_of_c2sp() -> None:
    """Three lines: other programs read them."""
    assert CHECKPOINT.text == f"board.example.com/log\n20852163\n{ROOT}\n"


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (b"\xff\n\n", "not ASCII"),
        (b"a\n1\n", "no empty line"),
        (b"a\n1\n\n", "2 lines before"),
        (f"a b\n1\n{ROOT}\n\n".encode(), "the name 'a b'"),
        (f"a\n01\n{ROOT}\n\n".encode(), "the size '01'"),
        (f"a\n9999999999999999\n{ROOT}\n\n".encode(), "the size"),
        (b"a\n1\nAAAA\n\n", "the root 'AAAA'"),
        (b"a\n1\n!\n\n", "the root '!'"),
        (f"a\n1\n{ROOT}\n\nx".encode(), "something after"),
        (f"a\n1\n{ROOT}\n\nx-----END SSH SIGNATURE-----\n".encode(), "does not begin"),
        (b"a" * 70_000, "more than 65,536 bytes"),
    ],
)
def test_what_is_no_checkpoint_is_refused(note: bytes, why: str) -> None:
    """In one sentence that names the place."""
    with pytest.raises(InputError, match=rf"^here: not a checkpoint: .*{why}"):
        parse_note(note, "here")


def test_names_of_logs() -> None:
    """Without blanks and +, which notes use."""
    assert is_origin("board.example.com/log")
    assert not any(map(is_origin, ("", "a b", "a+b", "a\n", "x" * 201)))
