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
    """One end of the connection; every call waits until it is done."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file: BinaryIO = connection.makefile("rb")

    def send(self, arrays: Arrays) -> None:
        """Send one message.

        Raises:
            StreamClosed: the other side is gone. BadArrays: an array has a type that has no place in a message.
        """
        import numpy as np

        header, pieces = [], []
        for name, array in arrays.items():
            kind = array.dtype.newbyteorder("<")
            if kind.str not in _DTYPES:
                raise BadArrays(f"{name} as an array of {array.dtype}, which is neither numbers nor booleans")
            header.append([name, kind.str, list(array.shape)])
            pieces.append(np.ascontiguousarray(array, dtype=kind).tobytes())
        self._send(b"".join([json.dumps(header).encode(), b"\n", *pieces]))

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

        header = self._header()
        if header is None:
            return None
        arrays: dict[str, Any] = {}
        num_bytes = 0
        for name, kind, shape in header:
            size = math.prod(shape) * np.dtype(kind).itemsize
            num_bytes += size
            if num_bytes > MAX_BYTES:
                raise BadArrays(f"arrays of more than {MAX_BYTES:,} bytes")
            arrays[name] = np.frombuffer(self._read(size), dtype=kind).reshape(shape)
        return arrays

    def _header(self) -> list[tuple[str, str, list[int]]] | None:
        try:
            line = self._file.readline(_MAX_HEADER_BYTES)
        except OSError as error:
            raise StreamClosed(f"the connection broke: {error.strerror}") from None
        if not line:
            raise StreamClosed("the connection was closed")
        try:
            header = json.loads(line)
        except (ValueError, RecursionError):
            raise BadArrays("something that is not a message of arrays") from None
        if header is None:
            return None
        if not isinstance(header, list) or not all(map(_is_described, header)):
            raise BadArrays("arrays that are not described as name, type and shape")
        if len({name for name, _, _ in header}) < len(header):
            raise BadArrays("two arrays of the same name")
        return [(name, kind, shape) for name, kind, shape in header]

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


def _is_described(entry: object) -> bool:
    """Whether an entry of the header is the name, type and shape of an array."""
    match entry:
        case [str(), str(kind), list(shape)]:
            is_shape = all(type(length) is int and 0 <= length <= MAX_BYTES for length in shape)
            return kind in _DTYPES and is_shape and len(shape) <= _MAX_DIMENSIONS
    return False
