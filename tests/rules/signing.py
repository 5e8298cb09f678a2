"""SSH keys for tests, made once per session if ssh-keygen is installed."""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from harness.submission import signature


def ssh_keygen(*arguments: str, data: bytes = b"") -> bytes:
    """The output of ssh-keygen; without it the test is skipped."""
    program = shutil.which("ssh-keygen")
    if program is None:
        pytest.skip("ssh-keygen is not installed")
    return subprocess.run([program, *arguments], input=data, capture_output=True, check=True, timeout=60).stdout


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tta-test-keys-")


@cache
def key(name: str) -> Path:
    """The private key of `name`; its public half is next to it."""
    path = Path(_folder().name, name)
    ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path))
    return path


def allowed(principals: str, *names: str, options: str = "") -> bytes:
    """An allowed_signers file: the keys of `names`, each for `principals`."""
    keys = [key(name).with_suffix(".pub").read_text() for name in names]
    return "".join(f"{principals} {options}{' ' if options else ''}{public}" for public in keys).encode()


def public(kind: str = "ssh-ed25519", size: int | None = 32) -> str:
    """Type and key of a public key without a private half; without a size, its type alone."""
    fields = (kind.encode(), *(() if size is None else (b"k" * size,)))
    return f"{kind} {base64.b64encode(b''.join(len(item).to_bytes(4, 'big') + item for item in fields)).decode()}"


def sign(folder: Path, name: str = "acme", namespace: str = signature.NAMESPACE) -> Path:
    """Signs the manifest in `folder`."""
    manifest = folder / "MANIFEST.sha256"
    armoured = ssh_keygen("-Y", "sign", "-f", str(key(name)), "-n", namespace, data=manifest.read_bytes())
    path = folder / "MANIFEST.sha256.sig"
    path.write_bytes(armoured)
    return path
