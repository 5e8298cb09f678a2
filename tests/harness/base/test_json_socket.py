"""One JSON object per line over a socket: whole messages, bounded in size and in time."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from harness.base.json_socket import MAX_MESSAGE_BYTES, BadMessage, JsonSocket, SocketClosed


@pytest.fixture
def ends() -> Iterator[tuple[JsonSocket, socket.socket]]:
    """One end, and the bare socket at the other."""
    left, right = socket.socketpair()
    channel = JsonSocket(left)
    yield channel, right
    channel.close()
    right.close()


def test_message_arrives_as_it_was_sent() -> None:
    """Text that is not ASCII, and more than a socket's buffer holds."""
    worker, referee = map(JsonSocket, socket.socketpair())
    message = {"do": "é\n\u2028", "n": [1, 2.5, None, True], "big": "x" * 1_000_000}

    sender = threading.Thread(target=worker.send, args=(message,))
    sender.start()
    received = referee.receive(10.0)
    sender.join()

    assert received == message
    worker.close()
    referee.close()


def test_two_messages_in_one_piece_are_two(ends: tuple[JsonSocket, socket.socket]) -> None:
    """Nothing is lost or joined."""
    channel, peer = ends
    peer.sendall(b'{"a": 1}\n{"b": 2}\n{"c"')

    assert channel.receive(1.0) == {"a": 1}
    assert channel.receive(1.0) == {"b": 2}
    assert channel.receive(0.0) is None
    peer.sendall(b": 3}\n")
    assert channel.receive(1.0) == {"c": 3}


def test_a_byte_now_and_then_does_not_extend_the_timeout(ends: tuple[JsonSocket, socket.socket]) -> None:
    """The timeout is for the whole message; otherwise a slow peer could disable every limit."""
    channel, peer = ends
    is_over = threading.Event()

    def drip() -> None:
        while not is_over.wait(0.01):
            peer.sendall(b"x")

    dripper = threading.Thread(target=drip)
    dripper.start()
    begin = time.monotonic()
    answer = channel.receive(0.1)
    elapsed_s = time.monotonic() - begin
    is_over.set()
    dripper.join()

    assert answer is None
    assert elapsed_s < 5.0


@pytest.mark.parametrize(
    "line", [b"", b"x", b"[]", b"5", b"null", b'"x"', b"\xff", b"{", b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}"]
)
def test_a_line_that_is_not_a_message_is_refused(ends: tuple[JsonSocket, socket.socket], line: bytes) -> None:
    """Untrusted input is read as JSON objects and as nothing else."""
    channel, peer = ends
    peer.sendall(line + b"\n")

    with pytest.raises(BadMessage, match="not a message"):
        channel.receive(1.0)


def test_message_without_an_end_does_not_fill_the_memory(ends: tuple[JsonSocket, socket.socket]) -> None:
    """More than 4 MiB without a line feed is an error."""
    channel, peer = ends

    def flood() -> None:
        try:
            peer.sendall(b"x" * (2 * MAX_MESSAGE_BYTES))
        except OSError:
            return

    sender = threading.Thread(target=flood)
    sender.start()
    with pytest.raises(BadMessage, match="more than"):
        channel.receive(10.0)
    channel.close()
    sender.join()


def test_the_end_is_reported_after_the_last_message(ends: tuple[JsonSocket, socket.socket]) -> None:
    """What was sent before the other side closed is still read; half a message is not."""
    channel, peer = ends
    peer.sendall(b'{"a": 1}\n{"b":')
    peer.close()

    assert channel.receive(1.0) == {"a": 1}
    with pytest.raises(SocketClosed):
        channel.receive(1.0)


def test_sending_without_a_reader_is_a_closed_socket(ends: tuple[JsonSocket, socket.socket]) -> None:
    """Not a signal, not an OSError."""
    channel, peer = ends
    peer.close()

    with pytest.raises(SocketClosed):
        channel.send({"x": "y" * 10_000_000})


def test_sending_after_close_is_a_closed_socket(ends: tuple[JsonSocket, socket.socket]) -> None:
    channel, _ = ends
    channel.close()

    with pytest.raises(SocketClosed, match="Bad file descriptor"):
        channel.send({})


def test_nan_is_received(ends: tuple[JsonSocket, socket.socket]) -> None:
    """A loss of NaN is an answer, and the referee ends the run as diverged."""
    channel, peer = ends
    peer.sendall(json.dumps({"mean_loss": float("nan")}).encode() + b"\n")

    answer = channel.receive(1.0)

    assert answer is not None
    assert answer["mean_loss"] != answer["mean_loss"]


def test_a_peer_that_closes_without_reading_is_a_closed_socket(ends: tuple[JsonSocket, socket.socket]) -> None:
    """A peer killed with a message unread: the system reports a reset, the caller gets the usual error."""
    channel, peer = ends
    channel.send({"do": "train"})
    peer.close()

    with pytest.raises(SocketClosed, match="the connection broke: Connection reset by peer"):
        channel.receive(1.0)


class Fickle(socket.socket):
    """A socket whose first bytes are announced but missing, as `select` permits (select(2), "Bugs")."""

    is_first = True

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        if self.is_first:
            self.is_first = False
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return super().recv(bufsize, flags)


def test_message_whose_bytes_are_announced_too_early_is_received() -> None:
    """The socket waits for them."""
    left, right = socket.socketpair()
    channel = JsonSocket(Fickle(fileno=left.detach()))
    right.sendall(b'{"a": 1}\n')

    assert channel.receive(1.0) == {"a": 1}
    channel.close()
    right.close()


def test_a_peer_that_reads_nothing_is_a_closed_socket_in_time() -> None:
    """Sending is limited where the caller says so; receiving is not affected by it."""
    left, right = socket.socketpair()
    channel = JsonSocket(left, max_bytes=100, send_s=0.1)
    right.sendall(b'{"a": 1}\n')

    began = time.monotonic()
    with pytest.raises(SocketClosed, match="timed out"):
        channel.send({"x": "y" * 10_000_000})
    assert time.monotonic() - began < 5
    assert channel.receive(0.0) == {"a": 1}
    right.sendall(b"x" * 101)
    with pytest.raises(BadMessage, match="more than 100 bytes"):
        channel.receive(1.0)
    channel.close()
    right.close()


def test_end_wakes_a_receiver_in_another_thread(ends: tuple[JsonSocket, socket.socket]) -> None:
    """Closing would pull the selector away under it."""
    channel, _ = ends
    seen: list[str] = []

    def receive() -> None:
        try:
            channel.receive(None)
        except SocketClosed as closed:
            seen.append(str(closed))

    receiver = threading.Thread(target=receive)
    receiver.start()
    channel.end()
    receiver.join(10.0)
    channel.end()  # a second time there is nothing to end

    assert seen == ["the connection was closed"]
