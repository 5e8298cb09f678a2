"""The training process: does what the referee asks, on every rank, and answers with facts.

Started by accelerate's launcher, one process a device, as `python -m harness.run.worker SOCKET`. Rank 0 holds
the line to the referee and passes each command on to the other ranks. The only file of the harness that
imports torch and accelerate.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import signal
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.base.json_socket import JsonSocket, SocketClosed
from harness.base.processes import die_with_parent
from harness.errors import DataError, MissingDependencyError, UsageError, WorkerError
from harness.submission import module as open_module
from harness.workload import RunConfig, Session

_PACKAGES = ("torch", "torchvision", "torchaudio", "transformers", "accelerate", "numpy")


class OpenedFiles:
    """The paths this process opened or listed before the clock started.

    An audit hook sees what Python opens (numpy, pickle, torch.load, os.listdir); a library that opens files in
    compiled code is not seen.
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
                self._paths.add(os.path.abspath(place))  # noqa: PTH100  (in an audit hook: no calls that open)

    def below(self, folder: Path) -> list[str]:
        """The paths seen in or below `folder`, relative to it, sorted; ends the watch."""
        self._is_watching = False
        root = folder.resolve()
        seen = {Path(os.path.realpath(path)) for path in self._paths}
        return sorted(path.relative_to(root).as_posix() for path in seen if path.is_relative_to(root))


class Ranks:
    """This process among its like; commands go from rank 0 to all."""

    def __init__(self) -> None:
        import torch
        from accelerate import PartialState

        # Left to itself on a machine without an accelerator, it makes a world of one of every process.
        self._state = PartialState(cpu=not torch.accelerator.is_available())
        self.rank = int(self._state.process_index)
        self.world_size = int(self._state.num_processes)

    def broadcast(self, message: dict[str, Any] | None) -> dict[str, Any]:
        """`message` of rank 0, on every rank."""
        if self.world_size == 1:
            assert message is not None
            return message
        from accelerate.utils import broadcast_object_list

        box = [message]
        broadcast_object_list(box, from_process=0)
        assert box[0] is not None
        return box[0]

    def gather(self, item: object) -> list[Any]:
        """One item of every rank, by rank, on every rank."""
        if self.world_size == 1:
            return [item]
        from accelerate.utils import gather_object

        return list(gather_object([item]))

    def describe(self) -> dict[str, Any]:
        """Who this rank is, for the log."""
        import torch

        device = self._state.device
        return {
            "rank": self.rank,
            "world_size": self.world_size,
            "host": platform.node(),
            "pid": os.getpid(),
            "device": str(device),
            "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
            "num_threads": torch.get_num_threads(),
            "versions": {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _die_with_launcher() -> None:
    """Asks the kernel to end this process when the launcher is gone, so that nothing is left running."""
    if sys.platform == "linux":
        die_with_parent()
        if (mark := os.environ.get("TTA_WORKER")) is not None and not _has_mark(os.getppid(), mark):
            sys.exit(1)  # it was gone before it could be asked


def _has_mark(pid: int, mark: str) -> bool:
    """Whether the process was started as the launcher of this worker; false of whoever takes in an orphan."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"TTA_WORKER={mark}".encode() in environment.split(b"\0")


def _failure(error: BaseException) -> dict[str, Any]:
    """What the referee is told of an exception of the session's."""
    import torch

    out_of_memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        # torch's allocator for the processor has no exception type of its own.
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )
    kind = "oom" if out_of_memory else "crashed"
    if isinstance(error, UsageError | MissingDependencyError):
        kind = "usage"
    elif isinstance(error, DataError):
        kind = "data"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames and kind == "crashed" else ""
    name = "" if kind in ("usage", "data") else f"{type(error).__name__}: "
    return {"ok": False, "kind": kind, "message": f"{name}{str(error)[:1000]}{place}"}


def _open(command: dict[str, Any]) -> tuple[Session, dict[str, Any]]:
    """The session, with the parts of a module in it where there is one, and what it runs with, for the log."""
    from harness.run import workloads

    config = RunConfig(**command["config"])
    workload = workloads.workload(config.workload)
    told = dataclasses.asdict(config)
    del told["parts"]  # functions; the log has the module that they come from
    told["module"] = None
    if module := command.get("module"):
        path = Path(module.pop("path"))
        named = open_module.parse_module(module)
        assert named is not None
        config = dataclasses.replace(config, parts=open_module.load_module(path, named, workload.name, workload.parts))
        told["module"] = named.record()
    return workload.open(config), told


def _answer(command: dict[str, Any], session: Session, opened: OpenedFiles) -> dict[str, Any]:
    match command["do"]:
        case "prepare":
            session.prepare()
            return {}
        case "start":
            data_dir = Path(command["data_dir"])
            touched = opened.below(data_dir)
            session.start(data_dir)
            return {"touched_early": touched}
        case "train":
            return dataclasses.asdict(session.train_block(int(command["num_samples"])))
        case "evaluate":
            return dataclasses.asdict(session.evaluate())
        case "close":
            session.close()
            return {}
        case other:
            raise WorkerError(f"unknown command {other!r}")


def serve(channel: JsonSocket | None, ranks: Ranks, opened: OpenedFiles) -> None:
    """Answers commands until told to close, or until the referee is gone."""
    session: Session | None = None
    while True:
        command = ranks.broadcast(_next(channel))
        try:
            if command["do"] == "open":
                session, told = _open(command)
                answer: dict[str, Any] = {"config": told}
            else:
                assert session is not None
                answer = _answer(command, session, opened)
            answer["ok"] = True
        # The session is somebody else's code: whatever it raises is reported, and ends the run as crashed.
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            answer = _failure(error)
            if channel is None or ranks.world_size > 1:
                # The other ranks wait in a collective that this one left; the launcher ends them.
                if channel is not None:
                    channel.send(answer)
                sys.exit(1)
        if channel is not None:
            channel.send(answer)
        if command["do"] == "close" or not answer["ok"]:
            return


def _next(channel: JsonSocket | None) -> dict[str, Any] | None:
    return None if channel is None else channel.receive(timeout_s=None)


def main(socket_path: str) -> int:
    """Connects rank 0 to the referee at `socket_path` and serves."""
    _die_with_launcher()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the referee decides what an interrupt means
    opened = OpenedFiles()
    ranks = Ranks()
    channel = JsonSocket.connect(Path(socket_path)) if ranks.rank == 0 else None
    world = ranks.gather(ranks.describe())
    try:
        if channel is not None:
            channel.send({"world": world})
        serve(channel, ranks, opened)
    except SocketClosed:
        return 1
    finally:
        if ranks.world_size > 1:
            import torch.distributed

            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
