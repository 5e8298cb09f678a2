"""The referee's side of an evaluation: the process that has the labels, and a worker whose predictions go to it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.base.json_socket import JsonSocket, SocketClosed
from harness.base.processes import die_with_parent, isolated_python
from harness.errors import OutputError
from harness.run.environment import passed_on
from harness.run.launcher import TICK_S
from harness.run.plan import Plan, Worker, WorkerLost, WorkerTimeout

GONE_S = 0.5  # how long the end of the evaluator may take to be seen, once a worker has failed
NUM_STREAMS = 2  # to the worker of the rehearsal, and to that of the run


class LaunchedEvaluator:
    """The evaluator's process, from `with` to the end of it; what it prints goes to the file `output`.

    streams: for each worker of the run, the socket that its rank 0 must inherit.

    Raises:
        OutputError: the process cannot be started, or its output cannot be written.
    """

    def __init__(self, plan: Plan, output: Path) -> None:
        self._plan, self._output = plan, output
        self._opened: dict[str, Any] | None = None
        self.streams: list[socket.socket] = []

    def __enter__(self) -> LaunchedEvaluator:
        with contextlib.ExitStack() as inherited:
            ours, theirs = zip(*(socket.socketpair() for _ in range(1 + NUM_STREAMS)), strict=True)
            for end in theirs:
                inherited.enter_context(end)
            control, *self.streams = ours
            numbers = [end.fileno() for end in theirs]
            try:
                with self._output.open("ab") as output:
                    self._process = subprocess.Popen(
                        isolated_python("harness.run.evaluator", *map(str, numbers)),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env={**passed_on(os.environ), "HOME": os.environ.get("HOME", "/")},
                        pass_fds=numbers,
                        start_new_session=True,  # Ctrl-C is for the referee
                        preexec_fn=die_with_parent,
                    )
            except OSError as error:
                for end in ours:
                    end.close()
                raise OutputError(f"{self._output}: the evaluator cannot be started: {error.strerror}") from None
        self._channel = JsonSocket(control)
        plan = self._plan
        self.tell(
            {
                "do": "open",
                "workload": plan.rules.workload,
                "suite": plan.rules.suite,
                "data_dir": str(plan.data_dir),
                "labels_dir": str(plan.labels_dir),
            }
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._channel.close()
        for stream in self.streams:
            stream.close()

    def tell(self, command: Mapping[str, Any]) -> None:
        """Send a command without waiting for the answer."""
        try:
            self._channel.send(command)
        except SocketClosed:
            raise self._lost() from None

    def wait(self, on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        """Return the answer to the oldest command that has none yet.

        Raises:
            WorkerLost: the process has ended. WorkerTimeout: no answer within `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            remaining_s = deadline - time.monotonic()
            try:
                answer = self._channel.receive(max(0.0, min(TICK_S, remaining_s)))
            except SocketClosed:
                raise self._lost() from None
            if answer is not None:
                return answer
            on_tick()
            if remaining_s <= 0:
                raise WorkerTimeout(f"the evaluator gave no answer within {timeout_s:.0f} s")

    def opened(self, on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        """Return whether the evaluator could be opened: the answer to the first command of all."""
        if self._opened is None:
            self._opened = self.wait(on_tick, timeout_s)
        return self._opened

    def refuse_if_gone(self) -> None:
        """Raises:
        WorkerLost: the process has ended, from which the failure of a worker may follow.
        """
        try:
            self._channel.receive(GONE_S)
        except SocketClosed:
            raise self._lost() from None

    def _lost(self) -> WorkerLost:
        return WorkerLost(f"the evaluator ended (exit status {self._process.wait()}); its output is in {self._output}")


class EvaluatedWorker:
    """A worker whose predictions go to the evaluator, by the stream of that number."""

    def __init__(self, worker: Worker, evaluator: LaunchedEvaluator, stream: int) -> None:
        self._worker, self._evaluator, self._stream = worker, evaluator, stream
        self.start, self.give_data, self.stop = worker.start, worker.give_data, worker.stop

    @property
    def isolation(self) -> Mapping[str, Any]:
        """What confines the worker."""
        return self._worker.isolation

    def ask(self, command: Mapping[str, Any], on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        """Send a command to those whom it concerns and return the answer; see `Worker`."""
        deadline = time.monotonic() + timeout_s
        match command["do"]:
            case "keep" | "loaded_by_evaluator":
                self._evaluator.tell(command)
            case "evaluate":
                self._evaluator.tell({**command, "stream": self._stream})
                answer = self._worker.ask(command, on_tick, timeout_s)
                if answer.get("ok") is not True:
                    self._evaluator.refuse_if_gone()
                    return answer
            case "weights":
                self._evaluator.tell({**command, "stream": self._stream})
                answer = self._worker.ask(command, on_tick, timeout_s)
                if answer.get("ok") is not True:
                    return answer
            case "open":
                answer = self._worker.ask(command, on_tick, timeout_s)
                opened = self._evaluator.opened(on_tick, max(0.0, deadline - time.monotonic()))
                return answer if opened["ok"] else opened
            case _:
                return self._worker.ask(command, on_tick, timeout_s)
        return self._evaluator.wait(on_tick, max(0.0, deadline - time.monotonic()))
