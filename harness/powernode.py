"""One node's power agent as the referee sees it: what it is asked, and the log that what it says goes into.

A thread of its own listens, so that a reading is on its way to the disk when it comes. What comes was not written by
us: a message that is none ends the line, and the log stops there.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from harness import powerlines
from harness.clock import MonotonicClock
from harness.errors import OutputError, TtaError, printable
from harness.power import ClockOffset, MeterSpec, Sample

MAX_MESSAGE_BYTES = 1 << 20
ANSWER_S = 10.0
NUM_ROUND_TRIPS = 8
MAX_METERS = 256


@dataclass(slots=True)
class _Writing:
    """The open log of one run. `last`: the latest two samples of each meter, for the live display."""

    stream: IO[str]
    clock: MonotonicClock
    seq: dict[str, int] = field(default_factory=dict)
    last: dict[str, list[Sample]] = field(default_factory=dict)
    offset_ns: int = 0


class PowerNode:
    """One agent, and the thread that listens to it."""

    def __init__(self, connection: socket.socket, stream: IO[bytes], hello: Mapping[str, Any]) -> None:
        self.number: int = hello["node"]
        self.host = printable(hello.get("host") or "unknown", 200)
        self.machine = hello.get("machine") if isinstance(hello.get("machine"), str) else None
        self.specs: dict[str, MeterSpec] = {}
        self.reasons: dict[str, str] = {}
        self.is_lost = False
        self._connection = connection
        self._stream = stream
        self._answers: queue.SimpleQueue[tuple[str, Any, int]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._writing: _Writing | None = None
        self._thread = threading.Thread(target=self._listen, name=f"power of node {self.number}", daemon=True)
        self._thread.start()

    def open(self, meters: Sequence[str], system: Mapping[str, Any]) -> None:
        """Has the agent open its meters.

        Raises:
            TtaError: it gives no answer, or one that declares meters wrongly.
        """
        self._send({"do": "open", "meters": list(meters), "system": dict(system)})
        answer = self._answer("opened")
        if answer is None:
            raise TtaError(f"the power agent of node {self.number} ({self.host}) gave no answer")
        try:
            specs = [powerlines.spec_of(item) for item in answer[0]["meters"][:MAX_METERS]]
            reasons = dict(answer[0]["reasons"])
        except (ValueError, TypeError, KeyError) as error:
            raise TtaError(
                f"the power agent of node {self.number} ({self.host}) declares a meter wrongly: {printable(error, 200)}"
            ) from None
        self.specs = {spec.id: spec for spec in specs}
        self.reasons = {printable(name): printable(reason, 300) for name, reason in reasons.items()}

    def begin(self, path: Path, clock: MonotonicClock, run_id: str, period_s: float | None) -> None:
        """Opens the log and starts the readings.

        Raises:
            OutputError: the log cannot be written.
        """
        try:
            stream = path.open("x", encoding="utf-8", buffering=1)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
        writing = _Writing(stream, clock)
        now_ms = clock.time_ms(clock.elapsed_ns())
        stream.write(
            powerlines.opening_line(now_ms, node=path.stem, host=self.host, machine=self.machine, run_id=run_id)
        )
        for spec in self.specs.values():
            stream.write(powerlines.meter_line(now_ms, spec))
        with self._lock:
            self._writing = writing
        offset = self.compare_clocks()
        began_ns = clock.origin_ns + clock.elapsed_ns() + (offset.offset_ns if offset else 0)
        with self._lock:
            stream.write(powerlines.start_line(now_ms, began_ns))
        self._send({"do": "start", "period_s": period_s})

    def compare_clocks(self) -> ClockOffset | None:
        """The node's clock against the referee's, from the quickest of some round trips; written into the log."""
        writing = self._writing
        if writing is None:
            return None
        best: ClockOffset | None = None
        for number in range(NUM_ROUND_TRIPS):
            asked_ns = writing.clock.origin_ns + writing.clock.elapsed_ns()
            self._send({"do": "clock", "id": number})
            answer = self._answer("clock", number)
            if answer is None:
                return None
            theirs_ns, arrived_ns = int(answer[0]["mono_ns"]), answer[1]
            ours_ns = (asked_ns + arrived_ns) // 2
            offset = ClockOffset(theirs_ns, theirs_ns - ours_ns, arrived_ns - asked_ns)
            if best is None or offset.round_trip_ns < best.round_trip_ns:
                best = offset
        assert best is not None
        with self._lock:
            writing.offset_ns = best.offset_ns
            writing.stream.write(powerlines.clock_offset_line(self._time_ms(writing, best.mono_ns), best))
        return best

    def end(self) -> None:
        """Has the agent read once more, and closes the log. An agent that gives no answer leaves it without a stop."""
        self.compare_clocks()
        self._send({"do": "stop"})
        answer = self._answer("stopped")
        with self._lock:
            writing, self._writing = self._writing, None
        if writing is None:
            return
        if answer is not None:
            stopped_ns, cpu_s = int(answer[0]["mono_ns"]), float(answer[0]["cpu_s"])
            at_ms = self._time_ms(writing, stopped_ns)
            writing.stream.write(powerlines.sampler_line(at_ms, stopped_ns, cpu_s))
            writing.stream.write(powerlines.stop_line(at_ms, stopped_ns))
        with contextlib.suppress(OSError):
            os.fsync(writing.stream.fileno())
        writing.stream.close()

    def watts(self) -> float | None:
        """What the node draws now, as far as it is metered: its own sensors if it has them, else its components."""
        with self._lock:
            last = {} if self._writing is None else {name: list(two) for name, two in self._writing.last.items()}
        found: dict[str, dict[str, float]] = {}
        for meter_id, samples in last.items():
            watts = _watts(self.specs[meter_id], samples)
            if watts is not None:
                spec = self.specs[meter_id]
                of_device = found.setdefault("node" if spec.component in ("node", "pdu") else "parts", {})
                of_device.setdefault(spec.device or spec.id, watts)  # a counter and its sampled power are one device
        chosen = found.get("node") or found.get("parts")
        return None if not chosen else sum(chosen.values())

    def close(self) -> None:
        """Lets the agent go."""
        self._send({"do": "close"})
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(ANSWER_S)
        self._stream.close()
        self._connection.close()
        with self._lock:
            if self._writing is not None:
                self._writing.stream.close()
                self._writing = None

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.is_lost = True

    def _answer(self, kind: str, number: int | None = None) -> tuple[Any, int] | None:
        """The next answer of that kind, and when it came (the referee's monotonic nanoseconds); None if none comes."""
        deadline = time.monotonic() + ANSWER_S
        while not self.is_lost or not self._answers.empty():
            try:
                got, answer, at_ns = self._answers.get(timeout=max(0.0, min(0.2, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    return None
                continue
            if got == kind and (number is None or answer.get("clock") == number):
                return answer, at_ns
        return None

    def _listen(self) -> None:
        """Until the agent is gone. What it sends was not written by us: a message that is none ends it."""
        while True:
            try:
                line = self._stream.readline(MAX_MESSAGE_BYTES)
                at_ns = time.clock_gettime_ns(MonotonicClock.clock_id())
                if not line.endswith(b"\n"):
                    break
                self._take(json.loads(line), at_ns)
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                break
        self.is_lost = True

    def _take(self, message: Mapping[str, Any], at_ns: int) -> None:
        if "samples" in message:
            for meter_id, mono_ns, value in message["samples"]:
                self._write(str(meter_id), Sample(int(mono_ns), powerlines.number_of(value)))
        elif "clock" in message:
            self._answers.put(("clock", message, at_ns))
        else:
            for kind in ("opened", "stopped"):
                if kind in message:
                    self._answers.put((kind, message[kind], at_ns))

    def _write(self, meter_id: str, sample: Sample) -> None:
        spec = self.specs[meter_id]
        with self._lock:
            writing = self._writing
            if writing is None:
                return
            seq = writing.seq.get(meter_id, 0)
            writing.seq[meter_id] = seq + 1
            writing.stream.write(powerlines.reading_line(self._time_ms(writing, sample.mono_ns), spec, sample, seq))
            if sample.value is not None:
                writing.last[meter_id] = [*writing.last.get(meter_id, [])[-1:], sample]

    @staticmethod
    def _time_ms(writing: _Writing, mono_ns: int) -> int:
        return writing.clock.time_ms(mono_ns - writing.offset_ns - writing.clock.origin_ns)


def _watts(spec: MeterSpec, samples: Sequence[Sample]) -> float | None:
    last = samples[-1]
    if spec.kind == "power_w":
        return last.value
    if len(samples) < 2 or last.value is None or samples[0].value is None or last.mono_ns <= samples[0].mono_ns:
        return None
    joules = last.value - samples[0].value
    return joules / (last.mono_ns - samples[0].mono_ns) * 1e9 if joules >= 0 else None
