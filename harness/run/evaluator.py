"""The evaluation process: has the labels of the test set, asks the session for predictions, and computes the quality.

Started by the referee as `python -m harness.run.evaluator CONTROL STREAM STREAM`, the numbers of inherited sockets:
one for the referee's commands, and one to rank 0 of each of the two workers of a run (rehearsal and run). It trains
nothing, and nothing that trains can reach it: of a worker it sees arrays only.

`python -m harness.run.evaluator --again FILE` computes the quality of predictions that were kept: FILE is a JSON
object with `workload`, `suite`, `data_dir`, `labels_dir` and `predictions`; the answer is JSON on standard output.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.base.json_socket import JsonSocket, SocketClosed
from harness.base.processes import die_with_parent, refuse_tracing
from harness.errors import DataError, TtaError, UsageError, WorkerError, printable
from harness.run import workloads
from harness.run.array_stream import ArrayStream, BadArrays, StreamClosed
from harness.run.loaded import loaded_files
from harness.submission.predictions import MAX_BYTES
from harness.workload import Arrays, Evaluator, Quality


class Recorder:
    """Predictions as they come in, in the form in which they are kept: an npz archive.

    Its arrays are named `<number of the reply>/<name>`; workloads whose evaluator asks once have reply 0 only.
    """

    def __init__(self, predict: Callable[[Arrays], Arrays]) -> None:
        self._predict = predict
        self._replies: list[Arrays] = []

    def __call__(self, inputs: Arrays) -> Arrays:
        self._replies.append(self._predict(inputs))
        return self._replies[-1]

    def archive(self) -> bytes:
        import numpy as np

        archive = io.BytesIO()
        named = {f"{i}/{name}": array for i, reply in enumerate(self._replies) for name, array in reply.items()}
        np.savez(archive, **named)  # type: ignore[arg-type]
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
            replies: dict[str, dict[str, Any]] = {}
            for name in archive.files:
                number, _, part = name.partition("/")
                replies.setdefault(number, {})[part] = archive[name]
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise DataError(f"{printable(path)}: not predictions as they are kept: {printable(error)}") from None

    def numbered() -> Iterator[Arrays]:
        for number in range(len(replies)):
            if (reply := replies.get(str(number))) is None:
                break
            yield reply
        raise ValueError("the evaluator asks for more predictions than were kept")

    left = numbered()
    return lambda _: next(left)


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
        except StreamClosed:
            raise WorkerError("the worker ended while it was evaluated") from None
        except BadArrays as error:
            raise WorkerError(f"the worker sent {error} as its predictions") from None
        except ValueError as error:
            raise WorkerError(f"the predictions cannot be evaluated: {printable(error)}") from None
        finally:
            with contextlib.suppress(StreamClosed):
                stream.dismiss()
        self._archive = recorder.archive()
        return {**_described(quality), "predictions": hashlib.sha256(self._archive).hexdigest()}


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
        quality = _open(command).quality(replay(Path(command["predictions"])))
    except (TtaError, ValueError) as error:
        print(json.dumps({"ok": False, "message": printable(error, 1000)}))
    else:
        print(json.dumps({"ok": True, **_described(quality)}))
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
