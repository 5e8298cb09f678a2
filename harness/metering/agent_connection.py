"""The referee's side of one node's power agent: requests to it, and the power log that its readings go into.

A separate thread listens, so that a reading goes to disk as soon as it arrives. What arrives is not trusted, though its
sender knows the token: an invalid message, or too much of them, ends the connection, and the log stops there.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from harness.base.clock import Clock, MonotonicClock
from harness.base.greeting import Hello, SealedSocket, Service
from harness.base.json_socket import BadMessage, SocketClosed
from harness.base.values import bounded_number, is_whole
from harness.errors import OutputError, TtaError, printable
from harness.log import power_format
from harness.log.power_format import ClockOffset, MeterSpec, Sample
from harness.log.power_log import MAX_SAMPLES

POWER = Service("power", 3, "TTA_POWER_TOKEN", "agent")
MAX_BYTES_PER_S = 1 << 20  # 256 meters at 50 Hz need less
BURST_BYTES = 8 << 20
OPEN_S = 60.0  # a controller that hangs takes 5 s, and an accelerator's library may take longer to load
ROUND_TRIP_S = 2.0
ANSWER_S = 10.0
NUM_ROUND_TRIPS = 8
MAX_METERS = 256
MAX_ANSWERS = 64  # that wait to be read; there is one for each request


@dataclass(slots=True)
class _Writing:
    """The open log of one run. `last`: the latest two samples of each meter, for the live display."""

    stream: IO[str]
    clock: Clock
    seq: dict[str, int] = field(default_factory=dict)
    last: dict[str, list[Sample]] = field(default_factory=dict)
    offset_ns: int = 0
    num_samples: int = 0


class AgentConnection:
    """One agent, and the thread that listens to it.

    specs, reasons: what it can read, and why not the rest. is_lost: it is gone for good. fault: why the log of this run
    is incomplete.
    """

    def __init__(self, channel: SealedSocket, hello: Hello) -> None:
        self.number = hello.node
        self.host = hello.host
        self.machine = hello.machine
        self.specs: dict[str, MeterSpec] = {}
        self.reasons: dict[str, str] = {}
        self.is_lost = False
        self.fault: str | None = None
        self._last_id = 0
        self._stop_id: int | None = None
        self._channel = channel
        self._answers: queue.Queue[tuple[str, Any, int]] = queue.Queue(MAX_ANSWERS)
        self._lock = threading.Lock()
        self._writing: _Writing | None = None
        self._thread = threading.Thread(target=self._listen, name=f"power of node {self.number}", daemon=True)
        self._thread.start()

    @property
    def place(self) -> str:
        return f"node {self.number} ({self.host})"

    @property
    def why_not(self) -> str:
        """Why requested meters are unavailable."""
        why = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        return printable(why, 4000) or "has no meter"

    def ask_open(self, meters: Sequence[str], sources: Sequence[Mapping[str, Any]], system: Mapping[str, Any]) -> None:
        """Have the agent open its meters; `opened` waits for it."""
        self._send({"do": "open", "meters": list(meters), "sources": list(sources), "system": dict(system)})

    def opened(self) -> None:
        """Wait for the agent's `specs` and `reasons`.

        Raises:
            TtaError: it gives no answer, or declares a meter incorrectly.
        """
        if (answer := self._answer("opened", None, OPEN_S)) is None:
            raise TtaError(f"the power agent of {self.place} did not answer")
        try:
            specs = [power_format.spec_of(item) for item in answer[0]["meters"][:MAX_METERS]]
            reasons = dict(list(answer[0]["reasons"].items())[:MAX_METERS])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            why = printable(error, 200)
            raise TtaError(f"the power agent of {self.place} declares a meter incorrectly: {why}") from None
        self.specs = {spec.id: spec for spec in specs}
        self.reasons = {printable(name): printable(reason, 500) for name, reason in reasons.items()}

    def begin(self, path: Path, clock: Clock, run_id: str, period_s: float | None) -> None:
        """Open the log and start the readings.

        Raises:
            OutputError: the log cannot be written.
        """
        self.fault, now_ms = None, clock.time_ms(clock.elapsed_ns())
        lines = [power_format.opening_line(now_ms, node=path.stem, host=self.host, machine=self.machine, run_id=run_id)]
        specs = (replace(spec, period_s=period_s or spec.period_s) for spec in self.specs.values())
        lines += (power_format.meter_line(now_ms, spec) for spec in specs)
        try:
            with contextlib.ExitStack() as undo:
                stream = undo.enter_context(path.open("x", encoding="utf-8", buffering=1))
                stream.writelines(lines)
                undo.pop_all()
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
        with self._lock:
            self._writing = _Writing(stream, clock)
        offset = self.compare_clocks()
        began_ns = clock.origin_ns + clock.elapsed_ns() + (offset.offset_ns if offset else 0)
        with self._lock:
            self._put(power_format.start_line(clock.time_ms(clock.elapsed_ns()), began_ns))
        self._send({"do": "start", "period_s": period_s})

    @property
    def is_reading(self) -> bool:
        """Whether every meter has a reading since `begin`, or none will come."""
        writing = self._writing
        return self.is_lost or writing is None or all(meter in writing.seq for meter in self.specs)

    def compare_clocks(self) -> ClockOffset | None:
        """Measure the node's clock against the referee's by the fastest of some round trips, and log the offset."""
        writing = self._writing
        if writing is None:
            return None
        best: ClockOffset | None = None
        for _ in range(NUM_ROUND_TRIPS):
            sent_ns = writing.clock.origin_ns + writing.clock.elapsed_ns()
            answer = self._answer("clock", self._send({"do": "clock"}), ROUND_TRIP_S)
            if answer is None:
                break
            theirs_ns, arrived_ns = answer[0]["mono_ns"], answer[1]
            own_ns = (sent_ns + arrived_ns) // 2
            offset = ClockOffset(theirs_ns, theirs_ns - own_ns, arrived_ns - sent_ns)
            if best is None or offset.round_trip_ns < best.round_trip_ns:
                best = offset
        if best is not None:
            with self._lock:
                writing.offset_ns = best.offset_ns
                self._put(power_format.clock_offset_line(self._time_ms(writing, best.mono_ns), best))
        return best

    def ask_stop(self) -> None:
        """Have the agent read once more; `stopped` waits for it."""
        self._stop_id = None if self._writing is None else self._send({"do": "stop"})

    def stopped(self) -> None:
        """Close the log. If the agent does not answer, the log has no stop."""
        answer = None if self._stop_id is None else self._answer("stopped", self._stop_id, ANSWER_S)
        with self._lock:
            writing = self._writing
            if writing is None:
                return
            if answer is not None:
                stopped_ns, cpu_s = answer[0]["mono_ns"], answer[0]["cpu_s"]
                at_ms = self._time_ms(writing, stopped_ns)
                self._put(power_format.sampler_line(at_ms, stopped_ns, cpu_s))
                self._put(power_format.stop_line(at_ms, stopped_ns))
            elif self.fault is None:
                self.fault = "its agent is gone" if self.is_lost else "its agent does not answer"
            self._close_log()

    def watts(self) -> float | None:
        """What the node draws now, as far as it is metered: by its own sensors, else by its components."""
        with self._lock:
            last = (
                {}
                if self._writing is None or self.is_lost
                else {name: list(two) for name, two in self._writing.last.items()}
            )
        found: dict[str, dict[str, float]] = {}
        for meter_id, samples in last.items():
            watts = _watts(self.specs[meter_id], samples)
            if watts is not None:
                spec = self.specs[meter_id]
                of_device = found.setdefault("node" if spec.component in ("node", "pdu") else "parts", {})
                of_device.setdefault(spec.device or spec.id, watts)  # a counter and sampled power of one device
        chosen = found.get("node") or found.get("parts")
        return None if not chosen else sum(chosen.values())

    def close(self) -> None:
        """Close the agent and the log."""
        self._send({"do": "close"})
        self._channel.end()
        self._thread.join(ANSWER_S)
        self._channel.close()
        with self._lock:
            self._close_log()

    def _send(self, message: Mapping[str, Any]) -> int:
        """Send a request with a new id, which its answer will have; return the id."""
        self._last_id += 1
        try:
            self._channel.send({**message, "id": self._last_id})
        except SocketClosed:
            self.is_lost = True
        return self._last_id

    def _answer(self, kind: str, number: int | None, timeout_s: float) -> tuple[Any, int] | None:
        """The answer to that request, and its arrival on the referee's monotonic clock, in ns; None if none arrives."""
        deadline = time.monotonic() + timeout_s
        while not self.is_lost or not self._answers.empty():
            try:
                got, answer, at_ns = self._answers.get(timeout=max(0.0, min(0.2, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    return None
                continue
            if got == kind and (number is None or answer["id"] == number):
                return answer, at_ns
        return None

    def _listen(self) -> None:
        """Listen until the agent is gone, or sends an invalid message or too much."""
        began_s = time.monotonic()
        while True:
            try:
                message = self._channel.receive(None)
                at_ns = time.clock_gettime_ns(MonotonicClock.clock_id())
                if self._channel.num_bytes > BURST_BYTES + MAX_BYTES_PER_S * (time.monotonic() - began_s):
                    self._refuse(f"its agent sends more than {MAX_BYTES_PER_S:,} bytes a second")
                    break
                self._take(message or {}, at_ns)
            except queue.Full:
                self._refuse("its agent sends answers that no one asked for")
                break
            except (SocketClosed, BadMessage, ValueError, KeyError, TypeError):
                break
        self.is_lost = True
        self._channel.end()

    def _refuse(self, fault: str) -> None:
        with self._lock:
            self.fault = self.fault or fault

    def _take(self, message: Mapping[str, Any], at_ns: int) -> None:
        if "samples" in message:
            for meter_id, mono_ns, value in message["samples"]:
                self._write(str(meter_id), Sample(_nanoseconds(mono_ns), bounded_number(value)))
            return
        for kind in ("opened", "clock", "stopped"):
            if kind in message:
                answer = dict(message[kind])
                if kind != "opened":
                    answer["mono_ns"] = _nanoseconds(answer["mono_ns"])
                if kind == "stopped":
                    answer["cpu_s"] = max(0.0, bounded_number(answer["cpu_s"]) or 0.0)
                self._answers.put_nowait((kind, {"id": None, **answer}, at_ns))

    def _write(self, meter_id: str, sample: Sample) -> None:
        spec = self.specs[meter_id]
        with self._lock:
            writing = self._writing
            if writing is None:
                return
            writing.num_samples += 1
            if writing.num_samples > MAX_SAMPLES:
                self.fault = self.fault or f"its agent sent more readings than a log may have ({MAX_SAMPLES:,})"
                return
            writing.seq[meter_id] = 1 + (seq := writing.seq.get(meter_id, 0))
            if sample.value is not None:
                writing.last[meter_id] = [*writing.last.get(meter_id, [])[-1:], sample]
            self._put(power_format.reading_line(self._time_ms(writing, sample.mono_ns), spec, sample, seq))

    def _put(self, line: str) -> None:
        """Write a line if the log is open and intact; a full disk ends the log, and nothing else."""
        writing = self._writing
        if writing is None or self.fault is not None:
            return
        try:
            writing.stream.write(line)
        except OSError as error:
            self.fault = f"its log cannot be written: {error.strerror}"

    def _close_log(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            with contextlib.suppress(OSError):
                writing.stream.flush()
                os.fsync(writing.stream.fileno())
            with contextlib.suppress(OSError):
                writing.stream.close()

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


def _nanoseconds(value: object) -> int:
    if not is_whole(value) or not 0 <= value < 1 << 63:
        raise ValueError("not a time")
    return value
