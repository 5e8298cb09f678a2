"""Sending: over connections that break, nothing is sent twice but what was on its way, and a receipt is verified."""

from __future__ import annotations

import hashlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import InputError, UsageError
from harness.handin import account, receipt, sending, status
from tests.harness.base.test_http import answering, reply
from tests.harness.transparency.test_receipt import RECEIPT


class Link:
    """A server of uploads whose connection breaks off in every `nth` piece, after half of it."""

    def __init__(self, size: int, nth: int) -> None:
        self.data, self.size, self.nth = b"", size, nth
        self.num_received = self.num_pieces = 0

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if request.command == "POST":
            offset = str(len(self.data))
            return reply(request, 201, b"", location="http://elsewhere/api/v1/uploads/u1", upload_offset=offset)
        if request.command == "HEAD":
            if len(self.data) == self.size:
                return reply(request, 404, b"")
            return reply(request, 200, b"", upload_offset=str(len(self.data)))
        length, offset = int(request.headers["content-length"]), int(request.headers["upload-offset"])
        if offset != len(self.data):
            return reply(request, 409, b"")
        self.num_pieces += 1
        is_cut = self.num_pieces % self.nth == 0
        data = request.rfile.read((length + 1) // 2 if is_cut else length)
        self.num_received += len(data)
        self.data += data
        if is_cut:
            request.connection.close()
            return None
        return reply(request, 204, b"")


@pytest.mark.parametrize("nth", [1, 2, 3, 7])
def test_an_upload_survives_a_link_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    """It ends with the right bytes, of which none is received twice, even if no piece comes over it whole."""
    monkeypatch.setattr(sending, "PIECE_BYTES", 10_000)
    data = bytes(range(256)) * 400
    path = tmp_path / "file"
    path.write_bytes(data)
    link = Link(len(data), nth)

    with answering(link) as client:
        sending.upload(client, path, hashlib.sha256(data).hexdigest(), len(data), lambda line: None)

    assert link.data == data
    assert link.num_received == len(data)


def test_a_second_call_goes_on_with_the_upload_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose process ended in the middle, or lost the other side for longer than it tries."""
    monkeypatch.setattr(sending, "PIECE_BYTES", 10_000)
    data = bytes(range(256)) * 400
    path = tmp_path / "file"
    path.write_bytes(data)
    link, digest = Link(len(data), 99), hashlib.sha256(data).hexdigest()

    def until_the_third(line: str) -> None:
        if link.num_pieces == 3:
            raise KeyboardInterrupt

    with answering(link) as client:
        with pytest.raises(KeyboardInterrupt):
            sending.upload(client, path, digest, len(data), until_the_third)
        sending.upload(client, path, digest, len(data), lambda line: None)

    assert link.data == data
    assert link.num_received == len(data)


def test_a_file_that_becomes_shorter_and_a_server_that_lies_are_said(tmp_path: Path) -> None:
    """In one sentence each."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    with answering(Link(20, 99)) as client, pytest.raises(sending.OutputError, match="became shorter"):
        sending.upload(client, path, "a" * 64, 20, lambda line: None)

    def lying(request: BaseHTTPRequestHandler) -> None:
        if request.command == "PATCH":
            return reply(request, 409, b"")
        offset = "0" if request.command == "POST" else "999"
        return reply(request, 200, b"", location="/u", upload_offset=offset)

    with answering(lying) as client, pytest.raises(InputError, match="'999' bytes have arrived"):
        sending.upload(client, path, "a" * 64, 10, lambda line: None)


def test_a_receipt_with_another_key_is_refused() -> None:
    """And one without a readable signature."""
    with (
        answering(lambda request: reply(request, 200, b'{"public_key": "ssh-ed25519 AAAA"}')) as client,
        pytest.raises(InputError, match="no readable signature"),
    ):
        receipt.verified(client, RECEIPT.record())


def test_tokens_are_kept_for_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each address, in a file of mode 0600; the variable comes first."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(account.VARIABLE, raising=False)
    assert account.token_for("http://a") is None
    with pytest.raises(UsageError, match="tta login http://a"):
        account.client_for("http://a")

    path = account.keep("http://a", "tta_1")
    account.keep("http://b/", "tta_2")

    assert path.stat().st_mode & 0o777 == 0o600
    assert (account.token_for("http://a/"), account.token_for("http://b")) == ("tta_1", "tta_2")
    monkeypatch.setenv(account.VARIABLE, "tta_3")
    assert account.client_for("http://c").token == "tta_3"
    monkeypatch.delenv(account.VARIABLE)
    for text, why in (("{", "not JSON"), ("[1]", "not a list of tokens")):
        path.write_text(text)
        with pytest.raises(InputError, match=why):
            account.token_for("http://a")


def test_the_status_is_text_that_cannot_control_a_terminal() -> None:
    """Whatever a service answers."""
    found = {
        "id": "\x1b[2J", "words": "published", "organisation": "acme", "superseded_by": "x",
        "findings": [{"code": "TIM001", "severity": "error", "path": "p", "line": 3, "message": "m\n", "waived": "w"}],
        "history": [{"at_ms": 0, "kind": "submission.accept", "body": {"reason": "fine"}}, {"at_ms": "x"}, 3],
    }  # fmt: skip

    text = status.status_text(found)

    assert "\x1b" not in text
    assert "TIM001 error (waived): p:3: m" in text
    assert "1970-01-01 00:00:00 UTC  accept: fine" in text
    assert "it was improved by x" in text


def test_what_is_named_to_tta_status_is_an_id_or_a_submitted_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything else is one sentence, and so is a receipt that is none."""
    for words, why in (
        (["status"], "--to URL"),
        (["status", "a" * 32], "--to URL"),
        (["status", str(tmp_path)], "receipt.json"),
    ):
        assert main(words) == 2
        assert why in capsys.readouterr().err
    (tmp_path / "receipt.json").write_text("{}")
    assert main(["status", str(tmp_path)]) == 2
    assert "is not a receipt" in capsys.readouterr().err


def test_options_of_a_service_are_not_for_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They would do nothing there."""
    from tests import fabricate

    fabricate.write_result(tmp_path / "result")
    (tmp_path / "tree").mkdir()

    assert main(["submit", str(tmp_path / "result"), "--to", str(tmp_path / "tree"), "--round", "r"]) == 2
    assert "--round and --supersedes are for a service's address" in capsys.readouterr().err
