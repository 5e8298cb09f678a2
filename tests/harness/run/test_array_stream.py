"""Arrays over a socket: what is sent arrives exactly, and nothing else is taken for arrays."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from harness.run import array_stream
from harness.run.array_stream import ArrayStream, BadArrays, StreamClosed

KINDS = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
DTYPES = st.builds(lambda order, kind: np.dtype(order + kind), st.sampled_from("<>"), st.sampled_from(KINDS))
ARRAYS = arrays_of.arrays(DTYPES, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
VIEWS = st.sampled_from(
    [lambda array: array, lambda array: array.T, lambda array: array[::-1] if array.ndim else array]
)


@pytest.fixture
def ends() -> Iterator[tuple[ArrayStream, ArrayStream]]:
    near, far = (ArrayStream(end) for end in socket.socketpair())
    yield near, far
    near.close()
    far.close()


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, ArrayStream]]:
    """A socket whose other end is read as a stream."""
    near, far = socket.socketpair()
    stream = ArrayStream(far)
    yield near, stream
    near.close()
    stream.close()


@settings(deadline=None)
@given(st.lists(st.tuples(st.dictionaries(NAMES, ARRAYS, max_size=3), VIEWS), min_size=1, max_size=3))
@example([({}, lambda array: array)])
def test_arrays_arrive_as_they_were_sent(messages: list[tuple[dict[str, Any], Any]]) -> None:
    """Of every type, byte order, shape and layout, 0-d and empty ones included, one message after another.

    Bit for bit, so that NaNs have their payload.
    """
    near, far = (ArrayStream(end) for end in socket.socketpair())
    for arrays, view in messages:
        sent = {name: view(array) for name, array in arrays.items()}

        near.send(sent)
        found = far.receive()

        assert found is not None
        assert list(found) == list(sent)
        for name, array in sent.items():
            little = array.astype(array.dtype.newbyteorder("<"))
            assert (found[name].dtype, found[name].shape) == (little.dtype, array.shape)
            assert found[name].tobytes() == little.tobytes()
            assert not found[name].flags.writeable
    near.close()
    far.close()


def test_messages_alike_but_for_one_thing_are_not_confused(ends: tuple[ArrayStream, ArrayStream]) -> None:
    """Each end remembers the last header: another name, type, shape or order of the arrays must be noticed."""
    near, far = ends
    zeros = np.zeros((2, 3), np.int32)
    for sent in (
        {"a": zeros, "b": zeros},
        {"a": zeros, "b": zeros + 1},
        {"b": zeros, "a": zeros + 2},
        {"b": zeros, "a": zeros.astype(np.float32) + 3},
        {"b": zeros, "a": zeros.reshape(3, 2).astype(np.float32) + 4},
        {"b": zeros},
        {},
        {"b": zeros.astype(">i4") + 5},
        {"b": zeros + 6},
    ):
        near.send(sent)

        found = far.receive()

        assert found is not None
        assert [(name, array.tolist()) for name, array in found.items()] == [
            (name, array.tolist()) for name, array in sent.items()
        ]


def test_message_larger_than_the_sockets_buffer(ends: tuple[ArrayStream, ArrayStream]) -> None:
    """Both sides wait until it is through."""
    near, far = ends
    sent = np.arange(2_000_000, dtype=np.int64)
    thread = threading.Thread(target=near.send, args=({"numbers": sent},))
    thread.start()

    found = far.receive()

    thread.join(10)
    assert found is not None
    assert np.array_equal(found["numbers"], sent)


def test_dismissal_is_not_a_message(ends: tuple[ArrayStream, ArrayStream]) -> None:
    """No more questions, which differs from a question without arrays; the next evaluation may follow."""
    near, far = ends

    near.dismiss()
    near.send({})
    near.dismiss()

    assert [far.receive() for _ in range(3)] == [None, {}, None]


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.array([1j]),
        np.array(["2026-11-22"], "M8[D]"),
        np.zeros(1, [("a", np.int8)]),
        np.zeros(1, np.longdouble),
    ],
    ids=lambda array: str(array.dtype),
)
def test_types_that_have_no_place_in_a_message_are_refused(
    ends: tuple[ArrayStream, ArrayStream], array: np.ndarray
) -> None:
    """Nothing of the message is sent, and the stream can still be used."""
    near, far = ends
    good = {"a": np.ones(2)}
    near.send(good)

    with pytest.raises(BadArrays, match=r"b as an array of .*, which is neither numbers nor booleans"):
        near.send({**good, "b": array})
    near.send(good)

    assert [len(far.receive() or {}) for _ in range(2)] == [1, 1]


def described(*entries: Any) -> bytes:
    return json.dumps(entries).encode() + b"\n"


HOSTILE = {
    "text": (b"hello\n", "not a message"),
    "not UTF-8": (b"\xff\xfe[]\n", "not a message"),
    "deep": (b"[" * 60_000 + b"\n", "not a message"),
    "endless line": (b"[" + b" " * (1 << 17), "not a message"),
    "endless number": (b'[["a", "<i8", [' + b"9" * 5000 + b"]]]\n", "not a message"),
    "an object": (b'{"a": 1}\n', "not described"),
    "a number": (b"3\n", "not described"),
    "null with a space": (b"null \n", "not described"),
    "an entry too short": (described(["a", "<i8"]), "not described"),
    "an entry too long": (described(["a", "<i8", [1], 1]), "not described"),
    "a name that is a number": (described([1, "<i8", [1]]), "not described"),
    "a name that is a path": (described(["../a", "<i8", [1]]), "not described"),
    "a name without letters": (described(["", "<i8", [1]]), "not described"),
    "a name that cannot be encoded": (described(["\ud800", "<i8", [1]]), "not described"),
    "objects": (described(["a", "|O", [1]]), "not described"),
    "big-endian": (described(["a", ">i8", [1]]), "not described"),
    "a structure": (described(["a", "i8,i8", [1]]), "not described"),
    "a type that is a list": (described(["a", [["b", "<i8"]], [1]]), "not described"),
    "a shape that is a number": (described(["a", "<i8", 1]), "not described"),
    "a length below 0": (described(["a", "<i8", [-1]]), "not described"),
    "a length that is a fraction": (described(["a", "<i8", [1.0]]), "not described"),
    "a length that is a boolean": (described(["a", "<i8", [True]]), "not described"),
    "a length that is not a number": (b'[["a", "<i8", [NaN]]]\n', "not described"),
    "nine dimensions": (described(["a", "<i8", [1] * 9]), "not described"),
    "a name twice": (described(["a", "<i8", [1]], ["a", "<i4", [1]]), "two arrays of the same name"),
    "oversize": (described(["a", "|u1", [1 << 30, 2]]), "more than 1,073,741,824 bytes"),
    "oversize together": (described(["a", "|u1", [1 << 29]], ["b", "|u1", [(1 << 29) + 1]]), "more than"),
    "oversize around nothing": (described(["a", "|u1", [0, 1 << 30, 1 << 30, 1 << 30]]), "more than"),
}


@pytest.mark.parametrize(("data", "expected"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers_are_refused(raw: tuple[socket.socket, ArrayStream], data: bytes, expected: str) -> None:
    """Before any array is read: what the header announces is never allocated."""
    near, stream = raw
    thread = threading.Thread(target=near.sendall, args=(data,))
    thread.start()

    with pytest.raises(BadArrays, match=expected):
        stream.receive()

    stream.close()
    thread.join(10)


def test_a_message_of_exactly_the_limit_is_accepted(
    ends: tuple[ArrayStream, ArrayStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte more is not."""
    monkeypatch.setattr(array_stream, "MAX_BYTES", 16)
    near, far = ends

    near.send({"a": np.zeros(1), "b": np.zeros((2, 2), np.int16)})
    assert far.receive() is not None
    near.send({"a": np.zeros(1), "b": np.zeros(9, np.int8)})
    with pytest.raises(BadArrays, match="more than 16 bytes"):
        far.receive()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "was closed$"),
        (b'[["a", "<i8"', "in the middle of a header"),
        (b"null", "in the middle of a header"),
        (described(["a", "<i8", [2]]) + bytes(15), "in the middle of an array"),
        (described(["a", "<i8", [2]], ["b", "|b1", [1]]) + bytes(16), "in the middle of an array"),
    ],
)
def test_connection_closed_in_the_middle(raw: tuple[socket.socket, ArrayStream], data: bytes, expected: str) -> None:
    """At every stage of a message the same event, and never part of a message."""
    near, stream = raw
    near.sendall(data)
    near.close()

    with pytest.raises(StreamClosed, match=expected):
        stream.receive()


