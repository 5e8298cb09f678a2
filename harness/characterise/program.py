"""The process that measures: one a device, started in the place of a worker, and never in a run.

Rank 0 inherits a socket (`--control FD`), by which it is asked, and passes each command on to the other ranks:

    profile   a session as a whole: `harness.characterise.measuring`
    memory    the memory of a session's step at another batch size
    window    steps of a session with real data, and with batches that it has already
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from harness.base.json_socket import JsonSocket, SocketClosed
from harness.characterise import measuring, peaks
from harness.errors import WorkerError
from harness.run import numerics, workloads
from harness.run.ranks import Ranks, failure, initialise
from harness.workload import Evaluator, RunConfig, Session


def opened(config: dict[str, Any]) -> Session:
    """Open a session as a worker does."""
    numerics.set_precision(config["precision"])
    return workloads.workload(config["workload"]).open(RunConfig(**config))


def _evaluator(command: dict[str, Any], ranks: Ranks) -> Evaluator | None:
    if ranks.rank:
        return None
    config = command["config"]
    workload = workloads.workload(config["workload"])
    return workload.evaluator(config["suite"], Path(command["data_dir"]), Path(command["labels_dir"]))


def profile(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Open a session, bring it to training, and measure it."""
    config = command["config"]
    rates = ranks.gather(peaks.peak(config["precision"], command["peak_s"])["flop_per_s"])
    session = opened(config)
    try:
        begun = measuring.started(session, lambda own: initialise(own, config, ranks.rank), Path(command["data_dir"]))
        batch_size = int(config["hyperparameters"]["global_batch_size"])
        evaluator = _evaluator(command, ranks)
        found = measuring.profiled(
            session, evaluator, ranks, batch_size, int(command["num_steps"]), int(command["num_traced"])
        )
    finally:
        session.close()
        measuring.released()
    limit, what = measuring.memory_limit()
    return {
        **begun,
        **found,
        "peak_flop_per_s": sum(rates),
        "memory_limit": {"bytes": limit, "what": what, "is_accelerator": torch.cuda.is_available()},
        "world": ranks.gather(ranks.describe()),
    }


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
    finally:
        session.close()
        measuring.released()
    return {**begun, "windows": found, "peak_memory": measuring.peak_memory()}


_COMMANDS = {"profile": profile, "memory": memory, "window": window}


def serve(channel: JsonSocket | None, ranks: Ranks) -> None:
    """Answer commands until the other side is gone, or until a rank of several fails."""
    while True:
        command = ranks.broadcast(None if channel is None else channel.receive(timeout_s=None))
        answer: dict[str, Any] = {}
        try:
            if command["do"] in _COMMANDS:
                answer = {**_COMMANDS[command["do"]](command, ranks), "ok": True}
            else:
                raise WorkerError(f"unknown command {command['do']!r}")
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


def main(control: int | None) -> int:
    """Answer commands. control: the descriptor of rank 0's socket; None on other ranks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides what an interrupt means
    channel = None if control is None else JsonSocket(socket.socket(fileno=control))
    ranks = Ranks()
    world = ranks.gather(ranks.describe())
    try:
        if channel is not None:
            channel.send({"world": world})
        serve(channel, ranks)
    except SocketClosed:
        return 1
    finally:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    sys.exit(main(**vars(parser.parse_args())))
