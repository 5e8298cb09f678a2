"""Numpy arrays over a socket, between the session of rank 0 and the evaluator. Neither side trusts the other's bytes.

A message is a line of JSON, `[[name, dtype, shape], ...]`, followed by the bytes of the arrays in that order. Where the
evaluator has no more questions, it sends the line `null`.
"""

from __future__ import annotations

import json
import math
import socket
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.errors import TtaError

if TYPE_CHECKING:
    import numpy as np

    from harness.workload import Arrays

MAX_BYTES = 1 << 30  # of a message's arrays together
_MAX_HEADER_BYTES = 1 << 16
_MAX_DIMENSIONS = 8
_DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}


class StreamClosed(TtaError):  # noqa: N818  (an event, not necessarily an error)
    """The other side is gone."""


class BadArrays(TtaError):  # noqa: N818
    """The other side sent something other than arrays: what it sent, as a clause."""


class ArrayStream:
    """One end of the connection; every call waits until it is done.

    An evaluation in an environment is hundreds of small messages that differ in their values only, so the last header
    is remembered in both directions: describing and checking it is half of what a round trip costs.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file: BinaryIO = connection.makefile("rb")
        self._sent: tuple[list[tuple[str, np.dtype[Any], tuple[int, ...]]], bytes] = [], b"[]\n"
        self._received: tuple[bytes, list[tuple[str, np.dtype[Any], tuple[int, ...], int]]] = b"[]\n", []

    def send(self, arrays: Arrays) -> None:
        """Send one message.

        Raises:
            StreamClosed: the other side is gone. BadArrays: an array has a type that has no place in a message.
        """
        described = [(name, array.dtype, array.shape) for name, array in arrays.items()]
        if described != self._sent[0]:
            self._sent = described, _header_line(described)
        # tobytes copies in C order, whatever the order in memory; a dtype of the other byte order is converted first.
        pieces = [array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in arrays.values()]
        self._send(b"".join([self._sent[1], *pieces]))

    def dismiss(self) -> None:
        """Send that there are no more questions.

        Raises:
            StreamClosed: the other side is gone.
        """
        self._send(b"null\n")

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise StreamClosed(f"the connection broke: {error.strerror}") from None

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message and return its arrays, which cannot be written to; None: no more questions.

        Raises:
            StreamClosed: the other side is gone. BadArrays: it sent something else.
        """
        import numpy as np

        try:
            line = self._file.readline(_MAX_HEADER_BYTES)
        except OSError as error:
            raise StreamClosed(f"the connection broke: {error.strerror}") from None
        if not line:
            raise StreamClosed("the connection was closed")
        if line == b"null\n":
            return None
        if line != self._received[0]:
            if not line.endswith(b"\n") and len(line) < _MAX_HEADER_BYTES:
                raise StreamClosed("the connection was closed in the middle of a header")
            self._received = line, _parsed(line)
        return {
            name: np.frombuffer(self._read(size), dtype).reshape(shape)
            for name, dtype, shape, size in self._received[1]
        }

    def _read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise StreamClosed(f"the connection broke: {error.strerror}") from None
        if len(data) < size:
            raise StreamClosed("the connection was closed in the middle of an array")
        return data

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _header_line(described: list[tuple[str, np.dtype[Any], tuple[int, ...]]]) -> bytes:
    header = []
    for name, dtype, shape in described:
        kind = dtype.newbyteorder("<").str
        if kind not in _DTYPES:
            raise BadArrays(f"{name} as an array of {dtype}, which is neither numbers nor booleans")
        header.append([name, kind, shape])
    return json.dumps(header).encode() + b"\n"


def _parsed(line: bytes) -> list[tuple[str, np.dtype[Any], tuple[int, ...], int]]:
    """Return the name, type, shape and size in bytes of every array that a header announces."""
    import numpy as np

    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise BadArrays("something that is not a message of arrays") from None
    if not isinstance(header, list) or not all(map(_is_described, header)):
        raise BadArrays("arrays that are not described as name, type and shape")
    if len({name for name, _, _ in header}) < len(header):
        raise BadArrays("two arrays of the same name")
    # A length of 0 counts as 1, so that no array without elements has lengths that numpy cannot multiply.
    if (
        sum(math.prod(length or 1 for length in shape) * np.dtype(kind).itemsize for _, kind, shape in header)
        > MAX_BYTES
    ):
        raise BadArrays(f"arrays of more than {MAX_BYTES:,} bytes")
    return [
        (name, np.dtype(kind), tuple(shape), math.prod(shape) * np.dtype(kind).itemsize) for name, kind, shape in header
    ]


def _is_described(entry: object) -> bool:
    """Whether an entry of the header is the name, type and shape of an array."""
    match entry:
        case [str(name), str(kind), list(shape)]:
            is_shape = all(type(length) is int and 0 <= length <= MAX_BYTES for length in shape)
            is_name = name.isascii() and name.isidentifier()  # names are part of file names in an archive
            return kind in _DTYPES and is_shape and is_name and len(shape) <= _MAX_DIMENSIONS
    return False
