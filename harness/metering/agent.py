"""The power agent: one process per node that reads the node's meters on a monotonic schedule and sends the readings.

The referee starts it on its own node; on every other node, start it along with the workers:

    TTA_POWER_TOKEN=... tta agent --connect HOST:PORT --node 1

There is one thread per meter, since a meter that hangs (management controllers do) must not open a gap in another's
readings. A reading is stamped with this node's monotonic clock, half-way between request and answer, and sent at once;
nothing is kept here, so a lost agent loses its last quarter of a second and no more. The clocks of the nodes are
compared by round trips that the referee requests.

Messages, after both sides have proved that they know the token (`harness.base.greeting`). From the referee: open
{meters, sources, system}, clock {id}, start {period_s}, stop, close. To it: opened {meters, reasons}, clock {id,
mono_ns}, samples [[meter id, mono_ns, value], ...], stopped {id, cpu_s, mono_ns}. An answer has the id of its request.

`sources`: meters that are reached over a network, as in `harness.metering.sources`. Which hosts are asked, and which
variables are used as passwords, is decided here and not by the referee: a source is opened only if the agent was given
the very same one. The agent of the referee's own node is its child and opens what it is asked to.
"""

from __future__ import annotations

import dataclasses
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from harness.base.greeting import SealedSocket, serve_referee
from harness.base.json_socket import SocketClosed
from harness.base.values import bounded_number, is_number
from harness.errors import RulesError, TtaError, UsageError, WorkerError, printable
from harness.log.power_format import Sample
from harness.metering.agent_connection import POWER
from harness.metering.catalog import Meter, open_meter, open_source
from harness.metering.sources import LocalSource, Source, source_of

SEND_EVERY_S = 0.25
JOIN_S = 6.0  # a reading in progress may take as long as the time limit of its program
MAX_REQUESTED = 64  # meters and sources, each
SHORTEST_S, LONGEST_S = 0.01, 3600.0  # a period
_CLOCK = getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC)

Put = Callable[[str, Sample], None]


def mono_ns() -> int:
    """This node's monotonic time in nanoseconds, from the same clock as `harness.base.clock`."""
    return time.clock_gettime_ns(_CLOCK)


