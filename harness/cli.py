"""The command line: parses, calls a verb, turns an exception into an exit status."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, TextIO, cast

from harness.base.streams import TolerantStream
from harness.commands import verbs
from harness.errors import ExitStatus, Interrupted, TtaError, UsageError, printable


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    # What argparse does not know may be a hyperparameter in another program's style; those get their own answer.
    arguments, unknown = verbs.parser().parse_known_args(argv)
    if unknown and hasattr(arguments, "overrides"):
        options = [option for action in arguments.parser._actions for option in action.option_strings]
        for argument in unknown:
            name = argument.split("=", 1)[0]
            if argument.startswith("-") and "=" not in argument:
                raise UsageError(f"unknown option {printable(name)!r}; there are: {', '.join(sorted(options))}")
        arguments.overrides = [*arguments.overrides, *unknown]
    elif unknown:
        raise UsageError(f"unknown argument {printable(unknown[0])!r} (see `{arguments.parser.prog} --help`)")
    return arguments


def _on_sigterm(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted("interrupted by a signal")


def main(argv: Sequence[str] | None = None) -> int:
    """The `tta` command; returns the exit status."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # `tta ... >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  (stays open as long as the process)
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            # A file name that is no text in this locale is shown as it can be, instead of ending the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        # Nobody there to read is no fault; a disk that is full is one.
        with contextlib.redirect_stdout(cast(TextIO, TolerantStream(sys.stdout, BrokenPipeError))):
            return _call(argv)
    finally:
        _let_go()


def _call(argv: Sequence[str] | None) -> int:
    try:
        try:
            arguments = _parse(argv)
            status = int(arguments.call(arguments))
        except SystemExit as help_was_asked_for:  # argparse's way out after --help and --version
            status = int(help_was_asked_for.code or 0)
        sys.stdout.flush()
        return status
    except TtaError as error:
        return _end(error.exit_status, printable(error, 2000))
    except KeyboardInterrupt:
        return _end(ExitStatus.INTERRUPTED, "interrupted")
    except OSError as error:
        # A full disk under our output, a name that is too long: the world's fault, in the world's words.
        place = f"{printable(error.filename, 300)}: " if error.filename is not None else ""
        return _end(ExitStatus.USAGE, f"{place}{printable(error.strerror or error, 1000)}")
    except Exception:  # noqa: BLE001  (the last line of defence: what arrives here is a bug of ours)
        traceback.print_exc()
        return _end(ExitStatus.INTERNAL, "this is an internal error of tta; please report it with the lines above")


def _let_go() -> None:
    """Throws away what nobody can be told any more: Python would try once again as it ends, and answer 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(status: ExitStatus, sentence: str) -> int:
    with contextlib.suppress(OSError):  # nobody may be there to read it
        print(f"tta: {sentence}", file=sys.stderr, flush=True)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
