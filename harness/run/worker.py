"""The training process: executes the commands of the referee on every rank, and answers with facts.

The starter starts one process per device, as `python -m harness.run.worker`. Rank 0 inherits a socket to the referee
(`--control FD`), passes each command on to the other ranks, and may inherit a second one for arrays (`--stream FD`).
This file, `ranks`, `numerics`, `weights`, `network`, `replay`, `equivalence` and `all_reduce` are the only ones of this
room that import torch or accelerate.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import io
import os
import signal
import socket
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from harness.base.files import sha256_of, sync_folder
from harness.base.json_socket import JsonSocket, SocketClosed
from harness.errors import WorkerError
from harness.run import equivalence, numerics, weights
from harness.run.array_stream import ArrayStream
from harness.run.loaded import loaded_files
from harness.run.ranks import Ranks, answer_evaluator, failure, initialise, seed_all
from harness.run.replay import LEFT_OUT, Observer, digest_of_weights, other_kernels, replay
from harness.submission import module as open_module
from harness.workload import RunConfig, Session

WEIGHTS_PIECE_BYTES = 64 << 20  # of a message to the evaluator
_GENERATORS = "generators.pt"  # next to what a session saves


class OpenedFiles:
    """The paths this process opened or listed before the clock started.

    An audit hook sees what Python opens (numpy, pickle, torch.load, os.listdir), but not the files that a library
    opens in compiled code.
    """

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._is_watching = True
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._is_watching and event in ("open", "os.listdir", "os.scandir") and arguments:
            place = arguments[0]
            if isinstance(place, bytes):
                place = os.fsdecode(place)
            if isinstance(place, str):
                self._paths.add(os.path.abspath(place))  # noqa: PTH100  (in an audit hook: no calls that open files)

    def below(self, folder: Path) -> list[str]:
        """Return the paths seen in or below `folder`, relative to it and sorted; stop watching."""
        self._is_watching = False
        root = folder.resolve()
        seen = {Path(os.path.realpath(path)) for path in self._paths}
        return sorted(path.relative_to(root).as_posix() for path in seen if path.is_relative_to(root))


def _open(command: dict[str, Any], observer: Observer | None = None) -> tuple[Session, dict[str, Any]]:
    """Set the precision; return the session, with the parts of a module if there is one, and its configuration for the
    log."""
    return _opened(command, _functions(command), observer)


def _functions(command: dict[str, Any]) -> dict[str, Any]:
    """Import the command's module, if it has one, and return its functions."""
    from harness.run import workloads

    if not command.get("module"):
        return {}
    named = open_module.parse_module(_record(command))
    assert named is not None
    workload = workloads.workload(command["config"]["workload"])
    takes = open_module.permitted_parts(command["config"]["division"], workload.parts)
    return open_module.load_module(Path(command["module"]["path"]), named, workload.name, takes)


def _record(command: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in command["module"].items() if name != "path"}


def _opened(
    command: dict[str, Any], functions: dict[str, Any], observer: Observer | None
) -> tuple[Session, dict[str, Any]]:
    from harness.run import workloads

    config = RunConfig(**command["config"])
    numerics.set_precision(config.precision)
    workload = workloads.workload(config.workload)
    logged = dataclasses.asdict(config)
    del logged["parts"], logged["observer"]  # functions; the log has the module that the parts come from
    for name in ("weights_seed", "noise_seed"):
        if logged[name] is None:
            del logged[name]
    logged["module"] = None
    if command.get("module"):
        logged["module"] = _record(command)
    is_equivalent = config.division != open_module.OPEN and functions
    parts = equivalence.Parts(functions) if is_equivalent else functions
    return workload.open(dataclasses.replace(config, parts=parts, observer=observer)), logged


