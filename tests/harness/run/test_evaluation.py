"""The referee's side of an evaluation: a real evaluator process, and who is asked what."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import OutputError, WorkerError
from harness.run.array_stream import ArrayStream
from harness.run.evaluation import EvaluatedWorker, LaunchedEvaluator
from harness.run.plan import Plan, WorkerTimeout
from tests.fabricate import benchmark_rules
from tests.scripted import FakeClock, ScriptedWorker, plan

WAIT_S = 60.0


def nothing() -> None:
    pass


def image_plan(folder: Path) -> Plan:
    """The plan of a run of image classification, whose four test labels are in `folder`."""
    np.save(folder / "test_labels.npy", np.arange(4))
    rules = replace(benchmark_rules(), workload="image_classification")
    return plan(rules, data_dir=folder, labels_dir=folder)


class Session:
    """A worker that predicts `classes` when it is asked to."""

    def __init__(self, classes: list[int]) -> None:
        self.classes = np.array(classes)
        self.asked: list[str] = []
        self.stream: ArrayStream | None = None

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]:
        return []

    def give_data(self, data_dir: Path) -> str:
        return str(data_dir)

    def stop(self, grace_s: float) -> None: ...

    def ask(self, command: Mapping[str, Any], on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        self.asked.append(command["do"])
        if command["do"] == "evaluate":
            assert self.stream is not None
            while self.stream.receive() is not None:
                self.stream.send({"classes": self.classes})
        return {"ok": True}


def test_predictions_of_either_worker_are_scored_and_kept(tmp_path: Path) -> None:
    """Rehearsal and run have a connection each; what is kept is of the last evaluation."""
    with LaunchedEvaluator(image_plan(tmp_path), tmp_path / "output.txt") as evaluator:
        qualities = []
        for number, classes in enumerate(([0, 0, 0, 0], [0, 1, 2, 0])):
            session = Session(classes)
            session.stream = ArrayStream(evaluator.streams[number])
            worker = EvaluatedWorker(session, evaluator, number)
            assert worker.ask({"do": "open"}, nothing, WAIT_S) == {"ok": True}
            answer = worker.ask({"do": "evaluate"}, nothing, WAIT_S)
            qualities.append((answer["ok"], answer["value"], answer["num_examples"]))
            assert session.asked == ["open", "evaluate"]
        kept = worker.ask({"do": "keep", "path": str(tmp_path / "kept.npz")}, nothing, WAIT_S)

    assert qualities == [(True, 0.25, 4), (True, 0.75, 4)]
    assert kept["is_kept"]
    with np.load(tmp_path / "kept.npz") as archive:
        assert archive["classes"].tolist() == [0, 1, 2, 0]


def test_labels_that_are_missing_are_reported_before_anything_runs(tmp_path: Path) -> None:
    """The answer to `open` is the evaluator's refusal, not only the worker's consent."""
    described = image_plan(tmp_path)
    (tmp_path / "test_labels.npy").unlink()
    with LaunchedEvaluator(described, tmp_path / "output.txt") as evaluator:
        worker = EvaluatedWorker(Session([0] * 4), evaluator, 0)
        answer = worker.ask({"do": "open"}, nothing, WAIT_S)

    assert (answer["ok"], answer["kind"]) == (False, "data")
    assert "test_labels.npy is missing; prepare the data first" in answer["message"]


def test_worker_that_fails_while_it_is_evaluated_is_the_reason(tmp_path: Path) -> None:
    """Its own answer counts, whatever the evaluator makes of it."""
    failure = {"ok": False, "kind": "oom", "message": "no room"}
    script = ScriptedWorker(FakeClock(), [0.5], answers={("evaluate", 0): failure})
    with LaunchedEvaluator(image_plan(tmp_path), tmp_path / "output.txt") as evaluator:
        worker = EvaluatedWorker(script, evaluator, 0)
        assert worker.ask({"do": "evaluate"}, nothing, WAIT_S) == failure


@pytest.mark.parametrize("when", ["before", "while"])
def test_evaluator_that_ends_ends_the_run(tmp_path: Path, when: str) -> None:
    """The message has its exit status and where its output is; a signal that kills it is enough."""
    with LaunchedEvaluator(image_plan(tmp_path), tmp_path / "output.txt") as evaluator:
        assert evaluator.opened(nothing, WAIT_S) == {"ok": True}
        os.kill(evaluator._process.pid, signal.SIGKILL)
        if when == "before":
            evaluator._process.wait()
        with pytest.raises(WorkerError, match=rf"the evaluator ended \(exit status -9\); .*{tmp_path}/output\.txt"):
            EvaluatedWorker(Session([0] * 4), evaluator, 0).ask({"do": "keep", "path": "x"}, nothing, WAIT_S)


def test_worker_that_fails_because_the_evaluator_was_killed_is_not_to_blame(tmp_path: Path) -> None:
    """It notices first that nobody takes its predictions."""
    with LaunchedEvaluator(image_plan(tmp_path), tmp_path / "output.txt") as evaluator:
        assert evaluator.opened(nothing, WAIT_S) == {"ok": True}

        def killed() -> dict[str, Any]:
            os.kill(evaluator._process.pid, signal.SIGKILL)
            return {"ok": False, "kind": "crashed", "message": "SocketClosed: the stream"}

        script = ScriptedWorker(FakeClock(), [0.5], answers={("evaluate", 0): killed})
        with pytest.raises(WorkerError, match=r"the evaluator ended \(exit status -9\)"):
            EvaluatedWorker(script, evaluator, 0).ask({"do": "evaluate"}, nothing, WAIT_S)


def test_evaluation_that_takes_too_long_is_a_timeout(tmp_path: Path) -> None:
    """It waits for predictions that do not come; ticks are served meanwhile."""
    ticks: list[int] = []
    with LaunchedEvaluator(image_plan(tmp_path), tmp_path / "output.txt") as evaluator:
        evaluator.opened(nothing, WAIT_S)
        with pytest.raises(WorkerTimeout, match="the evaluator gave no answer within 1 s"):
            EvaluatedWorker(ScriptedWorker(FakeClock(), [0.5]), evaluator, 0).ask(
                {"do": "evaluate"}, lambda: ticks.append(1), 0.6
            )
    assert len(ticks) >= 2


def test_output_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="the evaluator cannot be started"),
        LaunchedEvaluator(image_plan(tmp_path), tmp_path / "nowhere" / "output.txt"),
    ):
        pytest.fail("it was started")
