"""The process that measures: one a device, started in the place of a worker, and never in a run.

Rank 0 inherits a socket (`--control FD`), by which it is asked, and may inherit another one to an evaluator
(`--stream FD`). It passes each command on to the other ranks:

    open      nothing: the evaluator answers
    profile   a session as a whole, which stays open: `harness.characterise.measuring`
    steps     a few steps of that session
    evaluate  answer the evaluator with that session's predictions, as a worker does
    finish    close it
    peak      the fastest matrix product of the devices
    memory    the memory of a session's step at another batch size
    window    steps of a session with real data, and with batches that it has already
    preflight single operations of the devices, without any session
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from harness.base.json_socket import JsonSocket, SocketClosed
from harness.characterise import measuring, peaks
from harness.characterise.cells import REAL
from harness.characterise.summaries import summary
from harness.characterise.watching import Clock
from harness.errors import WorkerError
from harness.run import numerics, workloads
from harness.run.array_stream import ArrayStream
from harness.run.ranks import Ranks, answer_evaluator, failure, initialise
from harness.workload import Arrays, RunConfig, Session


def opened(config: dict[str, Any]) -> Session:
    """Open a session as a worker does."""
    numerics.set_precision(config["precision"])
    return workloads.workload(config["workload"]).open(RunConfig(**config))


class Timed:
    """A session, and how long each evaluation was predicting."""

    def __init__(self, session: Session, batch_size: int) -> None:
        self.session, self.batch_size = session, batch_size
        self.inference_s: list[float] = []

    def predict(self, inputs: Arrays) -> Arrays:
        begun = perf_counter()
        predictions = self.session.predict(inputs)
        self.inference_s[-1] += perf_counter() - begun
        return predictions


def profile(command: dict[str, Any], ranks: Ranks) -> tuple[Timed, dict[str, Any]]:
    """Open a session, bring it to training, and measure it; it stays open."""
    config = command["config"]
    session = opened(config)
    try:
        begun = measuring.started(session, lambda own: initialise(own, config, ranks.rank), Path(command["data_dir"]))
        batch_size = int(config["hyperparameters"]["global_batch_size"])
        num_steps, num_traced = int(command["num_steps"]), int(command["num_traced"])
        sustained_s = float(command.get("sustained_s", 0.0))
        found = measuring.profiled(session, ranks, batch_size, num_steps, num_traced, sustained_s)
    except BaseException:  # also when a signal ends it: the session has processes of its own
        session.close()
        measuring.released()
        raise
    limit, what = measuring.memory_limit()
    return Timed(session, batch_size), {
        **begun,
        **found,
        "memory_limit": {"bytes": limit, "what": what, "is_accelerator": torch.cuda.is_available()},
        "world": ranks.gather(ranks.describe()),
    }


def peak(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """What the devices multiply together, at most."""
    return {"flop_per_s": sum(ranks.gather(peaks.peak(command["precision"], float(command["least_s"]))["flop_per_s"]))}


def memory(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """The memory of a step at another batch size."""
    config = command["config"]
    return measuring.memory_at(
        lambda size: opened(measuring.as_config(config, size)),
        lambda own: initialise(own, config, ranks.rank),
        Path(command["data_dir"]),
        int(command["batch_size"]),
    )


def window(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Steps of a session, with each kind of data that is asked for."""
    config = command["config"]
    session = opened(config)
    try:
        begun = measuring.started(session, lambda own: initialise(own, config, ranks.rank), Path(command["data_dir"]))
        batch_size = int(config["hyperparameters"]["global_batch_size"])
        found = {
            kind: measuring.window(session, kind, batch_size, int(command["num_steps"]), ranks)
            for kind in command["kinds"]
        }
        meter = {}
        if seconds := command.get("sustained_s", 0.0):
            step_s = summary(found[REAL]["seconds"]).median
            meter["sustained"] = measuring.sustained(session, batch_size, step_s, seconds, ranks, Clock())
    finally:
        session.close()
        measuring.released()
    return {**begun, **meter, "windows": found, "peak_memory": measuring.peak_memory()}


