"""The folder that `tta run` writes to: created, or resumed with --resume; never overwritten."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path

from harness.base.files import sha256_of
from harness.errors import LogError, OutputError, printable
from harness.log import keys, run_log
from harness.log.power_files import POWER_FOLDER
from harness.run.plan import Plan
from harness.submission import module as open_module
from harness.submission.layout import CODE_NAME, RESULT_PATTERN, SYSTEM_NAME


def open_folder(folder: Path, plan: Plan, module_text: bytes, is_resumed: bool) -> dict[int, run_log.RunLog]:
    """Create `folder` with the system description and the module; return the finished runs that it already has.

    plan: shared by all runs. module_text: empty without a module. is_resumed: continue in an existing folder.

    Raises:
        OutputError: it exists and is not resumed, has runs of another benchmark or module, or cannot be written.
    """
    done: dict[int, run_log.RunLog] = {}
    try:
        if is_resumed and folder.is_dir():
            done = _finished(folder, plan)
        else:
            folder.mkdir(parents=True, exist_ok=False)
            (folder / SYSTEM_NAME).write_text(json.dumps(dict(plan.system), indent=2) + "\n")
        _keep(folder, plan.module, module_text)
    except FileExistsError:
        raise OutputError(
            f"{folder}: already exists; choose another --out, or add the missing runs with --resume"
        ) from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror}") from None
    return done


def _finished(folder: Path, plan: Plan) -> dict[int, run_log.RunLog]:
    """Return the finished runs in `folder`; unfinished ones are moved to `unfinished/`, never deleted.

    A file whose name is not that of a run, such as a copy, stays where it is.
    """
    done = {}
    matches = [RESULT_PATTERN.fullmatch(path.name) for path in sorted(folder.iterdir())]
    for match in filter(None, matches):
        path = folder / match[0]
        try:
            log = run_log.read(path)
        except LogError:
            log = None
        if log is not None and log.first(keys.TTA_END) is not None:
            if log.value(keys.SUBMISSION_BENCHMARK) != plan.rules.name:
                raise OutputError(f"{path}: is a run of another benchmark; choose another --out")
            if log.field(keys.TTA_CONFIG, "module") != plan.config["module"]:
                raise OutputError(
                    f"{path}: was run with {_named(log.field(keys.TTA_CONFIG, 'module'))}, but "
                    f"{_named(plan.config['module'])} is given now; give the same one, or choose another --out"
                )
            done[int(match[1])] = log
        else:
            (folder / "unfinished").mkdir(exist_ok=True)
            shutil.move(path, folder / "unfinished" / f"{path.stem}.{path.stat().st_mtime_ns}.txt")
    _put_aside_power(folder, {f"result_{index}" for index in done})
    return done


def _put_aside_power(folder: Path, kept: Collection[str]) -> None:
    """Move the power logs of unfinished runs; the idle baseline stays."""
    for power in sorted((folder / POWER_FOLDER).glob("result_*")):
        if power.name not in kept:
            (folder / "unfinished").mkdir(exist_ok=True)
            shutil.move(power, folder / "unfinished" / f"{power.name}.{power.lstat().st_mtime_ns}.power")


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
