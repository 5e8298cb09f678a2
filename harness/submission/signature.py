"""Signatures of submissions: a detached SSH signature over the manifest, made and verified with ssh-keygen.

`MANIFEST.sha256.sig` is next to the manifest. It is valid only if it fits the manifest as it is now, in `tta`'s
namespace, by a key that the ruleset's `allowed_signers` lists for the submitter. docs/explanation/integrity.md says
what each check proves and what it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.base import ssh_signature
from harness.base.ssh_signature import parse_signature, refusal
from harness.errors import printable
from harness.submission.claim import Envelope
from harness.submission.layout import MANIFEST_NAME, NAME_PATTERN, SIGNATURE_NAME
from harness.submission.result import Result

NAMESPACE = "tta-submission"


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
        signature = parse_signature(envelope.signature)
    except ValueError as error:
        return Verdict("unreadable", str(error))
    if signature.namespace != NAMESPACE:
        why = f"it was made for {printable(signature.namespace, 60)!r}, not for {NAMESPACE!r}"
        return Verdict("namespace", why, signature.key)
    broken = refusal(envelope.manifest, envelope.signature, NAMESPACE)
    if broken is None and allowed is None:
        return Verdict("unverifiable", f"ruleset {version} has no allowed_signers", signature.key)
    if broken is None and submitter is not None and NAME_PATTERN.fullmatch(submitter):
        refused = refusal(envelope.manifest, envelope.signature, NAMESPACE, allowed, submitter)
        if refused is None:
            return Verdict("valid", key=signature.key, signer=submitter)
        if refused.is_inconclusive:
            broken = refused
    if broken is not None:
        state = "unverifiable" if broken.is_inconclusive else "changed"
        why = broken.why if broken.is_inconclusive else f"{signature.key} did not sign the manifest as it is now"
        return Verdict(state, why, signature.key)
    who = "an unnamed submitter" if submitter is None else printable(submitter, 100)
    return Verdict("not_allowed", f"{signature.key} is not listed in the rules for {who}", signature.key)


def sign(manifest: Path, key: Path) -> Path:
    """Sign `manifest` with the private key in `key`, or with the agent's if `key` is a public key.

    Raises:
        MissingDependencyError: there is no ssh-keygen. UsageError: there is no such key.
        SubmissionError: ssh-keygen did not sign; the message is its own.
    """
    signature = manifest.with_name(SIGNATURE_NAME)
    signature.write_bytes(ssh_signature.sign(manifest.read_bytes(), key, NAMESPACE, "--sign"))
    return signature
