"""An ssh-keygen that answers one question and fails at the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import SubmissionError
from harness.submission import result as results
from harness.submission import signature
from harness.submission.result import Result
from tests import fabricate
from tests.rules import signing


@pytest.fixture
def result(tmp_path: Path) -> Result:
    folder = fabricate.write_submission(tmp_path / "tree", 1)
    signing.sign(folder)
    return results.read_result(folder)


def play(place: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of that name first on the path."""
    program = place / "bin" / "ssh-keygen"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    signature._verdict.cache_clear()


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("exit 0", "valid"),
        ("echo 'Could not verify signature.' >&2; exit 255", "not_allowed"),
        ("echo 'No user exists for uid 4711' >&2; exit 255", "unverifiable"),
        ("echo 'usage: ssh-keygen [-q]' >&2; exit 1", "unverifiable"),
        ("kill -9 $$", "unverifiable"),
    ],
)
def test_a_key_is_reported_as_not_listed_only_if_ssh_keygen_says_so(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch, answer: str, state: str
) -> None:
    """The signature is valid; if ssh-keygen fails at the list of keys, the result is unverifiable and nothing else."""
    play(tmp_path, f'case "$2" in check-novalidate) exit 0;; *) {answer};; esac', monkeypatch)

    verdict = signature.verdict(result, signing.allowed("acme", "acme"), "v1")

    assert verdict.state == state
    assert (verdict.signer is not None) == (state == "valid")


def test_a_key_that_waits_for_its_owner_signs_nothing(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a touch or a passphrase, signing ends after its limit in one sentence; the old signature stays."""
    (tmp_path / "key").write_text("a key")
    before = (result.path / "MANIFEST.sha256.sig").read_bytes()
    play(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr(signature, "_SIGN_S", 0.3)

    with pytest.raises(SubmissionError, match=r"key: ssh-keygen did not sign within 0\.3 s"):
        signature.sign(result.path / "MANIFEST.sha256", tmp_path / "key")

    assert (result.path / "MANIFEST.sha256.sig").read_bytes() == before
