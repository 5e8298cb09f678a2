"""Signatures: how one is read, what a verdict rests on, and that nothing in it can steer ssh-keygen."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import cli
from harness.base import ssh_signature
from harness.base.ssh_signature import parse_signature
from harness.errors import MissingDependencyError, RulesError, SubmissionError, UsageError
from harness.ruleset import catalog, load
from harness.submission import claim, signature
from harness.submission import result as submission_result
from harness.submission.claim import Envelope
from harness.submission.result import Result
from tests import fabricate
from tests.rules import signing
from tests.rules_folder import write_ruleset


def signed(place: Path, name: str = "acme") -> Result:
    folder = fabricate.write_submission(place / "tree", 1)
    signing.sign(folder, name)
    return submission_result.read_result(folder)


def test_a_listed_key_is_valid_and_named(tmp_path: Path) -> None:
    """The submitter and the key's fingerprint, as ssh-keygen shows it."""
    result = signed(tmp_path)
    fingerprint = signing.ssh_keygen("-l", "-f", str(signing.key("acme").with_suffix(".pub"))).decode().split()[1]

    verdict = signature.verdict(result, signing.allowed("acme", "acme"), "v1")

    assert (verdict.state, verdict.signer) == ("valid", "acme")
    assert verdict.sentence == f"signed by acme with ssh-ed25519 {fingerprint}"


def test_a_key_for_another_namespace_is_not_valid(tmp_path: Path) -> None:
    """The list may restrict a key's use."""
    result = signed(tmp_path)

    states = {
        options: signature.verdict(result, signing.allowed("acme", "acme", options=options), "v1").state
        for options in ('namespaces="git"', 'namespaces="tta-submission"', "cert-authority")
    }

    assert list(states.values()) == ["not_allowed", "valid", "not_allowed"]


@pytest.mark.parametrize(
    "name", ["-O", "--help", "a b", "*", "acme\nmallory", "$(id)", "\x1b[2J", "", "../acme", "a" * 5000]
)
def test_an_impossible_name_is_never_valid(tmp_path: Path, name: str) -> None:
    """Not even if the list allows every name: it does not reach ssh-keygen."""
    result = signed(tmp_path)
    assert result.claim is not None
    result = replace(result, claim=replace(result.claim, submitter=name))

    verdict = signature.verdict(result, signing.allowed("*", "acme"), "v1")

    assert verdict.state == "not_allowed"
    assert verdict.sentence.isprintable()


def test_without_ssh_keygen_nothing_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported as not verifiable; signing names in one sentence what is missing."""
    result, allowed = signed(tmp_path), signing.allowed("acme", "acme")
    monkeypatch.setenv("PATH", str(tmp_path))
    signature._verdict.cache_clear()

    verdict = signature.verdict(result, allowed, "v1")

    assert verdict.sentence.endswith("not verifiable here: ssh-keygen is not installed")
    with pytest.raises(MissingDependencyError, match="openssh-client"):
        signature.sign(result.path / "MANIFEST.sha256", tmp_path / "key")


def play(place: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script in the place of ssh-keygen."""
    program = place / "bin/ssh-keygen"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    signature._verdict.cache_clear()


SOUND = 'case "$2" in check-novalidate) exit 0;; *) {};; esac'


@pytest.mark.parametrize(
    ("script", "state", "why"),
    [
        ("echo 'No user exists for uid 4711' >&2; exit 255", "unverifiable", "No user exists for uid 4711"),
        ("echo 'unknown option -- Y' >&2; exit 1", "unverifiable", "unknown option -- Y"),
        ("kill -9 $$", "unverifiable", "-9"),
        ("exec sleep 60", "unverifiable", "TimeoutExpired"),
        (SOUND.format("exit 0"), "valid", ""),
        (SOUND.format("echo 'Could not verify signature.' >&2; exit 255"), "not_allowed", ""),
        (SOUND.format("echo 'No user exists for uid 4711' >&2; exit 255"), "unverifiable", "No user exists"),
        (SOUND.format("echo 'usage: ssh-keygen [-q]' >&2; exit 1"), "unverifiable", "usage"),
        (SOUND.format("kill -9 $$"), "unverifiable", "-9"),
    ],
)
def test_a_broken_ssh_keygen_accuses_no_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, state: str, why: str
) -> None:
    """If it fails at the signature or at the list of keys, nothing is said of either; and it is not waited for."""
    result, allowed = signed(tmp_path), signing.allowed("acme", "acme")
    monkeypatch.setattr(ssh_signature, "_VERIFY_S", 1)
    play(tmp_path, script, monkeypatch)

    verdict = signature.verdict(result, allowed, "v1")

    assert verdict.state == state
    assert (verdict.signer is not None) == (state == "valid")
    assert why in verdict.why


