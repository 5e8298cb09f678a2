"""The command line: its table of verbs, the parser, and the step from an exception to an exit status."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Container, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn, TextIO, cast

from harness import __version__
from harness.base.streams import TolerantStream
from harness.commands._arguments import EXIT_STATUSES, Parser
from harness.errors import ExitStatus, Interrupted, TtaError, UsageError, printable


class Verb(NamedTuple):
    """A row of `VERBS`.

    module: imported when the verb is called; `add_arguments(parser)` declares its arguments, and `call(arguments)`
    carries it out and returns the exit status. is_listed: whether `tta --help` lists it.
    """

    module: str
    summary: str
    is_listed: bool = True


VERBS = {
    "run": Verb("harness.commands.run", "Run a benchmark: each repeat in a fresh process, with one log per run."),
    "list": Verb("harness.commands.list", "List the benchmarks: target, data, runs, and what the reference needed."),
    "check": Verb("harness.commands.check", "Check logs, results, submissions or a whole tree against the rules."),
    "audit": Verb("harness.commands.audit", "List what an auditor should look at: odd things that no rule forbids."),
    "score": Verb("harness.commands.score", "Score and rank results: score, measured time, energy and cost."),
    "compare": Verb("harness.commands.compare", "Compare two results: time, energy, cost, settings and curves."),
    "summary": Verb("harness.commands.summary", "Print one row per result: quality, samples and time to target."),
    "reproduce": Verb(
        "harness.commands.reproduce", "Make a result again, and say whether it is true: a verdict with its power."
    ),
    "variance": Verb(
        "harness.commands.variance", "Find out where the scatter of runs comes from, and which tolerance it calls for."
    ),
    "preflight": Verb(
        "harness.commands.preflight",
        "Measure in a minute what this machine reaches in single operations, against machines like it.",
    ),
    "profile": Verb(
        "harness.commands.profile",
        "Profile a benchmark here: its network, the phases of a step, operators, memory, utilisation.",
    ),
    "sweep": Verb(
        "harness.commands.sweep",
        "Measure how a benchmark's pace depends on batch size, precision, data and devices.",
    ),
    "derive": Verb(
        "harness.commands.derive",
        "Recompute every number shown for a result from its raw logs, with formula, file and line, and compare it with "
        "the numbers stated.",
    ),
    "submit": Verb(
        "harness.commands.submit", "Check a result as the organiser would, and place it in a leaderboard's tree."
    ),
    "login": Verb("harness.commands.login", "Keep the token by which a leaderboard's service knows you."),
    "status": Verb("harness.commands.status", "Say what became of a submission: its state, findings and history."),
    "witness": Verb(
        "harness.commands.witness", "Show and close campaigns of witnessed runs; verify receipts and a witness's log."
    ),
    "board": Verb(
        "harness.commands.board.verb",
        "Build the leaderboard's pages from a tree of submissions, or serve them; run the leaderboard as a service.",
    ),
    "explain": Verb("harness.commands.explain", "Explain a check: what it looks for, why, and what to do."),
    "doctor": Verb(
        "harness.commands.doctor", "Report what this machine is and what would disturb a run; describe the system."
    ),
    "data": Verb("harness.commands.data", "Prepare a suite's data before any clock starts."),
    "sync": Verb("harness.commands.sync", "Add what is missing from the MLflow mirror of results."),
    "target": Verb(
        "harness.commands.target", "Derive a target and its convergence points from full-curve reference runs."
    ),
    "baseline": Verb("harness.commands.baseline", "Measure what solutions without training reach on a suite."),
    "reference": Verb(
        "harness.commands.reference",
        "Make the reference runs that the rules ask for; a second call resumes where the first one stopped.",
        is_listed=False,
    ),
    "prices": Verb(
        "harness.commands.prices",
        "Show, search, validate, compare or refresh the organiser's price books; price your own machine.",
    ),
    "estimate": Verb(
        "harness.commands.estimate",
        "Estimate what a run to target would take, draw and cost on machines of the price book.",
    ),
    "agent": Verb(
        "harness.commands.agent",
        "Read this node's meters for a run refereed on another node; the token is in TTA_POWER_TOKEN.",
    ),
    "node": Verb(
        "harness.commands.node",
        "Start this node's ranks of a run refereed on another node; the token is in TTA_NODE_TOKEN, or asked for.",
    ),
    "power": Verb(
        "harness.commands.power", "Import into a result the readings of a meter that `tta` did not read itself."
    ),
}


def parser(verbs: Container[str] = VERBS) -> argparse.ArgumentParser:
    """The parser of the command line; the modules of `verbs` are imported for their arguments, and no others.

    The namespace it returns has `call`, which carries out the verb.
    """
    top = Parser(
        prog="tta", description="Time to accuracy under rules: run, check, score, submit, rank.", epilog=EXIT_STATUSES
    )
    top.add_argument("--version", action="version", version=f"tta {__version__}")
    choices = top.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    for name, verb in VERBS.items():
        one = choices.add_parser(name, help=verb.summary) if verb.is_listed else choices.add_parser(name)
        one.description, one.epilog, one.allow_abbrev = verb.summary, EXIT_STATUSES, False
        if name in verbs:
            module = importlib.import_module(verb.module)
            module.add_arguments(one)
            one.set_defaults(call=module.call, parser=one)
    return top


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    verb = next((word for word in argv if not word.startswith("-")), "")  # no option before it takes a value
    # An argument that argparse does not know may be a hyperparameter in another program's style, which `tta run`
    # answers by itself.
    arguments, unknown = parser((verb,)).parse_known_args(argv)
    arguments.argv = tuple(argv)
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
    """Run the `tta` command and return its exit status."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # `tta ... >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  (stays open as long as the process)
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            # A file name that is not text in this locale is shown as well as it can be instead of ending the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        # A reader that went away is not an error; a full disk is.
        with contextlib.redirect_stdout(cast(TextIO, TolerantStream(sys.stdout, BrokenPipeError))):
            return _call(sys.argv[1:] if argv is None else argv)
    finally:
        _discard_unwritten()


