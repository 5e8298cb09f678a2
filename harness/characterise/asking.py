"""Starts the processes that measure, asks them, and leaves none behind."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.base import signals
from harness.errors import DataError, Interrupted, MissingDependencyError, UsageError, WorkerError, printable
from harness.run.evaluation import EvaluatedWorker, LaunchedEvaluator
from harness.run.isolation import Places, choose
from harness.run.launcher import LaunchedWorker, try_out
from harness.run.plan import Plan
from harness.run.referee import START_LIMIT_S
from harness.run.starter import Place

PROGRAM = "harness.characterise.program"
_LIMIT_S = 3600.0  # for an answer: a step of a large suite on a slow machine takes minutes


class OutOfMemory(WorkerError):  # noqa: N818  (what was asked, and not an error of tta)
    """What was asked for does not fit into the memory; the message is the evidence."""


Ask = Callable[[Mapping[str, Any]], dict[str, Any]]


@contextmanager
def asked(num_devices: int, evaluator: LaunchedEvaluator | None = None) -> Iterator[Ask]:
    """Start a process for each device; yield a function that sends a command and returns the answer.

    evaluator: takes part in the commands `open` and `evaluate`, as in a run.

    The processes are ended afterwards, whatever they do. They are not confined: they run the workload as it is, and no
    result comes of it.

    Raises:
        MissingDependencyError: torch or accelerate is not installed.

    Raises (the function):
        UsageError, DataError: the workload refuses what it was asked for. OutOfMemory: it does not fit.
        Interrupted: by a signal. WorkerError: it failed.
    """
    for library in ("torch", "accelerate"):
        if importlib.util.find_spec(library) is None:
            raise MissingDependencyError(
                f"measuring needs {library!r}, which is not installed: pip install 'tta-harness[train]'"
            )
    with tempfile.TemporaryDirectory(prefix="tta-characterise-") as folder:
        place = Place(num_devices)
        output = Path(folder) / "output.txt"
        isolation = choose("none", Places(Path(folder)), place, try_out)
        stream = None if evaluator is None else evaluator.streams[0]
        launched = LaunchedWorker(place, output, isolation, stream, (PROGRAM,))
        worker = launched if evaluator is None else EvaluatedWorker(launched, evaluator, 0)
        with signals.collected() as seen:

            def tick() -> None:
                if seen:
                    raise Interrupted("interrupted by a signal")

            def ask(command: Mapping[str, Any]) -> dict[str, Any]:
                try:
                    return _checked(worker.ask(command, tick, _LIMIT_S))
                except WorkerError as error:
                    if getattr(error, "reason", None) == "oom":
                        raise OutOfMemory(str(error)) from None
                    raise

            try:
                worker.start(tick, START_LIMIT_S)
                yield ask
            finally:
                worker.stop(0.0)


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("ok") is True:
        return answer
    message = printable(answer.get("message"), 1000)
    errors: dict[object, type[Exception]] = {"usage": UsageError, "data": DataError, "oom": OutOfMemory}
    raise errors.get(answer.get("kind"), WorkerError)(message)


def training(plan: Plan, **more: Any) -> dict[str, Any]:
    """The part of a command that says which session: its configuration, and where its data are."""
    places = {"data_dir": str(plan.data_dir.resolve()), "labels_dir": str(plan.labels_dir.resolve())}
    return {"config": plan.run_config, **places, **more}