def test_other_side_is_gone(ends: tuple[ArrayStream, ArrayStream]) -> None:
    """Sending, dismissing and receiving say so."""
    near, far = ends
    far.close()

    for call in (lambda: near.send({"a": np.zeros(3)}), near.dismiss, near.receive):
        with pytest.raises(StreamClosed):
            call()


@pytest.mark.parametrize("data", [b"", described(["a", "<i8", [2]]) + bytes(8)], ids=["at once", "in an array"])
def test_broken_connection_is_a_closed_one(raw: tuple[socket.socket, ArrayStream], data: bytes) -> None:
    """A reset, which the other side causes by closing with data that it has not read."""
    near, stream = raw
    stream.send({"a": np.zeros(3)})
    near.sendall(data)
    near.close()

    with pytest.raises(StreamClosed, match="the connection broke: Connection reset by peer"):
        stream.receive()


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200) | st.builds(lambda header, rest: header + rest, st.sampled_from(
    [described(["a", "<i8", [2]]), described(["a", "|b1", []], ["b", "<f2", [0, 3]]), b"null\n", b"[]\n"]
), st.binary(max_size=40)))  # fmt: skip
def test_any_bytes_are_a_message_or_one_of_two_events(data: bytes) -> None:
    """No other exception, and no more than was sent."""
    near, far = socket.socketpair()
    stream = ArrayStream(far)
    near.sendall(data)
    near.close()

    with contextlib.suppress(StreamClosed, BadArrays):
        while (found := stream.receive()) is not None:
            assert sum(array.nbytes for array in found.values()) <= len(data)
    stream.close()
