"""The organiser's list of keys: a line that ssh-keygen could not read is reported when the rules are loaded."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import cli
from harness.errors import RulesError
from harness.ruleset.signers import read_signers
from tests import fabricate
from tests.rules import signing
from tests.rules_folder import write_ruleset

KEY = signing.public()
OPTION = 'namespaces="tta-submission"'
SOUND = [
    f"acme {KEY}",
    f"acme {KEY} comment of two words and more",
    f'"acme" {KEY}',
    f"  acme\t {KEY}\r",
    f"acme,globex,!evil* {KEY}",
    f"acme, {KEY}",
    "# a comment",
    "   ",
    f"acme {OPTION} {KEY}",
    f"acme {OPTION.upper().replace('TTA-SUBMISSION', 'tta-submission')}   {KEY}",
    f'acme cert-authority,namespaces="git,tta-*" {KEY}',
    f'acme valid-before="20991231" {KEY}',
    f'acme valid-after="202001010000Z",valid-before="20991231235959" {KEY}',
    f'acme valid-after="20200101",valid-before="202001010001" {KEY}',
    f'acme valid-after="20200102Z",valid-before="20200104" {KEY}',
    f'acme namespaces="with \\"quotes\\" and blanks" {KEY}',
]
BROKEN = [
    ("garbage", "no submitter and key can be read from 'garbage'; a line has the name of a submitter, options"),
    (f'"acme {KEY}', "no submitter and key can be read from '\"acme ssh-ed25519"),
    (f"\ufeffacme {KEY}", r"no submitter and key can be read from '\\ufeffacme"),
    ("acme garbage", "no key can be read from 'garbage'"),
    ("acme ssh-ed25519", "no key can be read from 'ssh-ed25519'"),
    ("acme ssh-ed25519 AAAA", "no key can be read from 'ssh-ed25519 AAAA'"),
    (f"acme {KEY[:-5]}", "no key can be read"),
    (f"acme {KEY[:-8]}", "no key can be read"),
    (f"acme {KEY}{KEY.split()[1]}", "no key can be read"),
    (f"acme {KEY}AAAA", "no key can be read"),
    (f"acme {KEY[:20]}!{KEY[20:]}", "no key can be read"),
    (f"acme {signing.public('ecdsa-sha2-nistp256', None)}", "no key can be read"),
    (f"acme ssh-rsa {KEY.split()[1]}", "no key can be read"),
    (f"acme {KEY.upper().split()[0]} {KEY.split()[1]}", "no key can be read"),
    (f"acme {OPTION} {KEY[:-5]}", "no key can be read"),
    (f"acme {OPTION}", "no key can be read"),
    (f'acme namespaces="a {KEY}', "no key can be read"),
    (f"acme cert-authorty {KEY}", "unknown option 'cert-authorty'; did you mean 'cert-authority'?"),
    (f'acme {OPTION},from="x" {KEY}', "unknown option 'from'; there are: cert-authority, namespaces"),
    (f"acme namespaces=tta-submission {KEY}", "the options 'namespaces=tta-submission' are not NAME or NAME="),
    (f"acme {OPTION}, {KEY}", "the options 'namespaces=\"tta-submission\",' are not NAME or NAME="),
    (f'acme cert-authority="yes" {KEY}', "the option cert-authority has no value"),
    (f"acme valid-before {KEY}", "the option valid-before needs a value in quotes"),
    (f'acme namespaces="a",namespaces="b" {KEY}', "the option namespaces occurs twice"),
    (f'acme valid-before="" {KEY}', "valid-before is ''; it must be YYYYMMDD[HHMM[SS]][Z]"),
    (f'acme valid-before="2099-12-31" {KEY}', "valid-before is '2099-12-31'"),
    (f'acme valid-before="20991331" {KEY}', "valid-before is '20991331'"),
    (f'acme valid-after="2099123112" {KEY}', "valid-after is '2099123112'"),
    ('acme valid-after="\uff12\uff10\uff19\uff191231" ' + KEY, "valid-after is '"),
    (
        f'acme valid-after="20200101",valid-before="20200101" {KEY}',
        "valid-before is 20200101, which is not after",
    ),
    (f'acme valid-before="20200101Z",valid-after="20200102Z" {KEY}', "valid-before is 20200101Z, which is not after"),
]
OVERLOOKED = [  # by ssh-keygen
    (f"acme ,{OPTION} {KEY}", "unknown option ''"),
    (f'acme valid-after="2099 231" {KEY}', "valid-after is '2099 231'"),
]


def ssh_keygen_refuses(place: Path, line: str) -> bool:
    """Whether ssh-keygen, looking for a key under acme, complains of the only line of the list."""
    program = shutil.which("ssh-keygen")
    if program is None:
        pytest.skip("ssh-keygen is not installed")
    (place / "data").write_text("data\n")
    (place / "data.sig").unlink(missing_ok=True)
    signing.ssh_keygen("-q", "-Y", "sign", "-f", str(signing.key("acme")), "-n", "tta-submission", str(place / "data"))
    said = subprocess.run(
        [program, "-Y", "verify", "-f", "list", "-I", "acme", "-n", "tta-submission", "-s", "data.sig"],
        input=b"data\n",
        capture_output=True,
        cwd=place,
        check=False,
        timeout=60,
    ).stderr.decode("utf-8", "replace")
    return re.search("^list:1: (missing|invalid|bad)", said, re.MULTILINE) is not None


@pytest.mark.parametrize("line", SOUND)
def test_a_sound_line_is_read_as_ssh_keygen_reads_it(tmp_path: Path, line: str) -> None:
    """With every option; the bytes are kept as they are."""
    (tmp_path / "list").write_text(f"{line}\n", newline="")

    assert read_signers(tmp_path / "list") == f"{line}\n".encode()
    assert not ssh_keygen_refuses(tmp_path, line)


@pytest.mark.parametrize(("line", "why"), [*BROKEN, *OVERLOOKED])
def test_a_broken_line_is_one_sentence_with_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    """ssh-keygen would say that the key is not listed; the lines before it are valid."""
    (tmp_path / "list").write_text(f"# keys\n\nglobex {KEY}\n{line}\n")

    with pytest.raises(RulesError) as caught:
        read_signers(tmp_path / "list")

    assert str(caught.value).startswith(f"{tmp_path}/list:4: {why}")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("line", [line for line, _ in BROKEN if line.startswith(("acme ", '"acme '))])
def test_ssh_keygen_refuses_what_is_refused(tmp_path: Path, line: str) -> None:
    """No line is called broken that it would read. It reports nothing about one that does not begin with a name."""
    (tmp_path / "list").write_text(f"{line}\n")

    assert ssh_keygen_refuses(tmp_path, line)


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_every_kind_of_key_is_read(tmp_path: Path, kind: str) -> None:
    """As ssh-keygen writes it, and certified by another key; the numbers in a certificate are not lengths."""
    for name in ("ca", "key"):
        signing.ssh_keygen("-q", "-t", kind, "-N", "", "-f", str(tmp_path / name))
    signing.ssh_keygen("-q", "-s", str(tmp_path / "ca"), "-I", "acme", "-n", "acme", str(tmp_path / "key.pub"))
    later = signing.public("ssh-later")  # unknown here, but complete; a later ssh-keygen may know it

    for key in ((tmp_path / "key.pub").read_text(), (tmp_path / "key-cert.pub").read_text(), later):
        (tmp_path / "list").write_text(f"acme {key}\n")
        assert read_signers(tmp_path / "list") is not None


def test_an_absent_list_is_none_and_one_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    """An empty file is an empty list."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()

    assert read_signers(tmp_path / "none") is None
    assert read_signers(tmp_path / "empty") == b""
    with pytest.raises(RulesError, match="folder: cannot be read: Is a directory"):
        read_signers(tmp_path / "folder")


def test_a_broken_list_is_a_fault_of_the_rules_not_of_the_submitter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tta check` ends with 2 and the sentence; no submitter reads that a key is not listed."""
    law = write_ruleset(tmp_path / "law")
    (law / "allowed_signers").write_text("garbage\n")
    signing.sign(fabricate.write_submission(tmp_path / "tree", 5))

    assert cli.main(["check", str(tmp_path / "tree"), "--ruleset", str(law)]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"tta: {law}/allowed_signers:1: no submitter and key can be read from 'garbage'; ")
