"""One file from the network: resumed, verified, bounded; every way it goes wrong is one sentence."""

from __future__ import annotations

import hashlib
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.base.download import download
from harness.errors import DataError

CONTENT = bytes(range(256)) * 4000  # 1,024,000 bytes: four chunks
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ROOM = 2_000_000


class Server(ThreadingHTTPServer):
    """Without looking up its own name, which takes seconds without a name server."""

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]


class Served:
    """A local server that serves CONTENT in one of several ways, and records the ranges requested.

    cut: how many bytes are sent before the connection is closed (or before it falls silent, with `is_silent`).
    has_ranges: whether it can resume. has_length: whether it states the length.
    """

    def __init__(self) -> None:
        self.cut: int | None = None
        self.is_silent = False
        self.has_ranges = True
        self.has_length = True
        self.status: int | None = None
        self.content = CONTENT
        self.ranges: list[str | None] = []
        self.may_end = threading.Event()
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.answer(self)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/some/archive.bin"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        if self.status is not None:
            request.send_error(self.status)
            return
        match = re.fullmatch(r"bytes=(\d+)-", wanted or "") if self.has_ranges else None
        first = int(match.group(1)) if match else 0
        if match and first >= len(self.content):
            request.send_error(416)
            return
        body = self.content[first:]
        request.send_response(206 if match else 200)
        if self.has_length:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cut])
        request.wfile.flush()
        if self.is_silent:
            self.may_end.wait(10)

    def close(self) -> None:
        self.may_end.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.close()


@pytest.fixture
def fetch(served: Served, tmp_path: Path) -> Callable[..., Path]:
    """Downloads what is served to `archive.bin` in the test's folder."""

    def do(**changes: Any) -> Path:
        path = tmp_path / "archive.bin"
        options: dict[str, Any] = {"sha256": SHA256, "max_bytes": ROOM, "say": lambda text: None, "timeout_s": 5.0}
        url = changes.pop("url", served.url)
        download(url, path, **{**options, **changes})
        return path

    return do


def part_of(folder: Path) -> bytes | None:
    part = folder / "archive.bin.part"
    return part.read_bytes() if part.exists() else None


@pytest.mark.parametrize("has_length", [True, False])
def test_file_comes_whole_and_nothing_else_is_left(
    served: Served, fetch: Callable[..., Path], tmp_path: Path, has_length: bool
) -> None:
    """With and without a stated length."""
    served.has_length = has_length

    assert fetch().read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["archive.bin"]
    assert served.ranges == [None]


def test_file_that_is_there_is_not_fetched(served: Served, fetch: Callable[..., Path]) -> None:
    """And one that is there but is another is."""
    path = fetch()
    fetch()
    assert len(served.ranges) == 1

    path.write_bytes(b"other")
    assert fetch().read_bytes() == CONTENT
    assert len(served.ranges) == 2


