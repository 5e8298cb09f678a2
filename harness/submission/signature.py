"""Signatures of submissions: a detached SSH signature over the manifest, made and verified with ssh-keygen.

`MANIFEST.sha256.sig` is next to the manifest. It is valid only if it fits the manifest as it is now, in `tta`'s
namespace, by a key that the ruleset's `allowed_signers` lists for the submitter. The content of a signature is read
here; whether it holds is for ssh-keygen to say, which runs without a shell, with fixed arguments, on copies under fixed
names, for at most ten seconds. docs/explanation/integrity.md says what each check proves and what it does not.

Source: OpenSSH, PROTOCOL.sshsig; ssh-keygen(1), "ALLOWED SIGNERS".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.errors import MissingDependencyError, SubmissionError, UsageError, printable
from harness.submission.claim import Envelope
from harness.submission.layout import MANIFEST_NAME, NAME_PATTERN, SIGNATURE_NAME
from harness.submission.result import Result

NAMESPACE = "tta-submission"
MAX_SIGNATURE_BYTES = 1 << 16  # one with a key of 16,384 bits has 6 KiB
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_MAGIC, _VERSION = b"SSHSIG", 1
_VERIFY_S, _SIGN_S = 10, 120  # signing may need a person to type a passphrase or touch a token


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a signature.

    state: "unsigned", "alone" (without a manifest), "unreadable", "namespace" (of another purpose), "changed" (it does
    not fit the manifest), "not_allowed", "unverifiable" (whose key it is cannot be verified here), or "valid".
    key: type and fingerprint, as ssh-keygen -l shows it; signer: the submitter, of a valid signature only.
    """

    state: str
    why: str = ""
    key: str | None = None
    signer: str | None = None

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        match self.state:
            case "unsigned":
                return "not signed"
            case "valid":
                return f"signed by {self.signer} with {self.key}"
            case "unverifiable":
                return f"signed with {self.key}; not verifiable here: {self.why}"
        return f"not validly signed: {self.why}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The content of a signature file, before anything is verified."""

    key: str
    namespace: str


def read_signature(data: bytes) -> Signature:
    """Parse the bytes of a signature file.

    Raises:
        ValueError: they are not a signature, or one of an unknown version.
    """
    if len(data) > MAX_SIGNATURE_BYTES:
        raise ValueError(f"{len(data):,} bytes; a signature has at most {MAX_SIGNATURE_BYTES:,}")
    lines = data.split()
    text = b" ".join(lines)
    if not text.startswith(_BEGIN) or not text.endswith(_END):
        raise ValueError(f"it does not begin with {_BEGIN.decode()!r} and end with {_END.decode()!r}")
    try:
        blob = base64.b64decode(b"".join(text[len(_BEGIN) : -len(_END)].split()), validate=True)
    except binascii.Error:
        raise ValueError("its content is not base64") from None
    if blob[: len(_MAGIC)] != _MAGIC or blob[len(_MAGIC) : len(_MAGIC) + 4] != _VERSION.to_bytes(4, "big"):
        raise ValueError("it is not an SSH signature of version 1")
    public_key, rest = _text(blob[len(_MAGIC) + 4 :])
    namespace, rest = _text(rest)
    kind = printable(_text(public_key)[0].decode("ascii", "replace"), 60)
    fingerprint = base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")
    return Signature(f"{kind} SHA256:{fingerprint}", namespace.decode("utf-8", "replace"))