def _call(argv: Sequence[str]) -> int:
    try:
        if not __debug__:
            raise UsageError("`tta` relies on assertions and docstrings: run Python without -O, -OO and PYTHONOPTIMIZE")
        try:
            arguments = _parse(argv)
            status = int(arguments.call(arguments))
        except SystemExit as request:  # how argparse ends --help and --version
            status = int(request.code or 0)
        sys.stdout.flush()
        return status
    except TtaError as error:
        return _end(error.exit_status, printable(error, 2000))
    except KeyboardInterrupt:
        return _end(ExitStatus.INTERRUPTED, "interrupted")
    except OSError as error:
        # A full disk under the output, a name that is too long: the system's fault, in the system's words.
        place = error.filename if error.filename is not None else _lost_place()
        named = f"{printable(place, 300)}: " if place else ""
        return _end(ExitStatus.USAGE, f"{named}{printable(error.strerror or error, 1000)}")
    except Exception:  # noqa: BLE001  (the last line of defence: whatever arrives here is a bug in tta)
        traceback.print_exc()
        return _end(ExitStatus.INTERNAL, "this is a bug in tta; please report it with the lines above")


def _lost_place() -> str:
    """Name the working directory if it was deleted: the system's error about it has no name."""
    try:
        Path.cwd()
    except OSError:
        return os.environ.get("PWD") or "the working directory"
    return ""


def _discard_unwritten() -> None:
    """Drop output that can no longer be written: Python would try once more as it ends, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(status: ExitStatus, sentence: str) -> int:
    with contextlib.suppress(OSError):  # no one may be there to read it
        print(f"tta: {sentence}", file=sys.stderr, flush=True)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
