"""The folder that `tta run` writes to: created, or resumed with --resume; locked meanwhile and never overwritten."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from harness.base import strict_json
from harness.base.files import sha256_of
from harness.errors import LogError, OutputError, printable
from harness.log import keys, run_log
from harness.log.power_files import POWER_FOLDER
from harness.run.checkpoint import Checkpoints
from harness.run.plan import Plan
from harness.run.resumption import Resumption, resumption_of
from harness.submission import module as open_module
from harness.submission.layout import (
    CODE_LIST,
    CODE_NAME,
    PACKAGES_LIST,
    RECEIPTS_PATTERN,
    RESULT_PATTERN,
    SYSTEM_NAME,
    UNFINISHED,
    num_attempts,
)
from harness.submission.predictions import PREDICTIONS_PATTERN

# Fields of a log's header in which the runs of a result differ. The prices of a result are those of its first run.
_OF_ONE_RUN = {
    keys.TTA_FORMAT: {"run_id", "result_id", "index", "attempt"},
    keys.TTA_RULES: {keys.PRICES_FIELD},
    keys.TTA_CODE: {"commit", "is_clean"},  # the same files may have been committed since
    keys.TTA_CONFIG: {"seed", "weights_seed", "noise_seed", "module"},  # a module has a message of its own
    keys.TTA_SEEDS: {"varied"},
    keys.TTA_TICKET: {"ticket", "number", "server_nonce", "client_nonce", "seed"},
}
_ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a result has before its next run.

    runs: the finished ones. attempts: the runs' unfinished attempts. interrupted: those that go on from a checkpoint.
    """

    runs: Mapping[int, run_log.RunLog]
    attempts: Mapping[int, int]
    interrupted: Mapping[int, Resumption] = field(default_factory=dict)


@contextmanager
def opened(folder: Path, plan: Plan, module_text: bytes, is_resumed: bool) -> Iterator[Contents]:
    """Lock `folder` until the end, with the system description, the module, and the lists of the code and the packages
    in it; give what it already has.

    plan: shared by all runs. module_text: empty without a module. is_resumed: continue in an existing folder.

    Raises:
        OutputError: it exists and is not resumed, is in use by another `tta run`, has runs that were made otherwise, or
            cannot be written.
    """
    lock = None
    try:
        try:
            folder.mkdir(parents=True, exist_ok=is_resumed)
            lock = (folder / SYSTEM_NAME).open("a+b")  # writable: NFS makes a record lock of it
            _lock(lock, folder, is_resumed)
            _describe(lock, folder, plan.system)
            contents = _contents(folder, plan)
            for path, text in zip((CODE_LIST, PACKAGES_LIST), plan.identity.lists, strict=True):
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
            _keep(folder, plan.module, module_text)
        except FileExistsError:
            raise OutputError(
                f"{folder}: already exists; choose another --out, or add the missing runs with --resume"
            ) from None
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written: {error.strerror}") from None
        yield contents
    finally:
        if lock is not None:
            lock.close()


