"""Checkpoints: what a log says of itself, that it has `size` leaves with this root; as text with signatures.

    board.example.com/log
    20852163
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

    -----BEGIN SSH SIGNATURE-----
    ...

The three lines are those of C2SP, which other programs read. The signatures, each an SSH signature over the three lines
and the line end after them, are the log's own, first, and then those of its witnesses; `ssh-keygen -Y verify` checks
them, with the namespaces below.

Source: C2SP, tlog-checkpoint; OpenSSH, PROTOCOL.sshsig.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from harness.errors import InputError, printable
from harness.transparency.tree import HASH_BYTES

NAMESPACE = "tta-checkpoint"  # of the log's signature
COSIGN_NAMESPACE = "tta-cosignature"  # of a witness's: it has seen this checkpoint, and that it continues its last one
MAX_BYTES = 1 << 16
MAX_SIZE = 1 << 53
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n"
_ORIGIN = re.compile(r"[^\s+]{1,200}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a log. origin: its name, without blanks and +. root: 32 bytes."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The three lines, which are what is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint with its signatures, each as ssh-keygen writes it."""

    checkpoint: Checkpoint
    signatures: tuple[str, ...]

    @property
    def note(self) -> str:
        return f"{self.checkpoint.text}\n{''.join(self.signatures)}"


def is_origin(text: str) -> bool:
    """Whether a text can be the name of a log."""
    return _ORIGIN.fullmatch(text) is not None and text.isprintable()


def parse_note(data: bytes, place: str) -> SignedCheckpoint:
    """Return the checkpoint and the signatures in a note; the signatures are not verified here.

    place: where it is from, for the message.

    Raises:
        InputError: it is not a checkpoint.
    """
    try:
        text = data[: MAX_BYTES + 1].decode("ascii")
        if len(data) > MAX_BYTES:
            raise ValueError(f"has more than {MAX_BYTES:,} bytes")
        head, separator, rest = text.partition("\n\n")
        if not separator:
            raise ValueError("has no empty line after its third")
        return SignedCheckpoint(_parse(head + "\n"), tuple(_signatures(rest)))
    except UnicodeDecodeError:
        raise InputError(f"{place}: not a checkpoint: it is not ASCII text") from None
    except ValueError as error:
        raise InputError(f"{place}: not a checkpoint: it {error}") from None


def _parse(text: str) -> Checkpoint:
    lines = text.split("\n")
    if len(lines) != 4:
        raise ValueError(f"has {len(lines) - 1} lines before its signatures, not 3")
    origin, size, root = lines[:3]
    if not is_origin(origin):
        raise ValueError(f"has the name {printable(origin, 60)!r}")
    if not re.fullmatch("0|[1-9][0-9]{0,15}", size) or int(size) > MAX_SIZE:
        raise ValueError(f"has the size {printable(size, 40)!r}")
    try:
        digest = base64.b64decode(root, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != HASH_BYTES or base64.b64encode(digest).decode() != root:
        raise ValueError(f"has the root {printable(root, 60)!r}, which is not {HASH_BYTES} bytes in base64")
    return Checkpoint(origin, int(size), digest)


def _signatures(text: str) -> list[str]:
    parts = text.split(_END)
    if parts[-1]:
        raise ValueError("has something after its signatures")
    for part in parts[:-1]:
        if not part.startswith(_BEGIN):
            raise ValueError("has a signature that does not begin as an SSH signature does")
    return [part + _END for part in parts[:-1]]