def _text(data: bytes) -> tuple[bytes, bytes]:
    """Return a text that is preceded by its length in four bytes, and the rest after it."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < end or len(data) < 4:
        raise ValueError("it is cut off")
    return data[4:end], data[end:]


def verdict(result: Result, allowed_signers: bytes | None, ruleset: str) -> Verdict:
    """Verify the signature of `result`; the same signature is verified once per process.

    allowed_signers: the file of that name in the ruleset called `ruleset`; None if it has none.
    """
    submitter = None if result.claim is None else result.claim.submitter
    return _verdict(result.envelope, submitter, allowed_signers, ruleset)


@lru_cache(maxsize=64)
def _verdict(envelope: Envelope, submitter: str | None, allowed: bytes | None, version: str) -> Verdict:
    if envelope.why is not None:
        return Verdict("unreadable", envelope.why)
    if envelope.signature is None:
        return Verdict("unsigned")
    if envelope.manifest is None:
        return Verdict("alone", f"there is no readable {MANIFEST_NAME}")
    try:
        signature = read_signature(envelope.signature)
    except ValueError as error:
        return Verdict("unreadable", str(error))
    if signature.namespace != NAMESPACE:
        why = f"it was made for {printable(signature.namespace, 60)!r}, not for {NAMESPACE!r}"
        return Verdict("namespace", why, signature.key)
    import shutil  # imported only to verify: most results are not signed
    import tempfile

    program = shutil.which("ssh-keygen")
    if program is None:
        return Verdict("unverifiable", "ssh-keygen is not installed", signature.key)
    with tempfile.TemporaryDirectory(prefix="tta-signature-") as folder:
        place = Path(folder)
        (place / "signature").write_bytes(envelope.signature)
        (place / "allowed").write_bytes(allowed or b"")
        broken = _refusal(program, ["check-novalidate", "-s", "signature"], envelope.manifest, place)
        if broken is None and allowed is None:
            return Verdict("unverifiable", f"ruleset {version} has no allowed_signers", signature.key)
        if broken is None and submitter is not None and NAME_PATTERN.fullmatch(submitter):
            arguments = ["verify", "-f", "allowed", "-I", submitter, "-s", "signature"]
            refusal = _refusal(program, arguments, envelope.manifest, place)
            if refusal is None:
                return Verdict("valid", key=signature.key, signer=submitter)
            if refusal.is_inconclusive:
                broken = refusal
    if broken is not None:
        state = "unverifiable" if broken.is_inconclusive else "changed"
        why = broken.why if broken.is_inconclusive else f"{signature.key} did not sign the manifest as it is now"
        return Verdict(state, why, signature.key)
    who = "an unnamed submitter" if submitter is None else printable(submitter, 100)
    return Verdict("not_allowed", f"{signature.key} is not listed in the rules for {who}", signature.key)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """is_inconclusive: ssh-keygen did not work, which says nothing about the signature."""

    why: str
    is_inconclusive: bool


def _refusal(program: str, arguments: list[str], manifest: bytes, folder: Path) -> _Refusal | None:
    """Return why ssh-keygen refuses; None if it accepts."""
    import subprocess

    try:
        done = subprocess.run(
            [program, "-Y", *arguments, "-n", NAMESPACE],
            input=manifest,
            capture_output=True,
            cwd=folder,
            env={"LC_ALL": "C"},
            timeout=_VERIFY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Refusal(f"ssh-keygen did not answer: {type(error).__name__}", is_inconclusive=True)
    if done.returncode == 0:
        return None
    output = done.stderr.decode("utf-8", "replace").strip()
    # It first looks up the user, whom a container may not have. OpenSSH before 8.1 prints its usage.
    is_inconclusive = output.startswith(("No user exists for uid", "unknown option", "usage:")) or done.returncode < 0
    return _Refusal(f"ssh-keygen: {printable(output.splitlines()[0] if output else done.returncode)}", is_inconclusive)


def sign(manifest: Path, key: Path) -> Path:
    """Sign `manifest` with the private key in `key`, or with the agent's if `key` is a public key.

    Raises:
        MissingDependencyError: there is no ssh-keygen. UsageError: there is no such key.
        SubmissionError: ssh-keygen did not sign; the message is its own.
    """
    import shutil
    import subprocess

    program = shutil.which("ssh-keygen")
    if program is None:
        raise MissingDependencyError("--sign needs ssh-keygen, which is not installed (Debian: openssh-client)")
    if not key.is_file():
        raise UsageError(f"--sign {key}: there is no such key file (`ssh-keygen -t ed25519` makes one)")
    try:
        done = subprocess.run(
            [program, "-Y", "sign", "-f", str(key.absolute()), "-n", NAMESPACE],
            input=manifest.read_bytes(),
            capture_output=True,
            timeout=_SIGN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SubmissionError(f"--sign {key}: ssh-keygen did not sign within {_SIGN_S} s") from None
    if done.returncode != 0 or not done.stdout.startswith(_BEGIN):
        output = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise SubmissionError(f"--sign {key}: ssh-keygen did not sign: {printable(output[-1])}")
    signature = manifest.with_name(SIGNATURE_NAME)
    signature.write_bytes(done.stdout)
    return signature
