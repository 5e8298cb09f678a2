"""Receipts and checkpoints, verified by anybody: what was forged, and a log with two histories."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import ExitStatus, InputError
from harness.handin import account
from harness.service import checkpoints
from harness.submission.result import read_result
from harness.transparency.checkpoint import NAMESPACE, Checkpoint, SignedCheckpoint
from harness.witness.campaign import complete
from harness.witness.verification import cosign, read_notes, verify
from tests import fabricate
from tests.harness.witness.setting import Setting

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen here")


@pytest.fixture
def witnessed(setting: Setting) -> Setting:
    """Five runs were streamed, and their campaign is closed."""
    for index in range(5):
        setting.run(index)
    complete(setting.client, read_result(setting.place))
    fabricate.reseal(setting.place)
    return setting


def key_of(setting: Setting) -> str:
    return setting.world.instance.key.public


def forged(setting: Setting, note: SignedCheckpoint) -> SignedCheckpoint:
    """Another history of the same length, signed by the same service."""
    other = Checkpoint(note.checkpoint.origin, note.checkpoint.size, bytes(32))
    return SignedCheckpoint(other, (setting.world.instance.key.sign(other.text.encode(), NAMESPACE),))


def test_what_was_witnessed_is_verified(witnessed: Setting) -> None:
    """With the key alone, and with proofs; with another key nothing is."""
    result = read_result(witnessed.place)
    alone = verify(result, key_of(witnessed), [], None)
    online = verify(result, key_of(witnessed), [], witnessed.client)
    other = verify(result, "ssh-ed25519 " + "A" * 68, [], None)

    assert (alone.faults, alone.doubts, online.faults) == ((), (), ())
    assert alone.num_receipts == online.num_receipts == len(other.faults) > 30


def test_a_forged_receipt_is_found(witnessed: Setting) -> None:
    """By its signature; and one that is signed, by the log, which has none such."""
    path = witnessed.place / "receipts_2.jsonl"
    lines = path.read_text().splitlines()
    record = json.loads(lines[1])
    event = json.loads(record["opening"]["event"])
    event["at_ms"] += 1
    record["opening"]["event"] = json.dumps(event)
    path.write_text("\n".join([lines[0], json.dumps(record), *lines[2:]]) + "\n")
    found = verify(read_result(witnessed.place), key_of(witnessed), [], witnessed.client).faults

    assert len(found) == 2
    assert "receipts_2.jsonl:2: is not signed with the key of the service" in found[0]
    assert "receipts_2.jsonl:2: is not event" in found[1]


def test_two_histories_are_found_by_their_checkpoints(witnessed: Setting, tmp_path: Path) -> None:
    """Without a network, if they are of one size; with the service, which continues only one of them."""
    result, client = read_result(witnessed.place), witnessed.client
    honest = checkpoints.newest(witnessed.world.instance)
    other = forged(witnessed, honest)
    for name, note in (("mine", honest), ("theirs", other)):
        (tmp_path / name).write_text(note.note)
    notes = read_notes([tmp_path / "mine", tmp_path / "theirs"])
    alone = verify(result, key_of(witnessed), notes, None)
    online = verify(result, key_of(witnessed), notes[1:], client)

    assert len(alone.faults) == 1
    assert "another history than" in alone.faults[0]
    assert any("another history" in fault for fault in online.faults)
    longer = replace(honest.checkpoint, size=honest.checkpoint.size + 1000)
    foreign = replace(honest.checkpoint, origin="other/log")
    for point, said in ((longer, "the service shows"), (foreign, "is of the log other/log")):
        note = SignedCheckpoint(point, (witnessed.world.instance.key.sign(point.text.encode(), NAMESPACE),))
        assert any(said in fault for fault in verify(result, key_of(witnessed), [("it", note)], client).faults)
    (tmp_path / "none").write_text("no")
    with pytest.raises(InputError, match="not a checkpoint"):
        read_notes([tmp_path / "none"])
    with pytest.raises(InputError, match="missing"):
        read_notes([tmp_path / "missing"])


def test_another_party_signs_what_continues(setting: Setting, tmp_path: Path) -> None:
    """And refuses to sign another history, whose checkpoint it keeps."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    kept = tmp_path / "kept"
    assert "signed the checkpoint of" in cosign(setting.client, tmp_path / "key", kept)
    before = kept.read_text()
    setting.run(0)
    setting.world.time.now_ms += 5_000
    cosign(setting.client, tmp_path / "key", kept)
    assert kept.read_text() != before
    assert setting.world.client.get("/api/v1/log/checkpoint").text.count("BEGIN SSH SIGNATURE") == 2
    kept.write_text(forged(setting, read_notes([kept])[0][1]).note)
    evidence = kept.read_text()
    with pytest.raises(InputError, match="nothing was signed; keep"):
        cosign(setting.client, tmp_path / "key", kept)
    assert kept.read_text() == evidence


def test_the_verb_says_what_is_wrong(
    witnessed: Setting, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With status 1; and says nothing without a key."""
    from harness import cli

    monkeypatch.setattr(account, "client_for", lambda address: witnessed.client)
    key = tmp_path / "board.pub"
    key.write_text(f"{key_of(witnessed)} a board\n")
    assert cli.main(["witness", "verify", str(witnessed.place), "--key", str(key)]) == ExitStatus.OK
    assert "W2, witnessed" in capsys.readouterr().out
    assert cli.main(["witness", "show", "http://board.example/", witnessed.campaign.id]) == ExitStatus.OK
    assert "5  finished" in capsys.readouterr().out
    assert cli.main(["witness", "close", "http://board.example/", str(witnessed.place)]) == ExitStatus.OK
    log = witnessed.place / "result_0.txt"
    log.write_text(log.read_text().replace('"train_loss": ', '"train_loss": 1'))
    capsys.readouterr()
    assert cli.main(["witness", "verify", str(witnessed.place), "--key", str(key)]) == ExitStatus.FINDINGS
    assert "WIT003" in capsys.readouterr().out
    key.write_text("no key\n")
    assert cli.main(["witness", "verify", str(witnessed.place), "--key", str(key)]) == ExitStatus.USAGE
    assert cli.main(["witness", "verify", str(witnessed.place)]) == ExitStatus.USAGE
    assert cli.main(["witness", "verify", str(log), "--key", str(key)]) == ExitStatus.USAGE
    assert cli.main(["witness", "close", "http://board.example/", str(log)]) == ExitStatus.USAGE
    assert cli.main(["witness", "show", "http://board.example/", "../x"]) == ExitStatus.USAGE
