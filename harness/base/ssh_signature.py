"""Detached SSH signatures, made and verified with ssh-keygen: what is in them, and whether they hold.

ssh-keygen runs without a shell, with fixed arguments, on copies under fixed names, for at most ten seconds.

Source: OpenSSH, PROTOCOL.sshsig; ssh-keygen(1), "ALLOWED SIGNERS".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import MissingDependencyError, SubmissionError, UsageError, printable

MAX_SIGNATURE_BYTES = 1 << 16  # one with a key of 16,384 bits has 6 KiB
BEGIN, END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_MAGIC, _VERSION = b"SSHSIG", 1
_VERIFY_S, _SIGN_S = 10, 120  # signing may need a person to type a passphrase or touch a token


@dataclass(frozen=True, slots=True)
class Signature:
    """The content of a signature, before anything is verified. public_key: `ssh-ed25519 AAAA…`, as in a list of keys.

    key: type and fingerprint, as ssh-keygen -l shows it.
    """

    key: str
    namespace: str
    public_key: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why ssh-keygen does not accept a signature. is_inconclusive: it did not work, which says nothing about it."""

    why: str
    is_inconclusive: bool


def parse_signature(data: bytes) -> Signature:
    """Parse the bytes of a signature file.

    Raises:
        ValueError: they are not a signature, or one of an unknown version.
    """
    if len(data) > MAX_SIGNATURE_BYTES:
        raise ValueError(f"{len(data):,} bytes; a signature has at most {MAX_SIGNATURE_BYTES:,}")
    lines = data.split()
    text = b" ".join(lines)
    if not text.startswith(BEGIN) or not text.endswith(END):
        raise ValueError(f"it does not begin with {BEGIN.decode()!r} and end with {END.decode()!r}")
    try:
        blob = base64.b64decode(b"".join(text[len(BEGIN) : -len(END)].split()), validate=True)
    except binascii.Error:
        raise ValueError("its content is not base64") from None
    if blob[: len(_MAGIC)] != _MAGIC or blob[len(_MAGIC) : len(_MAGIC) + 4] != _VERSION.to_bytes(4, "big"):
        raise ValueError("it is not an SSH signature of version 1")
    public_key, rest = _text(blob[len(_MAGIC) + 4 :])
    namespace, rest = _text(rest)
    kind = printable(_text(public_key)[0].decode("ascii", "replace"), 60)
    return Signature(
        f"{kind} {fingerprint(public_key)}",
        namespace.decode("utf-8", "replace"),
        f"{kind} {base64.b64encode(public_key).decode()}",
    )


def fingerprint(public_key: bytes) -> str:
    """Return the fingerprint of a public key, in the binary form that signatures and lists of keys have."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")


def _text(data: bytes) -> tuple[bytes, bytes]:
    """Return a text that is preceded by its length in four bytes, and the rest after it."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < end or len(data) < 4:
        raise ValueError("it is cut off")
    return data[4:end], data[end:]


def refusal(
    message: bytes, signature: bytes, namespace: str, allowed_signers: bytes | None = None, signer: str | None = None
) -> Refusal | None:
    """Return why ssh-keygen refuses a signature over `message`; None if it accepts.

    allowed_signers: the list of keys by signer, of which `signer` must be one; without a list, whose key it is does not
    matter.
    """
    import shutil  # imported only to verify: most results are not signed
    import subprocess
    import tempfile

    program = shutil.which("ssh-keygen")
    if program is None:
        return Refusal("ssh-keygen is not installed", is_inconclusive=True)
    arguments = ["check-novalidate", "-s", "signature"]
    if signer is not None:
        arguments = ["verify", "-f", "allowed", "-I", signer, "-s", "signature"]
    with tempfile.TemporaryDirectory(prefix="tta-signature-") as folder:
        (Path(folder) / "signature").write_bytes(signature)
        (Path(folder) / "allowed").write_bytes(allowed_signers or b"")
        try:
            done = subprocess.run(
                [program, "-Y", *arguments, "-n", namespace],
                input=message,
                capture_output=True,
                cwd=folder,
                env={"LC_ALL": "C"},
                timeout=_VERIFY_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Refusal(f"ssh-keygen did not answer: {type(error).__name__}", is_inconclusive=True)
    if done.returncode == 0:
        return None
    output = done.stderr.decode("utf-8", "replace").strip()
    # It first looks up the user, whom a container may not have. OpenSSH before 8.1 prints its usage.
    is_inconclusive = output.startswith(("No user exists for uid", "unknown option", "usage:")) or done.returncode < 0
    return Refusal(f"ssh-keygen: {printable(output.splitlines()[0] if output else done.returncode)}", is_inconclusive)


def sign(message: bytes, key: Path, namespace: str, option: str) -> bytes:
    """Return a signature by the private key in `key`, or by the agent's if `key` is a public key.

    option: that named the key, for messages.

    Raises:
        MissingDependencyError: there is no ssh-keygen. UsageError: there is no such key.
        SubmissionError: ssh-keygen did not sign; the message is its own.
    """
    import shutil
    import subprocess

    program = shutil.which("ssh-keygen")
    if program is None:
        raise MissingDependencyError(f"{option} needs ssh-keygen, which is not installed (Debian: openssh-client)")
    if not key.is_file():
        raise UsageError(f"{option} {key}: there is no such key file (`ssh-keygen -t ed25519` makes one)")
    try:
        done = subprocess.run(
            [program, "-Y", "sign", "-f", str(key.absolute()), "-n", namespace],
            input=message,
            capture_output=True,
            timeout=_SIGN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SubmissionError(f"{option} {key}: ssh-keygen did not sign within {_SIGN_S} s") from None
    if done.returncode != 0 or not done.stdout.startswith(BEGIN):
        output = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise SubmissionError(f"{option} {key}: ssh-keygen did not sign: {printable(output[-1])}")
    return done.stdout