def preflight(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Single operations, on all ranks at once. What is not begun within `limit_s` is named in `skipped`."""
    begun, least_s = perf_counter(), float(command["least_s"])
    found: dict[str, Any] = {
        name: [] for name in ("matrix_products", "convolutions", "copies", "memory", "all_reduces")
    }
    skipped: list[str] = []

    def measured(name: str, what: str, measure: Callable[[], list[dict[str, Any]]]) -> None:
        if ranks.broadcast({"is_late": perf_counter() - begun > command["limit_s"]})["is_late"]:
            skipped.append(what)
        else:
            of_ranks = ranks.gather(measure())
            found[name] += [_of_slowest([one[number] for one in of_ranks]) for number in range(len(of_ranks[0]))]

    if ranks.world_size > 1:
        measured("all_reduces", "all-reduce", lambda: peaks.all_reduces(ranks))
    measured("copies", "copies", lambda: peaks.copies(least_s))
    measured("memory", "memory", lambda: [peaks.memory_reading(least_s)])
    for precision in peaks.precisions():
        for shape in peaks.shapes():
            name = f"matrix product {shape}, {precision}"
            measured("matrix_products", name, partial(_listed, peaks.matrix_product, precision, shape, least_s))
        for problem in peaks.CONVOLUTIONS:
            name = f"convolution {problem}, {precision}"
            measured("convolutions", name, partial(_listed, peaks.convolution, precision, problem, least_s))
    with peaks.computing_in("fp32"):
        is_tf32 = peaks.multiplies_in_tf32()
    return {
        **found,
        "skipped": skipped,
        "fp32_is_tf32": is_tf32,
        "seconds": perf_counter() - begun,
        "world": ranks.gather(ranks.describe()),
    }


def _listed(measure: Callable[..., dict[str, Any]], *arguments: Any) -> list[dict[str, Any]]:
    return [measure(*arguments)]


def _of_slowest(of_ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """The measurement of the slowest device, and its rank: one that is throttled is not hidden by the others."""
    rank, slowest = max(enumerate(of_ranks), key=lambda item: float(item[1]["median_s"]))
    return {**slowest, "slowest_rank": rank}


_COMMANDS = {"peak": peak, "memory": memory, "window": window, "preflight": preflight}


def _of_open(held: Timed | None, do: str, ranks: Ranks, stream: ArrayStream | None) -> dict[str, Any]:
    """Carry out a command that is about the session that a profile left open."""
    if held is None:
        raise WorkerError(f"unknown command {do!r}, or no session is open for it")
    if do == "steps":
        held.session.train_block(held.batch_size * measuring.NUM_SETTLING)
    elif do == "evaluate":
        held.inference_s.append(0.0)
        answer_evaluator(held, ranks, stream)
    elif do == "finish":
        held.session.close()
        measuring.released()
        return {"inference_s": held.inference_s}
    return {}


def serve(channel: JsonSocket | None, ranks: Ranks, stream: ArrayStream | None = None) -> None:
    """Answer commands until the other side is gone, or until a rank of several fails."""
    held: Timed | None = None
    while True:
        command = ranks.broadcast(None if channel is None else channel.receive(timeout_s=None))
        answer: dict[str, Any] = {}
        try:
            if command["do"] == "profile":
                held, answer = profile(command, ranks)
            elif command["do"] in _COMMANDS:
                answer = _COMMANDS[command["do"]](command, ranks)
            elif command["do"] != "open":
                answer = _of_open(held, command["do"], ranks, stream)
            answer["ok"] = True
        # The session is foreign code: whatever it raises is reported.
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            answer = failure(error)
            if ranks.world_size > 1:
                # The other ranks wait in a collective operation that this one left; the starter ends them.
                if channel is not None:
                    channel.send(answer)
                sys.exit(1)
            measuring.released()
        if channel is not None:
            channel.send(answer)


def main(control: int | None, stream: int | None) -> int:
    """Answer commands. control, stream: the descriptors of rank 0's sockets; None on other ranks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides what an interrupt means
    channel = None if control is None else JsonSocket(socket.socket(fileno=control))
    arrays = None if stream is None else ArrayStream(socket.socket(fileno=stream))
    ranks = Ranks()
    world = ranks.gather(ranks.describe())
    try:
        if channel is not None:
            channel.send({"world": world})
        serve(channel, ranks, arrays)
    except SocketClosed:
        return 1
    finally:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    parser.add_argument("--stream", type=int)
    sys.exit(main(**vars(parser.parse_args())))