def _answer(
    command: dict[str, Any],
    session: Session,
    config: dict[str, Any],
    opened: OpenedFiles,
    ranks: Ranks,
    stream: ArrayStream | None,
) -> dict[str, Any]:
    match command["do"]:
        case "prepare":
            session.prepare()
            initialise(session, config, ranks.rank)
            return {
                "numerics": _same("numerics", numerics.in_force(), ranks),
                "weights_digest": _same("initial weights", {"digest": digest_of_weights(session)}, ranks)["digest"],
            }
        case "start":
            data_dir = Path(command["data_dir"])
            touched = opened.below(data_dir)
            session.start(data_dir)
            return {"touched_early": touched}
        case "train":
            return dataclasses.asdict(session.train_block(int(command["num_samples"])))
        case "evaluate":
            with other_kernels() if command.get("other_kernels") else nullcontext():
                answer_evaluator(session, ranks, stream)
            return {}
        case "save":
            return _saved(session, Path(command["folder"]), ranks)
        case "load":
            load(session, Path(command["folder"]) / _rank_folder(ranks.rank))
            return {}
        case "weights":
            if stream is not None:
                _send_weights(session, stream)
            return {}
        case "load_weights":
            weights.load(session, Path(command["path"]))
            return {}
        case "loaded":
            return {"files": loaded_files()}
        case "close":
            session.close()
            return {}
        case other:
            raise WorkerError(f"unknown command {other!r}")


