"""Makes the first steps of a run again, as `tta_replay` has them: in a worker of its own, without a clock or a log."""

from __future__ import annotations

from pathlib import Path

from harness.base import signals
from harness.errors import Interrupted, UsageError, WorkerError, printable
from harness.log.replay import Replay, parse_replay
from harness.run.benchmark import Request, isolate, places
from harness.run.isolation import moved
from harness.run.launcher import LaunchedWorker
from harness.run.plan import Plan
from harness.run.referee import START_LIMIT_S
from harness.run.starter import Place


def replayed(request: Request, plan: Plan, output: Path, has_other_kernels: bool = False) -> Replay:
    """Make the first steps of the plan's run; `output` gets what the worker prints.

    has_other_kernels: sum in another order, by the kernels that torch has itself.

    Raises:
        Interrupted: by a signal. UsageError: the workload refuses the configuration. WorkerError: it failed.
    """
    place = Place(request.devices)
    isolation = moved(isolate(request, plan), places(request, plan, output.parent), place)
    worker = LaunchedWorker(place, output, isolation, None)
    with signals.collected() as seen:

        def tick() -> None:
            if seen:
                raise Interrupted("interrupted by a signal")

        try:
            worker.start(tick, START_LIMIT_S)
            command = {**plan.replaying(worker.give_data(plan.data_dir)), "other_kernels": has_other_kernels}
            answer = worker.ask(command, tick, START_LIMIT_S + plan.timing.max_init_s[plan.division])
        finally:
            worker.stop(0.0)
    if answer.get("ok") is not True:
        message = f"the first steps cannot be made again: {printable(answer.get('message'), 1000)}"
        raise UsageError(message) if answer.get("kind") in ("usage", "data") else WorkerError(message)
    try:
        return parse_replay(answer.get("replay"))
    except ValueError as error:
        raise WorkerError(f"the worker did not report its first steps: {error}") from None
