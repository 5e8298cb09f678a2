"""The service's own key: an Ed25519 key as OpenSSH keeps it, and signatures that `ssh-keygen -Y verify` accepts.

Signed here and not by ssh-keygen, since every receipt and every checkpoint has a signature.

Source: OpenSSH, PROTOCOL.sshsig.
"""

from __future__ import annotations

import base64
import hashlib
import os
import textwrap
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.base.files import small_file, write_new
from harness.base.ssh_signature import fingerprint
from harness.errors import InputError, SubmissionError

KEY_NAME = "checkpoint_key"
_KIND = b"ssh-ed25519"
_HASH = b"sha512"


class SigningKey:
    """The key of a service."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self._public = _text(_KIND) + _text(raw)

    @classmethod
    def create(cls, folder: Path) -> SigningKey:
        """Make a key in a folder, with its public part next to it.

        Raises:
            OutputError: there is one already, or it cannot be written.
        """
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        previous = os.umask(0o077)
        try:
            write_new(folder / KEY_NAME, private, "there is a key already")
        finally:
            os.umask(previous)
        found = cls(key)
        write_new(folder / f"{KEY_NAME}.pub", f"{found.public} {folder.absolute().name}\n".encode())
        return found

    @classmethod
    def read(cls, folder: Path) -> SigningKey:
        """Raises:
        InputError: there is no key that can be used.
        """
        path = folder / KEY_NAME
        try:
            key = serialization.load_ssh_private_key(small_file(path), None)
        except (ValueError, TypeError, UnsupportedAlgorithm, SubmissionError) as error:
            raise InputError(f"{path}: not the key of a service: {str(error).removeprefix(f'{path}: ')}") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(f"{path}: is not an Ed25519 key")
        return cls(key)

    @property
    def public(self) -> str:
        """The public key, as in a list of keys: `ssh-ed25519 AAAA…`."""
        return f"{_KIND.decode()} {base64.b64encode(self._public).decode()}"

    @property
    def fingerprint(self) -> str:
        return fingerprint(self._public)

    def sign(self, message: bytes, namespace: str) -> str:
        """Return a signature over `message`, as ssh-keygen writes it."""
        head = _text(namespace.encode()) + _text(b"") + _text(_HASH)
        signed = self._key.sign(b"SSHSIG" + head + _text(hashlib.sha512(message).digest()))
        blob = b"SSHSIG" + (1).to_bytes(4, "big") + _text(self._public) + head + _text(_text(_KIND) + _text(signed))
        lines = textwrap.wrap(base64.b64encode(blob).decode(), 70)
        return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def _text(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