def test_a_key_that_waits_for_its_owner_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a touch or a passphrase, signing ends after its limit in one sentence; the old signature stays."""
    manifest = signed(tmp_path).path / "MANIFEST.sha256"
    before = manifest.with_name("MANIFEST.sha256.sig").read_bytes()
    (tmp_path / "key").write_text("a key")
    play(tmp_path, "exec sleep 60", monkeypatch)
    monkeypatch.setattr(ssh_signature, "_SIGN_S", 0.3)

    with pytest.raises(SubmissionError, match=r"key: ssh-keygen did not sign within 0\.3 s"):
        signature.sign(manifest, tmp_path / "key")

    assert manifest.with_name("MANIFEST.sha256.sig").read_bytes() == before


def armoured(blob: bytes) -> bytes:
    return b"-----BEGIN SSH SIGNATURE-----\n%s\n-----END SSH SIGNATURE-----\n" % base64.b64encode(blob)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not begin"),
        (b"\xff" * 70_000, "70,000 bytes"),
        (armoured(b"")[:-5], "does not begin"),
        (armoured(b"").replace(b"\n\n", b"\n!!\n"), "not base64"),
        (armoured(b"SSHSIG\0\0\0\2"), "version 1"),
        (armoured(b"SSHSIG\0\0\0\1"), "cut off"),
        (armoured(b"SSHSIG\0\0\0\1\xff\xff\xff\xff"), "cut off"),
        (armoured(b"SSHSIG\0\0\0\1\0\0\0\0\0\0\0\0"), "cut off"),
    ],
)
def test_a_malformed_signature_is_refused(data: bytes, why: str) -> None:
    """In one sentence, whatever lengths it claims."""
    with pytest.raises(ValueError, match=why):
        parse_signature(data)


def test_the_texts_of_a_signature_are_made_visible() -> None:
    """The signer chooses the key's type and the namespace."""
    blob = b"SSHSIG\0\0\0\1\0\0\0\x08\0\0\0\4\x1b[2J\0\0\0\x04\x1b[2J"
    envelope = Envelope(b"manifest", armoured(blob))

    verdict = signature._verdict(envelope, "acme", b"", "v1")

    assert verdict.state == "namespace"
    assert verdict.sentence.isprintable()
    assert (verdict.key or "").isprintable()


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result, an empty tree, and a ruleset `v1` of the toy benchmark that lists acme's key."""
    import rules

    ruleset = write_ruleset(tmp_path / "shipped/v1")
    (ruleset / "allowed_signers").write_bytes(signing.allowed("acme", "acme"))
    monkeypatch.setattr(rules, "__path__", [str(tmp_path / "shipped"), *rules.__path__])
    fabricate.write_result(tmp_path / "result")
    (tmp_path / "tree").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [("acme", 0, "signed by acme with ssh-ed25519 SHA256:"), ("mallory", 1, "SIG003 error")],
)
def test_submit_signs_and_the_check_verifies(
    toy: Path, name: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the submitter's key it is placed and signed; with another's, nothing is."""
    arguments = ["submit", str(toy / "result"), "--to", str(toy / "tree"), "--sign", str(signing.key(name))]

    assert cli.main(arguments) == status

    assert said in capsys.readouterr().out
    assert len(list((toy / "tree").rglob("MANIFEST.sha256.sig"))) == (status == 0)
    if status == 0:
        assert cli.main(["check", str(toy / "tree"), "--ruleset", "v1"]) == 0
        checked = capsys.readouterr().out
        assert "(toy_mini): valid; signed by acme with ssh-ed25519 SHA256:" in checked
        assert "no findings" in checked


def test_a_signature_can_be_verified_by_hand(tmp_path: Path) -> None:
    """As the documents describe; and the manifest need not list the signature."""
    result = fabricate.write_submission(tmp_path / "tree", 1)
    manifest = result / "MANIFEST.sha256"

    path = signature.sign(manifest, signing.key("acme"))

    arguments = ["-Y", "check-novalidate", "-n", "tta-submission", "-s", str(path)]
    assert b"Good" in signing.ssh_keygen(*arguments, data=manifest.read_bytes())
    assert path.name not in claim.manifest_text(submission_result.read_result(result).files)


def _broken(folder: Path) -> None:
    with (folder / "MANIFEST.sha256").open("a") as manifest:
        manifest.write(f"{'0' * 64}  none\n")


@pytest.mark.parametrize(
    ("signer", "damage", "is_shown"),
    [("acme", None, True), ("mallory", None, False), ("acme", _broken, False), (None, None, False)],
    ids=["listed", "not listed", "changed", "unsigned"],
)
def test_score_and_board_name_the_signer_of_a_valid_signature_alone(
    toy: Path, signer: str | None, damage: Callable[[Path], None] | None, is_shown: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In text, JSON and on the page of the result, by the ruleset's list; others are not mentioned."""
    folder = fabricate.write_submission(toy / "tree", 5)
    if signer is not None:
        signing.sign(folder, signer)
    if damage is not None:
        damage(folder)

    cli.main(["score", str(toy / "tree"), "--ruleset", "v1"])
    text = capsys.readouterr().out
    cli.main(["score", str(toy / "tree"), "--ruleset", "v1", "--format", "json"])
    [table] = json.loads(capsys.readouterr().out)["tables"]
    cli.main(["board", "build", str(toy / "tree"), "--out", str(toy / "site"), "--ruleset", "v1"])
    board = json.loads((toy / "site/leaderboard.json").read_text())

    assert ("signed by acme" in text) == is_shown
    assert table["rows"][0]["signer"] == board["tables"][0]["rows"][0]["signed_by"] == ("acme" if is_shown else None)
    assert (">signed by acme</span>" in (toy / "site/results/acme--box1--toy_mini.html").read_text()) == is_shown
    assert "mallory" not in text


def test_the_signature_is_among_the_copies_of_the_board(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of the site can verify it."""
    signing.sign(fabricate.write_submission(toy / "tree", 5))
    cli.main(["board", "build", str(toy / "tree"), "--out", str(toy / "site"), "--ruleset", "v1"])
    capsys.readouterr()

    assert cli.main(["check", str(toy / "site/files/acme--box1--toy_mini"), "--ruleset", "v1"]) == 0
    assert "signed by acme with" in capsys.readouterr().out


def test_the_commands_of_the_documents_work(tmp_path: Path) -> None:
    """Block by block, in a fresh home: the manifest is `tta`'s own, the key signs, the chain is shown."""
    if any(shutil.which(program) is None for program in ("bash", "ssh-keygen", "sha256sum", "xargs")):
        pytest.skip("a program that the page names is not installed")
    docs = Path(__file__).parents[2] / "docs"
    block = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    _, by_hand = block.findall((docs / "how-to/sign-a-submission.md").read_text())
    [chain] = block.findall((docs / "explanation/integrity.md").read_text())
    leaderboard = (docs / "how-to/operate-a-leaderboard.md").read_text()
    listed = re.search(r"^acme   (.*ssh-ed25519) AAAA", leaderboard, re.MULTILINE)
    assert listed is not None
    folder = fabricate.write_submission(tmp_path / "tree", 1)
    ours = (folder / "MANIFEST.sha256").read_bytes()
    made, rest = by_hand.split("# the signature", 1)
    assert made.count("ssh-keygen -t") == 1
    made = made.replace("ssh-keygen -t", "ssh-keygen -q -N '' -t")  # no one is there to type a passphrase

    def shell(commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (commands, done.stderr)
        return done.stdout

    names = ["provenance/code.txt", "provenance/packages.txt", "result_0.txt", "submission.yaml"]
    assert shell(made).splitlines() == [f"{name}: OK" for name in names]
    assert (folder / "MANIFEST.sha256").read_bytes() == ours
    public = " ".join((tmp_path / ".ssh/tta.pub").read_text().split()[:2])
    line = f"acme   {listed[1]} {public.split()[1]}\n"
    (tmp_path / "allowed_signers").write_text(line)
    said = shell(f"# the signature{rest}")
    assert [words.split(" with ")[0] for words in said.splitlines()] == [
        'Good "tta-submission" signature for acme',
        'Good "tta-submission" signature',
    ]
    assert signature.verdict(submission_result.read_result(folder), line.encode(), "v1").state == "valid"
    lines = shell(chain).splitlines()
    previous, digests = lines[::2], lines[1::2]
    assert previous[0] == f'"prev": "{"0" * 64}"'
    assert previous[1:] == [f'"prev": "{digest.split()[0]}"' for digest in digests[:-1]]
    assert len(digests) > 20


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda path: None, UsageError, "there is no such key file"),
        (lambda path: path.write_text("no key\n"), SubmissionError, "ssh-keygen did not sign: "),
        (lambda path: os.mkfifo(path), UsageError, "there is no such key file"),
    ],
)
def test_an_unusable_key_is_reported(
    tmp_path: Path, make: Callable[[Path], object], error: type[Exception], why: str
) -> None:
    """In one sentence that names it."""
    signing.key("acme")
    make(tmp_path / "-key")
    (tmp_path / "MANIFEST.sha256").write_text("")

    with pytest.raises(error, match=why):
        signature.sign(tmp_path / "MANIFEST.sha256", tmp_path / "-key")


def test_the_list_of_signers_is_part_of_the_ruleset(tmp_path: Path) -> None:
    """It is read from the ruleset's folder and changes its digest; the setting has two values."""
    folder = tmp_path / "rules"
    shutil.copytree(catalog.ruleset_folder("v1"), folder)
    before = load.load_ruleset(folder, "rules")
    listed = f"acme {signing.public()}\n".encode()
    (folder / "allowed_signers").write_bytes(listed)
    rules = folder / "ruleset.yaml"
    rules.write_text(rules.read_text() + "signatures: required\n")

    after = load.load_ruleset(folder, "rules")

    assert (before.allowed_signers, before.requires_signature) == (None, False)
    assert (after.allowed_signers, after.requires_signature) == (listed, True)
    assert before.digest != after.digest
    rules.write_text(rules.read_text().replace("signatures: required", "signatures: wanted"))
    with pytest.raises(RulesError, match="unknown choice 'wanted'; there are: optional, required"):
        load.load_ruleset(folder, "rules")