class MeterLoop:
    """Reads one meter every period until it is ended, then once more."""

    def __init__(self, meter: Meter, put: Put, period_s: float | None = None) -> None:
        self._meter = meter
        self._put = put
        self._period_ns = round((period_s or meter.period_s) * 1e9)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"meter {meter.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Wake it for its last reading."""
        self._is_over.set()

    def wait(self, deadline_s: float) -> None:
        """Wait until it has read for the last time, at most until `deadline_s` of `time.monotonic`."""
        self._thread.join(max(0.0, deadline_s - time.monotonic()))

    def _loop(self) -> None:
        next_ns = mono_ns()
        while True:
            self._read()
            if self._is_over.is_set():
                return
            # A reading longer than a period skips turns: no burst to catch up, and no drift.
            now_ns = mono_ns()
            next_ns += self._period_ns * max(1, -(-(now_ns - next_ns) // self._period_ns))
            if self._is_over.wait(max(0.0, (next_ns - now_ns) / 1e9)):
                self._read()
                return

    def _read(self) -> None:
        asked_ns = mono_ns()
        values = self._meter.read()
        at_ns = (asked_ns + mono_ns()) // 2
        for meter_id, value in values.items():
            self._put(meter_id, Sample(at_ns, value))


class Agent:
    """Serves one referee over `channel`. permitted: the sources that it may have opened; None: any."""

    def __init__(self, channel: SealedSocket, permitted: Collection[Source] | None) -> None:
        self._channel = channel
        self._permitted = permitted
        self._is_open = False
        self._meters: list[Meter] = []
        self._loops: list[MeterLoop] = []
        self._samples: queue.SimpleQueue[tuple[str, Sample]] = queue.SimpleQueue()
        self._cpu_s = 0.0

    def serve(self) -> bool:
        """Serve until the referee closes or is gone; return whether it sent any command.

        Raises:
            BadMessage, WorkerError: it sends something that is not a message, or not a request.
        """
        has_command = False
        try:
            while True:
                command = self._channel.receive(SEND_EVERY_S if self._loops else None)
                has_command = has_command or command is not None
                if command is not None and not self._obey(command):
                    return has_command
                self._send_samples()
        except SocketClosed:
            return has_command
        finally:
            self._stop_loops()
            for meter in self._meters:
                meter.close()

    def _obey(self, command: Mapping[str, Any]) -> bool:
        match command.get("do"):
            case "clock":
                self._channel.send({"clock": {"id": command.get("id"), "mono_ns": mono_ns()}})
            case "open" if not self._is_open:
                self._open(command.get("meters"), command.get("sources"), command.get("system"))
            case "start" if not self._loops:
                self._cpu_s = time.process_time()
                period_s = _period_s(command.get("period_s"))
                self._loops = [MeterLoop(meter, self._put, period_s) for meter in self._meters]
                for loop in self._loops:
                    loop.start()
            case "stop":
                self._stop_loops()
                self._send_samples()
                cpu_s = time.process_time() - self._cpu_s
                self._channel.send({"stopped": {"id": command.get("id"), "cpu_s": cpu_s, "mono_ns": mono_ns()}})
            case "close":
                return False
            case other:
                raise WorkerError(f"a request that is unknown, or out of place: {printable(other)}")
        return True

    def _open(self, names: object, sources: object, system: object) -> None:
        self._is_open = True
        reasons: dict[str, str] = {}
        if not (_is_list_of(str, names) and _is_list_of(dict, sources) and isinstance(system, dict)):
            names, sources, system = [], [], {}
            reasons["request"] = f"must be at most {MAX_REQUESTED} meters and as many sources, and a system description"
        assert isinstance(names, list)
        assert isinstance(sources, list)
        assert isinstance(system, dict)
        system = {key: value for key, value in system.items() if isinstance(value, str) or is_number(value)}
        wanted: list[tuple[str, Callable[[], Meter]]] = [(name, partial(open_meter, name, system)) for name in names]
        for number, content in enumerate(sources):
            try:
                source = source_of(content, "a source of power")
            except (RulesError, UsageError) as error:
                reasons[f"sources[{number}]"] = str(error)
                continue
            if self._is_permitted(source):
                wanted.append((source.name, partial(open_source, source, system, os.environ)))
            else:
                reasons[source.name] = "this node's agent does not permit it: its own --meter gives no such meter"
        for name, make in wanted:
            try:
                meter = make()
            except UsageError as error:
                reasons[name] = str(error)
                continue
            reason = meter.probe()
            if reason is None:
                self._meters.append(meter)
            else:
                meter.close()
                reasons[name] = reason
        specs = [dataclasses.asdict(spec) for meter in self._meters for spec in meter.specs()]
        self._channel.send({"opened": {"meters": specs, "reasons": reasons}})

    def _is_permitted(self, source: Source) -> bool:
        return isinstance(source, LocalSource) or self._permitted is None or source in self._permitted

    def _put(self, meter_id: str, sample: Sample) -> None:
        self._samples.put((meter_id, sample))

    def _send_samples(self) -> None:
        batch = []
        while not self._samples.empty():  # only this thread takes from it
            meter_id, sample = self._samples.get()
            batch.append([meter_id, sample.mono_ns, sample.value])
        if batch:
            self._channel.send({"samples": batch})

    def _stop_loops(self) -> None:
        for loop in self._loops:
            loop.end()
        deadline_s = time.monotonic() + JOIN_S
        for loop in self._loops:
            loop.wait(deadline_s)
        self._loops = []


def _is_list_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_REQUESTED and all(isinstance(item, kind) for item in value)


def _period_s(value: object) -> float | None:
    period_s = bounded_number(value)
    if value is not None and (period_s is None or not SHORTEST_S <= period_s <= LONGEST_S):
        raise WorkerError(f"a period of {printable(value)}; it must be {SHORTEST_S:g} to {LONGEST_S:g} s")
    return period_s


def main(
    address: str, node: int, token: bytes, patience_s: float = 60.0, permitted: Collection[Source] | None = None
) -> None:
    """Connect and serve until the referee is done. permitted: as for `Agent`.

    Raises:
        TtaError: the referee cannot be reached, is not this run's, rejects this agent, or requests something odd.
    """
    serve_referee(POWER, address, token, node, patience_s, lambda channel: Agent(channel, permitted).serve())


if __name__ == "__main__":  # how the referee starts it on its own node, and a helper of `harness.launch` on another
    try:
        place, *others = sys.argv[1:]
        number, patience = others or ("0", "0")
        main(place, int(number), POWER.token(), float(patience))
    except TtaError as error:
        sys.exit(f"tta: power agent: {printable(error, 1000)}")
