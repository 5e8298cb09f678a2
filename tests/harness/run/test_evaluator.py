"""The evaluator: asks for predictions, judges them as foreign input, and keeps what it judged."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import DataError, WorkerError
from harness.run import evaluator, workloads
from harness.run.array_stream import ArrayStream
from harness.run.evaluator import Service
from harness.workload import Arrays, Quality


class Signs:
    """An evaluator that asks `num_questions` times for the signs of numbers; the quality is the share it got right."""

    num_questions = 1

    def quality(self, predict: Callable[[Arrays], Arrays]) -> Quality:
        numbers = np.array([-2.0, 3.0, -1.0, 5.0])
        answers = [predict({"numbers": numbers + i}) for i in range(self.num_questions)]
        if any(answer.get("signs") is None or answer["signs"].shape != (4,) for answer in answers):
            raise ValueError("expected four signs")
        right = [np.mean(answer["signs"] == np.sign(numbers + i)) for i, answer in enumerate(answers)]
        return Quality(float(np.mean(right)), 4, "signs|v1")


class Toy:
    def evaluator(self, suite: str, data_dir: Path, labels_dir: Path) -> Signs:
        if not labels_dir.is_dir():
            raise DataError(f"{labels_dir} is missing; prepare the data first")
        return Signs()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, ArrayStream]]:
    """A service with one stream, and the worker's end of it."""
    monkeypatch.setattr(workloads, "workload", lambda name: Toy())
    near, far = socket.socketpair()
    service, worker = Service([ArrayStream(near)]), ArrayStream(far)
    yield service, worker
    near.close()
    worker.close()


def opening(tmp_path: Path) -> dict[str, Any]:
    return {"do": "open", "workload": "toy", "suite": "mini", "data_dir": str(tmp_path), "labels_dir": str(tmp_path)}


def answering(worker: ArrayStream, answer: Callable[[Arrays], Arrays]) -> threading.Thread:
    """Answers until it is dismissed, as rank 0 does."""

    def serve() -> None:
        while (asked := worker.receive()) is not None:
            worker.send(answer(asked))

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def signs(asked: Arrays) -> Arrays:
    return {"signs": np.sign(asked["numbers"]).astype(np.int8)}


