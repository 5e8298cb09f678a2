"""One file from the network: resumed, verified, bounded; every way it goes wrong is one sentence."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness.base.download import download
from harness.errors import DataError
from tests.webserver import serving

CONTENT = bytes(range(256)) * 4000  # 1,024,000 bytes: four chunks
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ROOM = 2_000_000


class Served:
    """Serves CONTENT in one of several ways, and records the ranges requested.

    cut: how many bytes are sent before the connection is closed (or before it falls silent, with `is_silent`).
    """

    def __init__(self) -> None:
        self.url = ""
        self.cut: int | None = None
        self.is_silent = False
        self.can_resume = True
        self.has_length = True
        self.status: int | None = None
        self.content = CONTENT
        self.ranges: list[str | None] = []
        self.may_end = threading.Event()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        if self.status is not None:
            request.send_error(self.status)
            return
        match = re.fullmatch(r"bytes=(\d+)-", wanted or "") if self.can_resume else None
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


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    with serving(found.answer) as url:
        found.url = f"{url}/some/archive.bin"
        yield found
        found.may_end.set()


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
    """With and without a stated length, up to exactly as many bytes as are permitted."""
    served.has_length = has_length

    assert fetch(max_bytes=len(CONTENT)).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["archive.bin"]
    assert served.ranges == [None]


def test_file_that_is_there_is_not_fetched(served: Served, fetch: Callable[..., Path]) -> None:
    """A file with another digest is replaced."""
    path = fetch()
    fetch()
    assert len(served.ranges) == 1

    path.write_bytes(b"other")
    assert fetch().read_bytes() == CONTENT
    assert len(served.ranges) == 2


def test_interrupted_download_is_resumed(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Every byte that came is kept, and the next call requests the rest only."""
    served.cut = 400_001
    with pytest.raises(DataError, match=r"it ended after 400,001 of 1,024,000 bytes.*to resume at 400,001 bytes"):
        fetch()
    assert part_of(tmp_path) == CONTENT[:400_001]
    with pytest.raises(DataError):
        fetch()

    assert fetch().read_bytes() == CONTENT
    assert served.ranges == [None, "bytes=400001-", "bytes=800002-"]
    assert part_of(tmp_path) is None


@pytest.mark.parametrize(("have", "can_resume"), [(5000, True), (5000, False), (len(CONTENT), True)])
def test_part_is_completed(
    served: Served, fetch: Callable[..., Path], tmp_path: Path, have: int, can_resume: bool
) -> None:
    """By what is missing, by the whole file if the server cannot resume, or by nothing if the server answers 416."""
    (tmp_path / "archive.bin.part").write_bytes(CONTENT[:have])
    served.can_resume = can_resume

    assert fetch().read_bytes() == CONTENT
    assert served.ranges == [f"bytes={have}-"]


@pytest.mark.parametrize("have", [0, 100, len(CONTENT)])
def test_file_with_a_wrong_digest_is_not_kept(
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
def test_more_bytes_than_permitted_are_refused_and_not_kept(
    served: Served, fetch: Callable[..., Path], tmp_path: Path, has_length: bool, have: int
) -> None:
    """Before the download if the length is stated, else during it."""
    served.has_length = has_length
    if have:
        (tmp_path / "archive.bin.part").write_bytes(CONTENT[:have])

    with pytest.raises(DataError, match=r"sends more than 1,023,999 bytes, the most it may have; it was not kept"):
        fetch(max_bytes=len(CONTENT) - 1)

    assert list(tmp_path.iterdir()) == []


def test_silence_ends_it_and_what_came_is_kept(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """Less than a chunk has come; it is not lost."""
    served.cut, served.is_silent = 1000, True
    begin = time.monotonic()

    with pytest.raises(DataError, match=r"could not be downloaded \(timed out\); try again to resume at 1,000 bytes"):
        fetch(timeout_s=0.2)

    assert time.monotonic() - begin < 5
    assert part_of(tmp_path) == CONTENT[:1000]


@pytest.mark.parametrize(("status", "reason"), [(404, "Not Found"), (416, "Requested Range Not Satisfiable")])
def test_refusal_is_reported_in_the_servers_words(
    served: Served, fetch: Callable[..., Path], status: int, reason: str
) -> None:
    """416 is a refusal, too, if there is no part that could be complete."""
    served.status = status

    with pytest.raises(DataError, match=rf"could not be downloaded \({reason}\).*give its folder as the source"):
        fetch()


def test_refusal_leaves_the_part(served: Served, fetch: Callable[..., Path], tmp_path: Path) -> None:
    """It can be resumed when the server recovers."""
    (tmp_path / "archive.bin.part").write_bytes(CONTENT[:7])
    served.status = 500

    with pytest.raises(DataError, match=r"\(Internal Server Error\); try again to resume at 7 bytes"):
        fetch()

    assert part_of(tmp_path) == CONTENT[:7]


def test_no_network_is_one_sentence(fetch: Callable[..., Path], tmp_path: Path) -> None:
    """No server listens; nothing is left behind."""
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


@pytest.mark.parametrize(("has_length", "progress"), [(True, "[0-2] MiB of 2 MiB"), (False, "[0-2] MiB")])
def test_progress_names_the_file_and_how_far_it_is(
    served: Served,
    fetch: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_length: bool,
    progress: str,
) -> None:
    """At most once a second (here each look at the clock is two seconds later), by default on standard error."""
    seconds = iter(range(0, 10_000, 2))
    monkeypatch.setattr("harness.base.download.time.monotonic", lambda: float(next(seconds)))
    lines: list[str] = []
    served.content, served.has_length = CONTENT * 3, has_length
    options = {"sha256": hashlib.sha256(served.content).hexdigest(), "max_bytes": len(served.content)}

    path = fetch(say=lines.append, **options)
    to_say = capsys.readouterr()
    path.unlink()
    fetch(say=None, **options)
    printed = capsys.readouterr()

    assert (to_say.out, to_say.err, printed.out) == ("", "", "")
    for shown in (lines, printed.err.splitlines()):
        assert shown
        assert all(re.fullmatch(rf"archive\.bin: {progress}", line) for line in shown)


def test_answer_that_is_no_http_is_one_sentence(fetch: Callable[..., Path]) -> None:
    """Another kind of server listens there."""
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