def _lock(lock: BinaryIO, folder: Path, is_resumed: bool) -> None:
    """Lock the file until it is closed, which the end of the process does, too. A new folder has one writer anyway."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputError(f"{folder}: another `tta run` is writing to it; wait for its end") from None
    except OSError as error:
        if is_resumed:
            raise OutputError(
                f"{folder}: cannot be locked against a second `tta run --resume` ({error.strerror}); move it to a file "
                "system that has locks"
            ) from None


def _describe(file: BinaryIO, folder: Path, system: Mapping[str, Any]) -> None:
    """Write the system description, unless the file has it already."""
    file.seek(0)
    text = file.read()
    if not text:  # new, or the first attempt was killed at once
        file.write((json.dumps(dict(system), indent=2) + "\n").encode())
        file.flush()
        return
    try:
        own = strict_json.loads(text)
    except ValueError as error:
        raise OutputError(f"{folder / SYSTEM_NAME}: is not a system description: {printable(error)}") from None
    _refuse_other(folder / SYSTEM_NAME, "", own, dict(system))


def _contents(folder: Path, plan: Plan) -> Contents:
    """Return what is in `folder`, after the runs without an end were moved to `unfinished/`; nothing is deleted.

    So are those of a reproduction that a signal ended.

    Those with a checkpoint stay, if the rules permit that they go on. A file whose name is not that of a run, such as a
    copy, stays where it is.
    """
    done, interrupted, aside = {}, dict[int, Resumption](), []
    matches = [RESULT_PATTERN.fullmatch(path.name) for path in sorted(folder.iterdir())]
    for match in filter(None, matches):
        path = folder / match[0]
        try:
            log = run_log.read(path)
        except LogError:
            log = None
        index = int(match[1])
        resumption = None
        if log is not None:
            _refuse_unlike(log, plan)
            if log.first(keys.TTA_END) is not None and not _is_made_again(log, plan):
                done[index] = log
                continue
            if log.first(keys.TTA_END) is None and plan.rules.permits_resume:
                resumption = resumption_of(log, Checkpoints.of_run(folder.absolute(), index, None))
        if resumption is None:
            aside.append(path)
        else:
            interrupted[index] = resumption
    for path in list(folder.iterdir()):  # the log of such a run may be without them, or they without a log
        kept = PREDICTIONS_PATTERN.fullmatch(path.name)
        if kept is not None and int(kept[1]) not in done:
            aside.append(path)
        received = RECEIPTS_PATTERN.fullmatch(path.name)
        if received is not None and int(received[1]) not in {*done, *interrupted}:
            aside.append(path)
    for power in (folder / POWER_FOLDER).glob("result_*"):  # the idle baseline stays
        if power.name not in {f"result_{index}" for index in done}:
            aside.append(power)
    for path in aside:
        (folder / UNFINISHED).mkdir(exist_ok=True)
        suffix = path.suffix or ".power"
        shutil.move(path, folder / UNFINISHED / f"{path.stem}.{path.lstat().st_mtime_ns}{suffix}")
    names = [path.relative_to(folder).as_posix() for path in folder.glob(f"{UNFINISHED}/*")]
    return Contents(done, num_attempts(names), interrupted)


def _is_made_again(log: run_log.RunLog, plan: Plan) -> bool:
    """Whether a run that ended does not count: one of a reproduction, ended by a signal.

    In a result it counts, since its submitter gains by ending what goes badly; but that somebody ended a reproduction
    for the night says nothing of the claim. Like other attempts it is kept and counted.
    """
    stop = log.first(keys.RUN_STOP)
    return plan.reproduces is not None and stop is not None and stop.metadata.get("reason") == "interrupted"


def _refuse_unlike(log: run_log.RunLog, plan: Plan) -> None:
    """Compare everything that is decided before a run, as far as this one got."""
    header = {key: json.loads(json.dumps(value)) for key, value, _ in plan.header() if key != keys.SEED}
    for key in (keys.SUBMISSION_BENCHMARK, keys.TTA_CONFIG, *header):  # what these say is easier to understand
        if log.first(keys.TTA_END) is None and log.first(key) is None:
            continue
        then, now = log.value(key), header[key]
        if key == keys.SUBMISSION_BENCHMARK and then != now:
            raise OutputError(f"{log.path}: is a run of another benchmark; choose another --out")
        if key == keys.TTA_CONFIG and log.field(key, "module") != now["module"]:
            raise OutputError(
                f"{log.path}: was run with {_named(log.field(key, 'module'))}, but "
                f"{_named(now['module'])} is given now; give the same one, or choose another --out"
            )
        name = "" if key == keys.TTA_CONFIG else key
        _refuse_other(log.path, name, *(_shared(key, value) for value in (then, now)))


def _shared(key: str, value: Any) -> Any:
    if key in _OF_ONE_RUN and isinstance(value, dict):
        return {name: item for name, item in value.items() if name not in _OF_ONE_RUN[key]}
    return value


def _refuse_other(path: Path, name: str, then: Any, now: Any) -> None:
    """Raise OutputError with the first field in which two JSON values differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        for field in {**then, **now}:
            place = f"{name}.{field}" if name else field
            _refuse_other(path, place, then.get(field, _ABSENT), now.get(field, _ABSENT))
    elif then != now:
        raise OutputError(
            f"{path}: {printable(name)} is {printable(then)}, but {printable(now)} is given now; give the same, or "
            "choose another --out"
        )


def _named(value: object) -> str:
    try:
        module = open_module.parse_module(value)
    except ValueError:
        return "a module that cannot be read from its log"
    return "no module" if module is None else f"the module {module}"


def _keep(folder: Path, module: open_module.Module | None, text: bytes) -> None:
    """Copy the module into the result, unless an unfinished run has done so."""
    code = folder / CODE_NAME
    for path in sorted(code.glob("*.py")):
        if module is None or path.name != module.name or sha256_of(path) != module.sha256:
            given = "no module" if module is None else f"the module {module}"
            raise OutputError(
                f"{printable(path)}: is of an earlier run, but {given} is given now; choose another --out"
            )
    if module is not None:
        code.mkdir(exist_ok=True)
        (code / module.name).write_bytes(text)