def _replay(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Train the first steps as a replay does, in a session of its own; before any other, for the sake of cuBLAS."""
    config = dict(command["config"])
    config["execution"] = {name: value for name, value in config["execution"].items() if name not in LEFT_OUT}
    return {
        "replay": replay(
            lambda observer: _open({**command, "config": config}, observer)[0],
            lambda session: initialise(session, config, ranks.rank),
            Path(command["data_dir"]),
            int(config["hyperparameters"]["global_batch_size"]),
            int(command["num_steps"]),
            float(command["limit_s"]),
            ranks,
            bool(command.get("other_kernels")),
        )
    }


def _compare(command: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Measure how far a reimplementation is from the reference; before any other command, for the reference's sake."""

    def seeded(seed: int, is_reference: bool) -> dict[str, Any]:
        left_out = LEFT_OUT if is_reference else ()
        execution = {name: value for name, value in command["config"]["execution"].items() if name not in left_out}
        config = {**command["config"], "seed": seed, "execution": execution}
        return {**command, "config": config, "module": None if is_reference else command["module"]}

    functions: dict[str, Any] = {}

    def open_module_session(seed: int, observer: Observer) -> tuple[Session, equivalence.Layout]:
        if not functions:
            functions.update(_functions(command))
        return _opened(seeded(seed, False), functions, observer)[0], equivalence.layout_of(functions)

    measurement = equivalence.Measurement(
        seed_all,
        [int(seed) for seed in command["seeds"]],
        int(command["steps_per_seed"]),
        Path(command["data_dir"]),
        int(command["config"]["hyperparameters"]["global_batch_size"]),
        str(command["config"]["precision"]),
        ranks,
    )
    reference = equivalence.reference_of(
        measurement, lambda seed, observer: _opened(seeded(seed, True), {}, observer)[0]
    )
    return {"quantities": equivalence.differences(measurement, reference, open_module_session)}


def _rank_folder(rank: int) -> str:
    return f"rank_{rank:05d}"


def _saved(session: Session, folder: Path, ranks: Ranks) -> dict[str, Any]:
    """Let every rank save its part below `folder`; return the digest of every file, or why there is none.

    A rank that cannot write, for lack of space, fails the checkpoint and not the run.
    """
    own = folder / _rank_folder(ranks.rank)
    files: dict[str, dict[str, Any]] = {}
    reason = None
    try:
        own.mkdir(parents=True)
        save(session, own)
        for path in sorted(own.rglob("*")):
            if path.is_dir():
                continue
            with path.open("rb") as file:
                os.fsync(file.fileno())
            facts = {"sha256": sha256_of(path), "num_bytes": path.stat().st_size}
            files[path.relative_to(folder).as_posix()] = facts
        sync_folder(own)
    except OSError as error:
        reason = f"rank {ranks.rank}: {error.strerror}"
    parts = ranks.gather({"files": files, "reason": reason})
    reasons = [part["reason"] for part in parts if part["reason"] is not None]
    together = {name: facts for part in parts for name, facts in part["files"].items()}
    return {"reason": "; ".join(reasons) or None, "files": {} if reasons else together}


def save(session: Session, folder: Path) -> None:
    """Keep a session and the generators that `seed_all` seeds in `folder`, which is this rank's own.

    Raises:
        OSError: the folder cannot be written.
    """
    import random

    import numpy as np
    import torch

    version, inner, gauss = random.getstate()
    name, words, position, has_gauss, cached = np.random.get_state(legacy=True)
    kept = {
        "python": [version, list(inner), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(words, np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }
    session.save(folder)
    buffer = io.BytesIO()  # torch does not report a full disk as an OSError
    torch.save(kept, buffer)
    (folder / _GENERATORS).write_bytes(buffer.getvalue())


def load(session: Session, folder: Path) -> None:
    """Bring a session that was started, and the generators, to where `save` found them."""
    import random

    import numpy as np
    import torch

    session.load(folder)
    kept = torch.load(folder / _GENERATORS, map_location="cpu", weights_only=True)
    version, inner, gauss = kept["python"]
    random.setstate((version, tuple(inner), gauss))
    name, words, position, has_gauss, cached = kept["numpy"]
    np.random.set_state((name, words.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(kept["torch"])
    if kept["device"] is not None:
        torch.cuda.set_rng_state(kept["device"])


def _same(what: str, own: dict[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Return `own`, which must be the same on every rank."""
    first, *others = ranks.gather(own)
    for rank, other in enumerate(others, 1):
        if differing := [part for part in first if first[part] != other[part]]:
            raise WorkerError(f"rank {rank} differs from rank 0 in the {' and '.join(differing)} of its {what}")
    return dict(first)


def _send_weights(session: Session, stream: ArrayStream) -> None:
    """Send the weights of an evaluation to the evaluator, their number of bytes first."""
    import numpy as np

    data = np.frombuffer(weights.serialised(session), np.uint8)
    stream.send({"num_bytes": np.array([len(data)])})
    for first in range(0, len(data), WEIGHTS_PIECE_BYTES):
        stream.send({"weights": data[first : first + WEIGHTS_PIECE_BYTES]})


def serve(channel: JsonSocket | None, stream: ArrayStream | None, ranks: Ranks, opened: OpenedFiles) -> None:
    """Answer commands until one closes the session or fails. On ranks other than 0 there are no connections."""
    session: Session | None = None
    config: dict[str, Any] = {}
    while True:
        command = ranks.broadcast(_next(channel))
        try:
            answer: dict[str, Any]
            if command["do"] == "open":
                session, config = _open(command)
                answer = {"config": config}
            elif command["do"] == "compare":
                answer = _compare(command, ranks)
            elif command["do"] == "replay":
                answer = _replay(command, ranks)
            else:
                assert session is not None
                answer = _answer(command, session, config, opened, ranks, stream)
            answer["ok"] = True
        # The session is foreign code: whatever it raises is reported, and ends the run as crashed.
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            answer = failure(error)
            if channel is None or ranks.world_size > 1:
                # The other ranks wait in a collective operation that this one left; the starter ends them.
                if channel is not None:
                    channel.send(answer)
                sys.exit(1)
        if channel is not None:
            channel.send(answer)
        if command["do"] == "close" or not answer["ok"]:
            return


def _next(channel: JsonSocket | None) -> dict[str, Any] | None:
    return None if channel is None else channel.receive(timeout_s=None)


def _inherited(fd: int | None) -> socket.socket | None:
    """Return the socket with the inherited descriptor `fd`, which no child of this process inherits in turn."""
    if fd is None:
        return None
    os.set_inheritable(fd, False)
    return socket.socket(fileno=fd)


def main(control: int | None, stream: int | None) -> int:
    """Answer the commands of the referee.

    control, stream: descriptors of the inherited sockets to the referee and to the evaluator; None on other ranks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the referee decides what an interrupt means
    faulthandler.register(signal.SIGUSR1)  # a worker that hangs can be asked where: `kill -USR1`
    opened = OpenedFiles()
    connection, evaluation = _inherited(control), _inherited(stream)
    ranks = Ranks()
    channel = None if connection is None else JsonSocket(connection)
    arrays = None if evaluation is None else ArrayStream(evaluation)
    world = ranks.gather(ranks.describe())
    try:
        if channel is not None:
            channel.send({"world": world})
        serve(channel, arrays, ranks, opened)
    except SocketClosed:
        return 1
    finally:
        if ranks.world_size > 1:
            import torch.distributed

            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
        if arrays is not None:
            arrays.close()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    parser.add_argument("--stream", type=int)
    sys.exit(main(**vars(parser.parse_args())))