def test_cut_is_gone_on_with(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Every byte that came is kept, and the next call asks for the rest only."""
    served.cut = 300_001
    with pytest.raises(DataError, match=r"it ended after 300,001 of 1,024,000 bytes.*to resume at 300,001 bytes"):
        fetch()
    assert part_of(tmp_path) == CONTENT[:300_001]

    served.cut = None
    assert fetch().read_bytes() == CONTENT
    assert served.ranges == [None, "bytes=300001-"]
    assert part_of(tmp_path) is None


def test_several_cuts_come_to_an_end(served: Served, fetch: Callable[..., Path]) -> None:
    """Each attempt brings its share."""
    served.cut = 400_000
    for _ in range(2):
        with pytest.raises(DataError):
            fetch()

    assert fetch().read_bytes() == CONTENT
    assert served.ranges == [None, "bytes=400000-", "bytes=800000-"]


def test_server_that_cannot_go_on_begins_anew(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Its whole answer is not put behind what was there."""
    (tmp_path / "archive.bin.part").write_bytes(CONTENT[:5000])
    served.has_ranges = False

    assert fetch().read_bytes() == CONTENT
    assert served.ranges == ["bytes=5000-"]


def test_what_had_come_whole_is_taken(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Killed between the last byte and the digest: the server answers 416, and all is there."""
    (tmp_path / "archive.bin.part").write_bytes(CONTENT)

    assert fetch().read_bytes() == CONTENT
    assert served.ranges == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize("have", [0, 100, len(CONTENT)])
def test_wrong_digest_is_said_and_not_kept(
    served: Served, fetch: Callable[..., Path], tmp_path: Path, have: int
) -> None:
    """A replaced file, or a part of another one; the next attempt starts again."""
    if have:
        (tmp_path / "archive.bin.part").write_bytes(b"x" * have)
    else:
        served.content = b"y" + CONTENT[1:]

    with pytest.raises(DataError, match=rf"archive\.bin: the download has SHA-256 [0-9a-f]{{64}}, expected {SHA256}"):
        fetch()

    assert list(tmp_path.iterdir()) == []
    served.content = CONTENT
    assert fetch().read_bytes() == CONTENT


@pytest.mark.parametrize("has_length", [True, False])
@pytest.mark.parametrize("have", [0, 600_000])
def test_more_than_it_can_be_is_refused_and_not_kept(
    served: Served, fetch: Callable[..., Path], tmp_path: Path, has_length: bool, have: int
) -> None:
    """Before the download if the length is stated, else during it."""
    served.has_length = has_length
    if have:
        (tmp_path / "archive.bin.part").write_bytes(CONTENT[:have])

    with pytest.raises(DataError, match=r"sends more than 1,023,999 bytes, the most it may have; it was not kept"):
        fetch(max_bytes=len(CONTENT) - 1)

    assert list(tmp_path.iterdir()) == []


def test_exactly_as_much_as_it_can_be_is_taken(fetch: Callable[..., Path]) -> None:
    """The boundary belongs to the file."""
    assert fetch(max_bytes=len(CONTENT)).read_bytes() == CONTENT


def test_silence_ends_it_and_what_came_is_kept(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Less than a chunk has come; it is not lost."""
    served.cut, served.is_silent = 1000, True
    begin = time.monotonic()

    with pytest.raises(DataError, match=r"could not be downloaded \(timed out\); try again to resume at 1,000 bytes"):
        fetch(timeout_s=0.2)

    assert time.monotonic() - begin < 5
    assert part_of(tmp_path) == CONTENT[:1000]


@pytest.mark.parametrize(("status", "reason"), [(404, "Not Found"), (500, "Internal Server Error"), (403, "Forbidden")])
def test_refusal_is_said_in_the_servers_words(
    served: Served, fetch: Callable[..., Path], tmp_path: Path, status: int, reason: str
) -> None:
    """And what had come before is kept."""
    (tmp_path / "archive.bin.part").write_bytes(CONTENT[:7])
    served.status = status

    with pytest.raises(DataError, match=rf"could not be downloaded \({reason}\).*give its folder as the source"):
        fetch()

    assert part_of(tmp_path) == CONTENT[:7]


def test_416_without_a_part_is_a_refusal(served: Served, fetch: Callable[..., Path]) -> None:
    """Nothing had come that could be whole."""
    served.status = 416

    with pytest.raises(DataError, match="could not be downloaded"):
        fetch()


def test_no_network_is_one_sentence(fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Nobody listens; nothing is left behind."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    with pytest.raises(DataError, match=r"refused\); try again to resume at 0 bytes") as raised:
        fetch(url=f"http://127.0.0.1:{port}/x")

    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["gopher://x/y", "no address", "http://[::1/x", "file:///nowhere/at/all"])
def test_address_that_leads_nowhere_is_one_sentence(fetch: Callable[..., Path], url: str) -> None:
    """Of an unknown kind, malformed, or of a file that is not there."""
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(url=url)


@pytest.mark.parametrize("have", [0, 100])
def test_file_address_is_copied(fetch: Callable[..., Path], tmp_path: Path, have: int) -> None:
    """A mirror on a mounted disk; a partial download is started again."""
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "archive.bin").write_bytes(CONTENT)
    if have:
        (tmp_path / "archive.bin.part").write_bytes(b"x" * have)

    assert fetch(url=(tmp_path / "mirror" / "archive.bin").as_uri()).read_bytes() == CONTENT


def test_progress_names_the_file_and_how_far_it_is(
    served: Served, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most once a second; here every look at the clock is two seconds later."""
    seconds = iter(range(0, 10_000, 2))
    monkeypatch.setattr("harness.base.download.time.monotonic", lambda: float(next(seconds)))
    lines: list[str] = []
    served.content = CONTENT * 3

    fetch(say=lines.append, sha256=hashlib.sha256(CONTENT * 3).hexdigest(), max_bytes=len(CONTENT) * 3)

    assert lines
    assert all(re.fullmatch(r"archive\.bin: [0-2] MiB of 2 MiB", line) for line in lines)


def test_answer_that_is_no_http_is_one_sentence(fetch: Callable[..., Path]) -> None:
    """Somebody else listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            connection = server.accept()[0]
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-other\r\n")
            connection.close()

        thread = threading.Thread(target=babble)
        thread.start()
        with pytest.raises(DataError, match=r"could not be downloaded \(.*SSH-2\.0-other"):
            fetch(url=f"http://127.0.0.1:{server.getsockname()[1]}/x")
        thread.join()


def test_progress_goes_to_standard_error_where_nobody_else_takes_it(
    served: Served, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output belongs to the command; an unstated length is not invented."""
    seconds = iter(range(0, 10_000, 2))
    monkeypatch.setattr("harness.base.download.time.monotonic", lambda: float(next(seconds)))
    served.has_length = False

    fetch(say=None)

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err
    assert set(captured.err.splitlines()) == {"archive.bin: 0 MiB"}
