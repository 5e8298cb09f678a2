"""The referee's side of one node's helper: requests to it, and what it says unasked.

A separate thread listens, so that a beat counts when it arrives, and sends the referee's own. What arrives is not
trusted, though its sender knows the token: an invalid message ends the connection, and with it the run.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from harness.base.greeting import Hello, SealedSocket
from harness.base.json_socket import BadMessage, SocketClosed
from harness.base.values import mapping_or_empty
from harness.errors import UsageError, printable
from harness.launch.protocol import BEAT_S, LATE_S
from harness.run.plan import WorkerLost, WorkerTimeout

TICK_S = 0.1
MAX_ANSWERS = 64


class HelperConnection:
    """One helper, and the thread that listens to it. host: as the helper names its node."""

    def __init__(self, channel: SealedSocket, hello: Hello) -> None:
        self.number = hello.node
        self.host = hello.host
        self.is_lost = False
        self.why_lost = "its helper is gone"
        self.fault: WorkerLost | None = None
        self._channel = channel
        self._sending = threading.Lock()
        self._is_closing = threading.Event()
        self._heard_s = time.monotonic()
        self._last_id = 0
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue(MAX_ANSWERS)
        self._thread = threading.Thread(target=self._listen, name=f"helper of node {self.number}", daemon=True)
        self._thread.start()

    @property
    def place(self) -> str:
        return f"node {self.number} ({printable(self.host)})"

    def ask(
        self, request: Mapping[str, Any], timeout_s: float, on_tick: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Send a request and return the answer; see `send` and `answer`."""
        return self.answer(self.send(request), timeout_s, on_tick)

    def send(self, request: Mapping[str, Any]) -> int:
        """Send a request; return its number, for `answer`.

        Raises:
            WorkerLost: the helper is gone.
        """
        with self._sending:
            self._last_id += 1
            try:
                self._channel.send({**request, "id": self._last_id})
            except SocketClosed:
                self.is_lost = True
                raise self.lost() from None
            return self._last_id

    def answer(self, number: int, timeout_s: float, on_tick: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            UsageError: the helper refuses; the sentence says why. WorkerLost: it is gone. WorkerTimeout: no answer.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                answer = self._answers.get(timeout=TICK_S)
            except queue.Empty:
                if self.is_lost:
                    raise self.lost() from None
                if time.monotonic() >= deadline_s:
                    raise WorkerTimeout(f"{self.place}: no answer within {timeout_s:.0f} s") from None
                on_tick()
                continue
            if answer.get("id") == number:
                if (refusal := answer.get("refusal")) is not None:
                    raise UsageError(f"{self.place}: {printable(refusal, 2000)}")
                return answer

    def found(self) -> WorkerLost | None:
        """Return what is known to be wrong with the node: its ranks have ended, or its helper is gone or silent."""
        silent_s = time.monotonic() - self._heard_s
        if self.fault is None and not self.is_lost and silent_s > LATE_S:
            self.is_lost = True
            self.why_lost = f"nothing was heard from its helper for {silent_s:.0f} s"
        return self.lost() if self.is_lost else self.fault

    def lost(self) -> WorkerLost:
        """Return the exception for a helper that is gone."""
        return WorkerLost(f"{self.place}: {self.why_lost}", is_cause=True, node=self.number)

    def close(self) -> None:
        """Have the helper end its ranks and itself."""
        self._is_closing.set()
        with contextlib.suppress(WorkerLost):
            self.send({"do": "close"})
        self._thread.join(LATE_S)
        self._channel.end()
        self._thread.join(LATE_S)
        self._channel.close()

    def _listen(self) -> None:
        """Listen until the helper is gone, or sends what is not a message."""
        next_beat_s = 0.0
        try:
            while True:
                now_s = time.monotonic()
                if now_s >= next_beat_s and not self._is_closing.is_set():
                    next_beat_s = now_s + BEAT_S
                    with self._sending:
                        self._channel.send({"do": "beat"})
                if (message := self._channel.receive(BEAT_S)) is not None:
                    self._heard_s = time.monotonic()
                    self._take(message)
        except SocketClosed:
            pass
        except BadMessage as error:
            self.why_lost = f"its helper sent {error}"
        except queue.Full:
            self.why_lost = "its helper sends answers that no one asked for"
        self.is_lost = True
        self._channel.end()

    def _take(self, message: dict[str, Any]) -> None:
        if "answer" in message:
            self._answers.put_nowait(mapping_or_empty(message["answer"]))
            return
        beat = mapping_or_empty(message.get("beat"))
        if (fault := beat.get("fault")) is not None and self.fault is None:
            reason = "oom" if beat.get("reason") == "oom" else "crashed"
            is_cause = beat.get("is_cause") is True
            self.fault = WorkerLost(f"{self.place}: {printable(fault, 2000)}", reason, is_cause, self.number)