@pytest.mark.parametrize("num_questions", [1, 3])
def test_quality_and_digest_are_of_what_is_kept(
    ends: tuple[Service, ArrayStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_questions: int
) -> None:
    """The file that is kept has the digest that was reported, and from it follows the same quality."""
    monkeypatch.setattr(Signs, "num_questions", num_questions)
    service, worker = ends
    assert service.answer(opening(tmp_path)) == {}
    thread = answering(worker, lambda asked: {"signs": signs(asked)["signs"] * np.int8([1, 1, 1, -1])})

    answer = service.answer({"do": "evaluate", "stream": 0})
    thread.join(5)
    kept = service.answer({"do": "keep", "path": str(tmp_path / "predictions_0.npz")})

    assert (answer["value"], answer["num_examples"], answer["signature"]) == (0.75, 4, "signs|v1")
    data = (tmp_path / "predictions_0.npz").read_bytes()
    assert kept == {"num_bytes": len(data), "is_kept": True}
    assert answer["predictions"] == hashlib.sha256(data).hexdigest()
    again = Signs().quality(evaluator.replay(tmp_path / "predictions_0.npz"))
    assert again.value == 0.75


def test_predictions_that_are_too_large_are_not_kept(
    ends: tuple[Service, ArrayStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their digest is reported all the same."""
    monkeypatch.setattr(evaluator, "MAX_BYTES", 100)
    service, worker = ends
    service.answer(opening(tmp_path))
    thread = answering(worker, signs)

    answer = service.answer({"do": "evaluate", "stream": 0})
    thread.join(5)

    kept = service.answer({"do": "keep", "path": str(tmp_path / "predictions_0.npz")})
    assert (kept["is_kept"], kept["num_bytes"] > 100) == (False, True)
    assert len(answer["predictions"]) == 64
    assert not (tmp_path / "predictions_0.npz").exists()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda asked: {"signs": np.zeros(3)}, "cannot be evaluated: expected four signs"),
        (lambda asked: {}, "cannot be evaluated: expected four signs"),
        (lambda asked: {"signs": np.array([None] * 4)}, None),
    ],
    ids=["wrong shape", "missing", "objects"],
)
def test_predictions_that_are_none_end_the_run(
    ends: tuple[Service, ArrayStream], tmp_path: Path, answer: Any, why: str | None
) -> None:
    """The message says what was expected; the worker is dismissed, and does not wait for ever."""
    service, worker = ends
    service.answer(opening(tmp_path))
    if why is None:  # the worker's own side refuses to send them, and its run ends with that error
        with pytest.raises(Exception, match="signs as an array of object"):
            worker.send(answer({}))
        return
    thread = answering(worker, answer)

    with pytest.raises(WorkerError, match=why):
        service.answer({"do": "evaluate", "stream": 0})

    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the worker ended while it was evaluated"),
        (b"null\n", "the worker sent nothing as its predictions"),
        (b"hello\n", "something that is not a message"),
        (b'[["signs", "|O8", [4]]]\n', "not described as name, type and shape"),
        (b'[["signs", "<i8", [4]]]\n\0\0', "the worker ended while it was evaluated"),
    ],
)
def test_worker_that_sends_something_else_ends_the_run(
    ends: tuple[Service, ArrayStream], tmp_path: Path, data: bytes, why: str
) -> None:
    """Bytes of any kind, and none."""
    service, worker = ends
    service.answer(opening(tmp_path))
    worker._socket.sendall(data)
    worker._socket.shutdown(socket.SHUT_WR)

    with pytest.raises(WorkerError, match=why):
        service.answer({"do": "evaluate", "stream": 0})


def archive(**arrays: Any) -> bytes:
    data = io.BytesIO()
    np.savez(data, **{name.replace("_", "."): array for name, array in arrays.items()})
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "error", "why"),
    [
        (b"", DataError, "not predictions as they are kept"),
        (b"PK\3\4 and so on", DataError, "not predictions as they are kept"),
        (archive(), ValueError, "more predictions than were kept"),
        (archive(signs=np.zeros(4)), DataError, "not predictions as they are kept"),
        (archive(signs=np.zeros(4), signs_rows=np.array([{}])), DataError, "not predictions as they are kept"),
        (archive(signs=np.zeros(4), signs_rows=np.array(["4"])), DataError, "not predictions as they are kept"),
        (archive(signs=np.array(4), signs_rows=np.array([4])), DataError, "not predictions as they are kept"),
        (archive(signs=np.zeros(4), signs_rows=np.array([], np.int64)), DataError, "rows are not counted"),
        (archive(signs=np.zeros(4), signs_rows=np.array([5, -1])), DataError, "rows are not counted"),
        (archive(signs=np.zeros(4), signs_rows=np.array([5])), DataError, "4 rows, and 5 are counted"),
        (archive(signs=np.zeros(3), signs_rows=np.array([3])), ValueError, "expected four signs"),
    ],
    ids=[
        "empty",
        "no archive",
        "no array",
        "no rows",
        "objects",
        "text",
        "one number",
        "no reply",
        "negative",
        "too many",
        "few",
    ],
)
def test_kept_predictions_are_foreign_input(tmp_path: Path, data: bytes, error: type[Exception], why: str) -> None:
    """A file in a submission may hold anything."""
    (tmp_path / "predictions_0.npz").write_bytes(data)

    with pytest.raises(error, match=why):
        Signs().quality(evaluator.replay(tmp_path / "predictions_0.npz"))


@pytest.mark.parametrize(
    "second", [{}, {"signs": np.zeros(4, np.int8)}, {"signs": np.zeros((2, 2))}], ids=["names", "types", "rows"]
)
def test_replies_that_differ_in_form_are_refused(second: Arrays) -> None:
    """They are kept as one array for each name."""
    replies = iter([{"signs": np.zeros(4)}, second])
    recorder = evaluator.Recorder(lambda _: next(replies))
    recorder({})
    recorder({})

    with pytest.raises(ValueError, match=r"dimensions|the replies do not all have signs as the same type"):
        recorder.archive()


def test_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the archive states is asked for before anything is unpacked."""
    monkeypatch.setattr(evaluator, "MAX_BYTES", 1000)
    with (tmp_path / "predictions_0.npz").open("wb") as file:
        np.savez_compressed(file, signs=np.zeros(100_000))

    with pytest.raises(DataError, match="holds more than 2,000 bytes"):
        evaluator.replay(tmp_path / "predictions_0.npz")


def test_evaluating_again_answers_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quality of each file that was kept, or why there is none."""
    monkeypatch.setattr(workloads, "workload", lambda name: Toy())
    kept = tmp_path / "predictions_0.npz"
    kept.write_bytes(archive(signs=np.array([-1, 1, -1, 1]), signs_rows=np.array([4])))
    place = tmp_path / "command.json"
    place.write_text(json.dumps({**opening(tmp_path), "predictions": [str(kept), str(place)]}))

    assert evaluator.main(["--again", str(place)]) == 0
    place.write_text(json.dumps({**opening(tmp_path / "nowhere"), "predictions": [str(kept)]}))
    assert evaluator.main(["--again", str(place)]) == 0

    opened, first, second, nowhere = map(json.loads, capsys.readouterr().out.splitlines())
    assert opened == {"ok": True}
    assert first == {"ok": True, "value": 1.0, "num_examples": 4, "signature": "signs|v1", "is_played": False}
    assert second["ok"] is nowhere["ok"] is False
    assert "command.json: not predictions as they are kept" in second["message"]
    assert "nowhere is missing" in nowhere["message"]


def sent(worker: ArrayStream, *messages: Arrays) -> None:
    for message in messages:
        worker.send(message)


def weights_of(*pieces: bytes, num_bytes: int | None = None) -> list[Arrays]:
    """What a worker sends of its weights."""
    total = sum(map(len, pieces)) if num_bytes is None else num_bytes
    return [{"num_bytes": np.array([total])}, *({"weights": np.frombuffer(piece, np.uint8)} for piece in pieces)]


def keeping(folder: Path) -> dict[str, Any]:
    place, apart = folder / "weights_0.safetensors", folder / "apart" / "weights_0.safetensors"
    return {"do": "weights", "stream": 0, "path": str(place), "apart": str(apart)}


@pytest.mark.parametrize(("limit", "name"), [(6, "weights_0.safetensors"), (5, "apart/weights_0.safetensors")])
def test_weights_are_kept_as_they_come(
    ends: tuple[Service, ArrayStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, name: str
) -> None:
    """In pieces; those that are too large for a submission are kept apart."""
    monkeypatch.setattr(evaluator, "MAX_WEIGHTS_BYTES", limit)
    service, worker = ends
    sent(worker, *weights_of(b"abcd", b"ef"))

    answer = service.answer(keeping(tmp_path))

    kept = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == [name]
    assert (tmp_path / name).read_bytes() == b"abcdef"
    digest = hashlib.sha256(b"abcdef").hexdigest()
    assert answer == {"num_bytes": 6, "sha256": digest, "is_kept": limit == 6}


@pytest.mark.parametrize(
    "messages",
    [
        [{}],
        [{"num_bytes": np.array([0])}],
        [{"num_bytes": np.array([1 << 40])}],
        [{"num_bytes": np.array([1.0])}],
        weights_of(b"abcd", num_bytes=3),
        [*weights_of(num_bytes=3), {}],
        [*weights_of(num_bytes=3), {"weights": np.zeros(3)}],
        [*weights_of(num_bytes=3), {"weights": np.zeros(0, np.uint8)}],
    ],
    ids=["nothing", "no bytes", "a terabyte", "a float", "too many", "no piece", "floats", "an empty piece"],
)
def test_weights_that_are_none_are_refused(
    ends: tuple[Service, ArrayStream], tmp_path: Path, messages: list[Arrays]
) -> None:
    """Without waiting for more; nothing is left of them."""
    service, worker = ends
    sent(worker, *messages)

    with pytest.raises(WorkerError, match="as its weights"):
        service.answer(keeping(tmp_path))

    assert not list(tmp_path.glob("*.safetensors"))


def test_weights_of_a_worker_that_ends_are_not_kept(tmp_path: Path) -> None:
    near, far = socket.socketpair()
    worker, stream = ArrayStream(far), ArrayStream(near)
    sent(worker, *weights_of(b"ab", num_bytes=4))
    worker.close()

    with pytest.raises(WorkerError, match="ended while it sent its weights"):
        Service([stream]).answer(keeping(tmp_path))

    stream.close()
    assert not list(tmp_path.glob("*.safetensors"))


def test_weights_that_cannot_be_written_are_said(ends: tuple[Service, ArrayStream], tmp_path: Path) -> None:
    """The referee logs why."""
    service, worker = ends
    (tmp_path / "file").write_text("")
    sent(worker, *weights_of(b"abcd"))

    with pytest.raises(WorkerError, match=r"the weights cannot be kept: (Not a directory|File exists)"):
        service.answer(keeping(tmp_path / "file"))
