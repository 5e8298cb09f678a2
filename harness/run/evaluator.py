"""The evaluation process: has the labels of the test set, asks the session for predictions, and computes the quality.

Started by the referee as `python -m harness.run.evaluator CONTROL STREAM STREAM`, the numbers of inherited sockets:
one for the referee's commands, and one to rank 0 of each of the two workers of a run (rehearsal and run). It trains
nothing, and nothing that trains can reach it: of a worker it sees arrays only.

`python -m harness.run.evaluator --again FILE` computes the quality of predictions that were kept: FILE is a JSON
object with `workload`, `suite`, `data_dir`, `labels_dir` and the list `predictions` of files. The answers are lines of
JSON on standard output: whether the evaluator could be opened, then one for each file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.base.json_socket import JsonSocket, SocketClosed
from harness.base.processes import die_with_parent, refuse_tracing
from harness.errors import DataError, TtaError, UsageError, WorkerError, printable
from harness.run import workloads
from harness.run.array_stream import ArrayStream, BadArrays, StreamClosed
from harness.run.loaded import loaded_files
from harness.submission.predictions import MAX_BYTES
from harness.submission.weights import MAX_APART_BYTES
from harness.submission.weights import MAX_BYTES as MAX_WEIGHTS_BYTES
from harness.workload import Arrays, Evaluator, Quality

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Recorder:
    """Predictions as they come in, in the form in which they are kept: an npz archive.

    It has an array for each name, the replies one after the other, and in `<name>.rows` how many rows each reply has.
    A workload whose evaluator asks once has one reply.
    """

    def __init__(self, predict: Callable[[Arrays], Arrays]) -> None:
        self._predict = predict
        self._replies: list[Arrays] = []

    def __call__(self, inputs: Arrays) -> Arrays:
        self._replies.append(self._predict(inputs))
        return self._replies[-1]

    @property
    def num_replies(self) -> int:
        return len(self._replies)

    def archive(self) -> bytes:
        """Return the archive.

        Raises:
            ValueError: the replies have different names, or their arrays different types or shapes of a row.
        """
        import numpy as np

        kept: dict[str, Any] = {}
        for name in self._replies[0]:
            arrays = [np.atleast_1d(reply[name]) for reply in self._replies if name in reply]
            if len(arrays) < len(self._replies) or len({array.dtype for array in arrays}) > 1:
                raise ValueError(f"the replies do not all have {name} as the same type")
            kept[name] = np.concatenate(arrays)
            kept[f"{name}.rows"] = np.array([len(array) for array in arrays])
        archive = io.BytesIO()
        np.savez(archive, **kept)
        return archive.getvalue()


def replay(path: Path) -> Callable[[Arrays], Arrays]:
    """Return what answers an evaluator with the predictions kept at `path`, one reply after the other.

    Raises:
        DataError: they cannot be read. ValueError: on a call for which there is no reply.
    """
    import zipfile

    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if sum(entry.file_size for entry in archive.zip.infolist()) > 2 * MAX_BYTES:
                raise DataError(f"{printable(path)}: holds more than {2 * MAX_BYTES:,} bytes")
            names = [name for name in archive.files if not name.endswith(".rows")]
            replies = {name: _parts(archive[name], archive[f"{name}.rows"]) for name in names}
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise DataError(f"{printable(path)}: not predictions as they are kept: {printable(error)}") from None
    left = iter(zip(*replies.values(), strict=False))

    def reply(_: Arrays) -> Arrays:
        if (arrays := next(left, None)) is None:
            raise ValueError("the evaluator asks for more predictions than were kept")
        return dict(zip(names, arrays, strict=True))

    return reply


def _parts(array: npt.NDArray[np.generic], rows: npt.NDArray[np.generic]) -> list[npt.NDArray[np.generic]]:
    """Return the replies that an array was put together from; raises ValueError if there are none such."""
    import numpy as np

    if array.ndim == 0 or rows.ndim != 1 or rows.dtype != np.int64 or min(rows, default=-1) < 0:
        raise ValueError("rows are not counted")
    edges = np.cumsum(rows)
    if edges[-1] != len(array):
        raise ValueError(f"there are {len(array):,} rows, and {edges[-1]:,} are counted")
    return np.split(array, edges[:-1])


class Service:
    """Answers the referee's commands."""

    def __init__(self, streams: list[ArrayStream]) -> None:
        self._streams = streams
        self._evaluator: Evaluator | None = None
        self._archive = b""

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command.

        Raises:
            WorkerError: the predictions cannot be used. UsageError, DataError: what the workload says of its data.
        """
        match command["do"]:
            case "open":
                self._evaluator = _open(command)
                return {}
            case "evaluate":
                return self._evaluate(self._streams[int(command["stream"])])
            case "keep":
                if is_kept := len(self._archive) <= MAX_BYTES:
                    Path(command["path"]).write_bytes(self._archive)
                return {"num_bytes": len(self._archive), "is_kept": is_kept}
            case "weights":
                return self._keep_weights(self._streams[int(command["stream"])], command)
            case "loaded_by_evaluator":
                return {"files": loaded_files()}
            case other:
                raise WorkerError(f"unknown command {other!r}")

    def _evaluate(self, stream: ArrayStream) -> dict[str, Any]:
        assert self._evaluator is not None

        def predict(inputs: Arrays) -> Arrays:
            stream.send(inputs)
            if (reply := stream.receive()) is None:
                raise BadArrays("nothing")
            return reply

        recorder = Recorder(predict)
        try:
            quality = self._evaluator.quality(recorder)
            self._archive = recorder.archive()
        except StreamClosed:
            raise WorkerError("the worker ended while it was evaluated") from None
        except BadArrays as error:
            raise WorkerError(f"the worker sent {error} as its predictions") from None
        except ValueError as error:
            raise WorkerError(f"the predictions cannot be evaluated: {printable(error)}") from None
        finally:
            with contextlib.suppress(StreamClosed):
                stream.dismiss()
        digest = hashlib.sha256(self._archive).hexdigest()
        return {**_described(quality), "predictions": digest, "is_played": recorder.num_replies > 1}

    def _keep_weights(self, stream: ArrayStream, command: dict[str, Any]) -> dict[str, Any]:
        """Write the weights that the worker sends to `path`, or, those too large for a submission, to `apart`."""
        path: Path | None = None
        try:
            num_bytes = _whole(stream.receive())
            is_kept = num_bytes <= MAX_WEIGHTS_BYTES
            path = Path(command["path" if is_kept else "apart"])
            path.parent.mkdir(parents=True, exist_ok=True)
            digest = _write_pieces(stream, path, num_bytes)
        except (StreamClosed, BadArrays, ValueError, OSError) as error:
            if path is not None:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            if isinstance(error, StreamClosed):
                raise WorkerError("the worker ended while it sent its weights") from None
            if isinstance(error, OSError):
                raise WorkerError(f"{path}: the weights cannot be kept: {error.strerror}") from None
            raise WorkerError(f"the worker sent {error} as its weights") from None
        return {"num_bytes": num_bytes, "sha256": digest, "is_kept": is_kept}


def _whole(message: dict[str, npt.NDArray[np.generic]] | None) -> int:
    """Return the number of bytes that a message announces; raises ValueError if it is none that weights have."""
    array = (message or {}).get("num_bytes")
    if array is None or array.dtype != "i8" or array.shape != (1,) or not 0 < array.item() <= MAX_APART_BYTES:
        raise ValueError("no number of bytes")
    return int(array.item())


def _write_pieces(stream: ArrayStream, path: Path, num_bytes: int) -> str:
    """Write what comes in to a file until it has `num_bytes`; return its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while file.tell() < num_bytes:
            piece = (stream.receive() or {}).get("weights")
            if piece is None or piece.dtype != "u1" or not 0 < piece.size <= num_bytes - file.tell():
                raise ValueError("something other than their bytes")
            data = piece.tobytes()
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def _described(quality: Quality) -> dict[str, Any]:
    return {"value": quality.value, "num_examples": quality.num_examples, "signature": quality.signature}


