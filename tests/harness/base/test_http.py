"""The client of interfaces that speak JSON: what it says of each way in which another side can fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.base import http
from harness.base.http import HttpClient, RefusedError, UnreachableError, is_address
from harness.errors import InputError, UsageError

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[HttpClient]:
    """A server that answers every request so, and a client of it that does not wait between attempts."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            answer(self)

        do_GET = do_POST = do_HEAD = do_PATCH = _any

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield HttpClient(f"http://127.0.0.1:{server.server_port}/", sleep=lambda _: None)
        finally:
            server.shutdown()
            thread.join()


def reply(request: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("content-length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def test_what_is_sent_arrives_with_token_and_headers() -> None:
    """As JSON, and the answer comes back as an object."""
    seen = {}

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        seen.update({name.lower(): value for name, value in request.headers.items()}, body=body, path=request.path)
        reply(request, 201, b'{"a": 1}', x_here="yes")

    with answering(answer) as client:
        client.token = "tta_secret"
        assert client.post("api/x", {"b": [2]}, idempotency_key="k") == {"a": 1}
        got = client.request("POST", "y", lambda: b"piece")

    assert got.headers["x-here"] == "yes"
    assert seen["authorization"] == "Bearer tta_secret"
    assert seen["idempotency-key"] == "k"
    assert seen["body"] == b"piece"
    assert "tta_secret" not in repr(client)


def test_a_post_may_have_no_body() -> None:
    """And an answer to GET is an object, too."""
    with answering(lambda request: reply(request, 200, b"{}")) as client:
        assert client.post("x") == {}
        assert client.get("x") == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps({"detail": "the round is closed"}).encode(), "the round is closed (409 Conflict)"),
        (b'{"detail": 3}', "409 Conflict"),
        (b"<html>", "409 Conflict"),
    ],
)
def test_a_refusal_is_said_in_the_words_of_the_other_side(body: bytes, said: str) -> None:
    """Where it has any."""
    with answering(lambda request: reply(request, 409, body)) as client, pytest.raises(RefusedError) as caught:
        client.get("x")

    assert str(caught.value) == f"{client.root}x: {said}"
    assert caught.value.status == 409


def test_who_does_not_answer_is_asked_again() -> None:
    """Busy, and then there; or never, and the last failure is said."""
    statuses = [503, 502, 200]
    with answering(lambda request: reply(request, statuses.pop(0), b"{}")) as client:
        assert client.get("x") == {}
    count = []

    def never(request: BaseHTTPRequestHandler) -> None:
        count.append(1)
        reply(request, 503, b"")

    with answering(never) as client, pytest.raises(UnreachableError, match="503"):
        client.request("GET", "x", retries=2)
    assert len(count) == 3


def test_a_closed_port_and_a_cut_connection_are_one_sentence() -> None:
    """With the address in it."""
    with answering(lambda request: request.connection.close()) as client:
        client.retries = 0
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:\d+/x: "):
            client.get("x")
    with pytest.raises(UnreachableError, match="refused"):
        client.get("x")


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    """Its server was killed between the headers and the end: half of an answer is none."""
    bodies = [b'{"id":', b"", b'{"id": 1}']

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = bodies.pop(0)
        request.send_response(200)
        request.send_header("content-length", "9")
        request.end_headers()
        request.wfile.write(body)

    with answering(answer) as client:
        assert client.get("x") == {"id": 1}
        bodies.append(b"{")
        client.retries = 0
        with pytest.raises(UnreachableError, match=r"/x: the answer broke off; 8 bytes of it are missing"):
            client.get("x")


def test_an_answer_that_is_no_object_or_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is untrusted input."""
    for body, why in ((b"[1]", "not a JSON object"), (b"{", "not JSON")):
        with (
            answering(lambda request, body=body: reply(request, 200, body)) as client,  # type: ignore[misc]
            pytest.raises(InputError, match=why),
        ):
            client.get("x")
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 10)
    with (
        answering(lambda request: reply(request, 200, b"x" * 11)) as client,
        pytest.raises(InputError, match="more than 10 bytes"),
    ):
        client.get("x")


def test_no_redirect_is_followed() -> None:
    """A token must not be carried elsewhere."""
    with (
        answering(lambda request: reply(request, 302, b"", location="http://127.0.0.1:9/")) as client,
        pytest.raises(RefusedError, match="302"),
    ):
        client.get("x")


@pytest.mark.parametrize("root", ["ftp://x/", "http:///", "http://x", "x"])
def test_an_address_that_is_none_is_refused(root: str) -> None:
    """Before anything is sent."""
    with pytest.raises(UsageError, match="http"):
        HttpClient(root)


def test_addresses_are_told_from_paths() -> None:
    """By their beginning alone."""
    assert is_address("https://board/")
    assert is_address("HTTP://board")
    assert not any(map(is_address, ("/shared/http", "http", "s3://x", "")))
