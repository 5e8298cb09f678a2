"""The board over HTTP: security headers, fresh pages, local names only; and the command around it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from datetime import date
from pathlib import Path

import pytest

from harness.commands.board import tree as command
from harness.errors import ExitStatus, MissingDependencyError, OutputError, SubmissionError
from tests.harness.board.test_index import board_of, submit

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from starlette.types import ASGIApp, Message

from harness.board import service
from harness.board.site import write_site

ROOT = Path(__file__).parents[3]


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def _ask(app: ASGIApp, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """One request to the application, without a network."""
    sent: list[Message] = []

    requests: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not requests:
            await asyncio.Event().wait()  # the client waits for the response
        return requests.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }
    asyncio.run(app(scope, receive, send))
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


def _application(tree: Path, root: Path, host: str = "127.0.0.1") -> ASGIApp:
    return service.application(tree, root, lambda site: _build(tree, site), host)


def _build(tree: Path, site: Path) -> None:
    write_site(board_of(tree), site, tree)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    submit(tmp_path / "tree")
    return tmp_path / "tree"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_pages_come_with_security_headers(tree: Path, root: Path) -> None:
    """Errors too."""
    app = _application(tree, root)

    for path, status in (("/", 200), ("/results/acme--box1--toy_mini.html", 200), ("/nothing", 404)):
        answer, headers, _ = _ask(app, path)
        assert answer == status
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    assert b"acme" in _ask(app, "/")[2]


def test_other_requests_are_refused(tree: Path, root: Path) -> None:
    """No path leads out, nothing can be written, and on loopback a foreign name that points here is refused."""
    app = _application(tree, root)

    for path in ("/../tree/acme/systems/box1.json", "/%2e%2e/secret", "//etc/passwd", "/\x00"):
        assert _ask(app, path)[0] in (400, 404), path
    assert _ask(app, "/", method="POST")[0] == 405
    assert _ask(app, "/", host="evil.example")[0] == 400
    (root / "2").mkdir()
    assert _ask(_application(tree, root / "2", host="0.0.0.0"), "/", host="board.example")[0] == 200


def test_the_site_follows_the_tree(tree: Path, root: Path) -> None:
    """Checked every few seconds, rebuilt only if something changed; old copies are removed."""
    now, builds = Now(), []

    def build(site: Path) -> None:
        builds.append(site.name)
        _build(tree, site)

    app = service.LiveSite(tree, root, build, now)
    submit(tree, "newcomer", "box2")
    assert b"newcomer" not in _ask(app, "/")[2]

    now.seconds += service.CHECK_EVERY_S
    assert b"newcomer" in _ask(app, "/")[2]
    now.seconds += service.CHECK_EVERY_S
    _ask(app, "/")
    assert builds == ["site-1", "site-2"]

    submit(tree, "third", "box3")
    now.seconds += service.CHECK_EVERY_S
    assert b"third" in _ask(app, "/")[2]
    assert sorted(path.name for path in root.iterdir()) == ["site-2", "site-3"]


def test_a_build_that_fails_keeps_the_site(tree: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The old pages stay, the reason goes to standard error, and the next change triggers another build."""
    now = Now()
    is_broken = False

    def build(site: Path) -> None:
        if is_broken:
            raise OutputError("the disk is full")
        _build(tree, site)

    app = service.LiveSite(tree, root, build, now)
    is_broken = True
    submit(tree, "newcomer", "box2")
    now.seconds += service.CHECK_EVERY_S
    assert b"newcomer" not in _ask(app, "/")[2]
    assert "the disk is full" in capsys.readouterr().err

    is_broken = False
    (tree / "touched").write_text("x")
    now.seconds += service.CHECK_EVERY_S
    assert b"newcomer" in _ask(app, "/")[2]


def test_a_port_in_use_is_an_error(tree: Path) -> None:
    """It names the address, before anything is built."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OutputError, match="cannot listen"):
        service.serve(tree, "127.0.0.1", taken.getsockname()[1], lambda site: None)


def test_without_the_extra_the_command_says_what_to_install(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence instead of an ImportError."""
    monkeypatch.delitem(sys.modules, "harness.board.service")
    monkeypatch.delattr("harness.board.service", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    with pytest.raises(MissingDependencyError, match=r"tta-harness\[board\]"):
        command.serve(tree, "127.0.0.1", 0, "v1")


def test_build_writes_a_site_under_the_real_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty tree and a result of a benchmark that v1 does not have: a page, exit 0, the path on standard output."""
    (tmp_path / "empty").mkdir()
    submit(tmp_path / "tree")

    for name in ("empty", "tree"):
        site = tmp_path / f"site-{name}"
        assert command.build(tmp_path / name, site, "v1", date(2026, 11, 21)) == ExitStatus.OK
        assert capsys.readouterr().out == f"{site / 'index.html'}\n"
    assert "No results yet" in (tmp_path / "site-empty" / "index.html").read_text()
    assert "acme/results/box1/toy_mini" in (tmp_path / "site-tree" / "index.html").read_text()
    with pytest.raises(SubmissionError, match="no such folder"):
        command.build(tmp_path / "nowhere", tmp_path / "site-nowhere", "v1", date(2026, 11, 21))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_answers_and_ends_on_a_signal(tree: Path, tmp_path: Path, number: signal.Signals) -> None:
    """It prints its address, serves, exits with 130 and leaves nothing behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.cli", "board", "serve", str(tree), "--port", "0"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.status == 200
            assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == ExitStatus.INTERRUPTED
    assert "Traceback" not in errors
    assert [path for path in tmp_path.iterdir() if path.name.startswith("tta-board-")] == []