def _open(command: dict[str, Any]) -> Evaluator:
    workload = workloads.workload(command["workload"])
    return workload.evaluator(command["suite"], Path(command["data_dir"]), Path(command["labels_dir"]))


def serve(channel: JsonSocket, service: Service) -> None:
    """Answer commands until the referee closes the connection."""
    while True:
        command = channel.receive(timeout_s=None)
        assert command is not None
        try:
            answer = {"ok": True, **service.answer(command)}
        except TtaError as error:
            kind = "usage" if isinstance(error, UsageError) else "data" if isinstance(error, DataError) else "crashed"
            answer = {"ok": False, "kind": kind, "message": str(error)}
        channel.send(answer)


def again(place: Path) -> int:
    """Print the quality of predictions that were kept."""
    command = json.loads(place.read_bytes())
    try:
        evaluator = _open(command)
    except (TtaError, ImportError) as error:
        print(json.dumps({"ok": False, "message": printable(error, 1000)}))
        return 0
    print(json.dumps({"ok": True}), flush=True)
    for path in command["predictions"]:
        num_replies = 0
        try:
            recorder = Recorder(replay(Path(path)))
            try:
                answer = {"ok": True, **_described(evaluator.quality(recorder))}
            finally:
                num_replies = recorder.num_replies
        except (TtaError, ValueError) as error:
            answer = {"ok": False, "message": printable(error, 1000)}
        print(json.dumps({**answer, "is_played": num_replies > 1}), flush=True)
    return 0


def main(arguments: list[str]) -> int:
    """Serve the referee, or evaluate kept predictions again."""
    if arguments[0] == "--again":
        return again(Path(arguments[1]))
    die_with_parent()
    refuse_tracing()  # it has the labels
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the referee decides what an interrupt means
    control, *streams = (socket.socket(fileno=int(number)) for number in arguments)
    with contextlib.suppress(SocketClosed):
        serve(JsonSocket(control), Service([ArrayStream(stream) for stream in streams]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
