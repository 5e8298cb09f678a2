"""What the command line takes: a function for each verb's arguments, one to call it; imported when called."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from harness import __version__
from harness.errors import ExitStatus, UsageError, printable
from harness.verbs_money import add_estimate, add_prices

_EXITS = (
    "exit status: 0 well; 1 findings, or target not reached; 2 usage or unreadable input; 3 a bug of ours; "
    "130 interrupted"
)


class _Parser(argparse.ArgumentParser):
    """argparse that answers a wrong argument with one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{printable(message, 500)} (see `{self.prog} --help`)")


if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[_Parser]


def _today() -> date:
    return datetime.now(UTC).date()


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; what it returns has `call`, which carries the verb out."""
    top = _Parser(
        prog="tta", description="Time to accuracy under rules: run, check, score, submit, rank.", epilog=_EXITS
    )
    top.add_argument("--version", action="version", version=f"tta {__version__}")
    verbs = top.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)
    for add in (_run, _check, _score, _submit, _board, _explain, _doctor, _data, _sync, _target, _baseline):
        add(verbs)
    add_prices(verbs)
    add_estimate(verbs)
    return top


def _verb(verbs: Verbs, name: str, summary: str, call: Callable[[argparse.Namespace], ExitStatus]) -> _Parser:
    parser: _Parser = verbs.add_parser(name, help=summary, description=summary, epilog=_EXITS, allow_abbrev=False)
    parser.set_defaults(call=call, parser=parser)
    return parser


def _paths_and_rules(parser: _Parser, what: str, default: str = "v1") -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=what)
    parser.add_argument("--ruleset", default=default, help="the ruleset to judge by (default: %(default)s)")


def _benchmark(parser: _Parser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="for example image_classification")
    parser.add_argument("--suite", default="mini", help="mini, standard or full (default: %(default)s)")
    parser.add_argument("--ruleset", default="v1", help="the ruleset (default: %(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where prepared data are kept (default: $TTA_DATA)")
    parser.add_argument(
        "--source", type=Path, metavar="DIR", help="data you have, in a layout the workload's card names"
    )


def _run(verbs: Verbs) -> None:
    parser = _verb(verbs, "run", "Run a benchmark: every repeat in a cold process, one log each.", _call_run)
    _benchmark(parser)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a hyperparameter, as the rules name it")
    parser.add_argument("--division", default="closed", help="closed or open (default: %(default)s)")
    parser.add_argument(
        "--runs", type=_positive, metavar="N", help="how many runs (default: as many as the rules want)"
    )
    parser.add_argument("--seed", type=_seed, metavar="S", help="run k uses S+k (default: from the system's generator)")
    parser.add_argument("--system", type=Path, metavar="FILE", help="system description (default: this machine's)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: results/<benchmark>-<time>)")
    parser.add_argument("--resume", action="store_true", help="add the runs that are missing in --out")
    parser.add_argument("--devices", type=_positive, default=1, metavar="N", help="worker processes (default: 1)")
    parser.add_argument("--precision", help="fp32, bf16 or fp16, as far as the rules permit")
    parser.add_argument("--meter", default="none", help="none or estimate (default: %(default)s)")
    parser.add_argument(
        "--mlflow", metavar="URI", help="tracking URI of the mirror (default: MLflow's, else ./mlflow.db)"
    )
    parser.add_argument("--no-mlflow", action="store_true", help="no mirror")
    parser.add_argument("--full-curve", action="store_true", help="run on to max_samples: how reference runs are made")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")


def _call_run(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import run

    return run.run(
        run.Request(
            workload=arguments.workload,
            suite=arguments.suite,
            division=arguments.division,
            ruleset=arguments.ruleset,
            runs=arguments.runs,
            seed=arguments.seed,
            system=arguments.system,
            out=arguments.out,
            devices=arguments.devices,
            precision=arguments.precision,
            data=arguments.data,
            source=arguments.source,
            meter=arguments.meter,
            overrides=tuple(arguments.overrides),
            mlflow=arguments.mlflow,
            is_mirrored=not arguments.no_mlflow,
            is_quiet=arguments.quiet,
            is_resumed=arguments.resume,
            full_curve=arguments.full_curve,
        )
    )


def _check(verbs: Verbs) -> None:
    parser = _verb(verbs, "check", "Check logs, results, submissions or a whole tree against the rules.", _call_check)
    _paths_and_rules(parser, "a log, a results folder, a submission or a tree of them", default="auto")
    parser.add_argument("--format", choices=("text", "json", "sarif"), default="text")


def _call_check(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import check

    return check.run(arguments.paths, arguments.ruleset, arguments.format, _today())


def _score(verbs: Verbs) -> None:
    parser = _verb(verbs, "score", "Score results: olympic mean, interval, normalisation, rank bands.", _call_score)
    _paths_and_rules(parser, "a results folder, a submission or a tree of them")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_score(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import score

    return score.run(arguments.paths, arguments.ruleset, arguments.format)


def _submit(verbs: Verbs) -> None:
    parser = _verb(
        verbs, "submit", "Place a result in a leaderboard's tree, if the organiser's check lets it.", _call_submit
    )
    parser.add_argument("result", type=Path, metavar="RESULT", help="a folder that `tta run` wrote")
    parser.add_argument("--to", type=Path, required=True, metavar="TREE", help="a shared folder or a git checkout")
    parser.add_argument("--submitter", metavar="NAME", help="must be the one in the system description (default: that)")
    parser.add_argument(
        "--category", help="available, preview or research (default: what the description's status says)"
    )
    parser.add_argument("--notes", default="", help="a line for the readers of the board")
    parser.add_argument("--ruleset", default="v1", help="the ruleset to judge by (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="do everything but place it")


def _call_submit(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import submit

    return submit.run(
        submit.Request(
            result=arguments.result,
            tree=arguments.to,
            submitter=arguments.submitter,
            category=arguments.category,
            notes=arguments.notes,
            ruleset=arguments.ruleset,
            is_dry=arguments.dry_run,
        ),
        _today(),
    )


def _board(verbs: Verbs) -> None:
    parser = _verb(
        verbs, "board", "Build the leaderboard's pages from a tree of submissions, or serve them.", _call_board
    )
    parser.add_argument("action", choices=("build", "serve"))
    parser.add_argument("tree", type=Path, metavar="TREE")
    parser.add_argument("--out", type=Path, metavar="SITE", help="build: the folder of the site")
    parser.add_argument("--host", default="127.0.0.1", help="serve: the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8765, help="serve: the port (default: %(default)s)")
    parser.add_argument("--ruleset", default="v1", help="the ruleset to judge by (default: %(default)s)")


def _call_board(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import board

    if arguments.action == "serve":
        return board.serve(arguments.tree, arguments.host, arguments.port, arguments.ruleset)
    if arguments.out is None:
        raise UsageError("tta board build needs --out SITE, the folder the pages go to")
    return board.build(arguments.tree, arguments.out, arguments.ruleset, _today())


def _explain(verbs: Verbs) -> None:
    parser = _verb(verbs, "explain", "Print what a check looks for, why, and what to do.", _call_explain)
    parser.add_argument("code", nargs="?", metavar="CODE", help="for example LOG001")
    parser.add_argument("--all", action="store_true", help="the whole rulebook")


def _call_explain(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import explain

    return explain.run(arguments.code, arguments.all)


def _doctor(verbs: Verbs) -> None:
    parser = _verb(
        verbs, "doctor", "Say what this machine is; write the system description of a submission.", _call_doctor
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the system description here (never over another)"
    )
    parser.add_argument("--submitter", metavar="NAME")
    parser.add_argument("--system-name", metavar="NAME")
    parser.add_argument("--status", help="availability, in MLPerf's words")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_doctor(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import doctor

    return doctor.run(arguments.out, arguments.submitter, arguments.system_name, arguments.status, arguments.format)


def _data(verbs: Verbs) -> None:
    parser = _verb(verbs, "data", "Prepare a suite's data before any clock.", _call_data)
    parser.add_argument("action", choices=("prepare",))
    _benchmark(parser)


def _call_data(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import data

    return data.prepare(arguments.workload, arguments.suite, arguments.ruleset, arguments.data, arguments.source)


def _sync(verbs: Verbs) -> None:
    parser = _verb(verbs, "sync", "Fill in what is missing in the MLflow mirror of results.", _call_sync)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a results folder or a tree of them")
    parser.add_argument("--mlflow", metavar="URI", help="tracking URI (default: MLflow's, else ./mlflow.db)")


def _call_sync(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import sync

    return sync.run(arguments.paths, arguments.mlflow)


def _target(verbs: Verbs) -> None:
    parser = _verb(
        verbs, "target", "Derive target and convergence points from full-curve reference runs.", _call_target
    )
    _paths_and_rules(parser, "folders that `tta run --full-curve` wrote")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_target(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import target

    return target.run(arguments.paths, arguments.ruleset, arguments.format)


def _baseline(verbs: Verbs) -> None:
    parser = _verb(verbs, "baseline", "Measure what solutions without training reach on a suite.", _call_baseline)
    _benchmark(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_baseline(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import baseline

    return baseline.run(
        arguments.workload, arguments.suite, arguments.ruleset, arguments.data, arguments.source, arguments.format
    )


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 1 up")
    return int(text)


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 0 to 2147483647")
    return int(text)
