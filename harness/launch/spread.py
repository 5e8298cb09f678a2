"""The ranks of one run on all nodes, as one worker."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from harness.base.processes import end_marked
from harness.errors import TtaError, printable
from harness.launch.connection import HelperConnection
from harness.run.launcher import LaunchedWorker, is_consequence
from harness.run.plan import WorkerLost
from harness.run.starter import MARK, Place

BLAME_S = 3.0  # how long other nodes may take to say that they went wrong, once one has
START_S = 60.0  # for the start of a node's processes, which import nothing yet
STOP_S = 20.0
_EVERY_S = 0.05

T = TypeVar("T")


class SpreadWorker:
    """Rank 0 and the others of its node, and those that the helpers start.

    own: the worker of this node. place: its place in the world. output: a file, next to which those of the other nodes
    are written when the worker is stopped. program: what ranks run, one of `PROGRAMS`. folder: one that they may write
    to, on storage that all nodes share.
    """

    def __init__(
        self,
        own: LaunchedWorker,
        helpers: Sequence[HelperConnection],
        place: Place,
        host: str,
        output: Path,
        program: str,
        folder: Path | None = None,
    ) -> None:
        self._own, self._helpers, self._place, self._output = own, helpers, place, output
        self._program, self._folder = program, None if folder is None else str(folder)
        self._host = host
        self._is_stopped = True
        self.left: dict[str, list[str] | None] = {}

    @property
    def isolation(self) -> Mapping[str, Any]:
        """What confines the ranks of this node, for the log; those of the others are confined alike."""
        return self._own.isolation

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]:
        """Start the ranks of all nodes; see `LaunchedWorker.start`."""
        self._is_stopped = False
        for helper in self._helpers:
            helper.fault = None
        self._ask_all(
            lambda helper: {
                "do": "start",
                "program": self._program,
                "own": self._folder,
                "place": dataclasses.asdict(
                    dataclasses.replace(self._place, first_rank=helper.number * self._place.num_ranks, interface=None)
                ),
            },
            START_S,
            on_tick,
        )
        return self._blamed(lambda: self._own.start(self._watched(on_tick), timeout_s))

    def give_data(self, data_dir: Path) -> str:
        """Let the ranks of all nodes see the data; see `LaunchedWorker.give_data`."""
        self._ask_all(lambda helper: {"do": "give"}, START_S, lambda: None)
        return self._own.give_data(data_dir)

    def ask(self, command: Mapping[str, Any], on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        """Send a command to rank 0, which passes it on; see `LaunchedWorker.ask`."""
        answer = self._blamed(lambda: self._own.ask(command, self._watched(on_tick), timeout_s))
        if answer.get("ok") is not True and answer.get("kind") == "crashed":
            # Rank 0 may be the last to notice, or the one that went wrong.
            text = str(answer.get("message"))
            first = self._first(WorkerLost(text, is_cause=not is_consequence(text)))
            if first.node is not None:
                raise first
        return answer

    def stop(self, grace_s: float) -> None:
        """End the ranks of all nodes and what descends from them; `left` has what had outlived them, by node."""
        if self._is_stopped:
            return
        self._is_stopped = True
        requests: list[tuple[HelperConnection, int]] = []
        if grace_s == 0:  # else those of the other nodes end by themselves, with those of this one
            requests = self._ask_stop()
        self._own.stop(grace_s)
        requests = requests or self._ask_stop()
        self.left = {"0": end_marked(f"{MARK}={self._place.mark}")}
        for helper in self._helpers:
            self.left[str(helper.number)] = None
        for helper, number in requests:
            with suppress(TtaError):
                answer = helper.answer(number, STOP_S)
                self.left[str(helper.number)] = [printable(name, 50) for name in answer["left"]]
                output = self._output.with_name(f"{self._output.stem}_node_{helper.number}{self._output.suffix}")
                output.write_text(str(answer["output"]))

    def _ask_stop(self) -> list[tuple[HelperConnection, int]]:
        requests = []
        for helper in self._helpers:
            with suppress(WorkerLost):
                if not helper.is_lost:
                    requests.append((helper, helper.send({"do": "stop", "grace_s": 0.0})))
        return requests

    def _ask_all(
        self,
        request: Callable[[HelperConnection], dict[str, Any]],
        timeout_s: float,
        on_tick: Callable[[], None],
    ) -> list[dict[str, Any]]:
        numbers = [(helper, helper.send(request(helper))) for helper in self._helpers]
        return [helper.answer(number, timeout_s, on_tick) for helper, number in numbers]

    def _watched(self, on_tick: Callable[[], None]) -> Callable[[], None]:
        def tick() -> None:
            on_tick()
            for helper in self._helpers:
                if fault := helper.found():
                    raise fault

        return tick

    def _blamed(self, call: Callable[[], T]) -> T:
        """Return the result of a call; of several nodes that go wrong, blame the one that did so first.

        Raises:
            WorkerLost: with the node.
        """
        try:
            return call()
        except WorkerLost as lost:
            raise self._first(lost) from None

    def _first(self, lost: WorkerLost) -> WorkerLost:
        """Return the fault from which the others follow, as far as one can tell after a moment."""
        own = lost.node is None
        if own and lost.is_cause:
            return self._own_fault(lost)
        deadline_s = time.monotonic() + BLAME_S
        while time.monotonic() < deadline_s:
            for helper in self._helpers:
                if (fault := helper.found()) and fault.is_cause:
                    return fault
            if lost.is_cause:
                return lost
            time.sleep(_EVERY_S)
        return self._own_fault(lost) if own else lost

    def _own_fault(self, lost: WorkerLost) -> WorkerLost:
        return WorkerLost(f"node 0 ({printable(self._host)}): {lost}", lost.reason, lost.is_cause, 0)
