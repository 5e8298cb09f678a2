"""What the command line takes: a function for each verb's arguments, one to call it; imported when called."""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from harness import __version__
from harness.commands._arguments import EXITS, Parser, add_verb, path, positive
from harness.commands.energyverbs import add_agent, add_power_verb
from harness.commands.moneyverbs import add_estimate, add_prices
from harness.commands.trainverbs import add_baseline, add_data, add_run
from harness.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from harness.commands._arguments import Verbs


def _today() -> date:
    return datetime.now(UTC).date()


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; what it returns has `call`, which carries the verb out."""
    top = Parser(prog="tta", description="Time to accuracy under rules: run, check, score, submit, rank.", epilog=EXITS)
    top.add_argument("--version", action="version", version=f"tta {__version__}")
    verbs = top.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    for add in (
        add_run, _check, _audit, _score, _summary, _derive, _submit, _board, _explain, _doctor, add_data, _sync,
        _target, add_baseline, add_prices, add_estimate, add_agent, add_power_verb,
    ):  # fmt: skip
        add(verbs)
    return top


def _paths_and_rules(parser: Parser, what: str, default: str = "v1", has_auto: bool = False) -> None:
    parser.add_argument("paths", nargs="+", type=path, metavar="PATH", help=what)
    auto = "; auto: the one that logs of ours name, or MLPerf's round that a log was made for" if has_auto else ""
    parser.add_argument("--ruleset", default=default, help=f"the ruleset to judge by{auto} (default: %(default)s)")


def _check(verbs: Verbs) -> None:
    parser = add_verb(
        verbs, "check", "Check logs, results, submissions or a whole tree against the rules.", _call_check
    )
    _paths_and_rules(parser, "a log, a results folder, a submission or a tree of them", default="auto", has_auto=True)
    parser.add_argument("--format", choices=("text", "json", "sarif", "html"), default="text")
    parser.add_argument(
        "--verbose", action="store_true", help="text: also why each check that found something matters, and what to do"
    )
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes (default: one a core, for many logs)")


def _call_check(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import check

    return check.run(arguments.paths, arguments.ruleset, arguments.format, _today(), arguments.verbose, arguments.jobs)


def _audit(verbs: Verbs) -> None:
    parser = add_verb(
        verbs, "audit", "Say what an auditor should look at: what no rule forbids and is still odd.", _call_audit
    )
    _paths_and_rules(parser, "a log, a results folder, a submission or a tree of them", default="auto", has_auto=True)
    parser.add_argument("--format", choices=("text", "json", "sarif", "html"), default="text")
    parser.add_argument("--mirror", type=path, metavar="FILE", help="MLflow's SQLite file, to hold the logs against it")


def _call_audit(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import audit

    return audit.run(arguments.paths, arguments.ruleset, arguments.format, _today(), arguments.mirror)


def _score(verbs: Verbs) -> None:
    parser = add_verb(verbs, "score", "Score results: olympic mean, interval, normalisation, rank bands.", _call_score)
    _paths_and_rules(parser, "a results folder, a submission or a tree of them", has_auto=True)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_score(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import score

    return score.run(arguments.paths, arguments.ruleset, arguments.format)


def _summary(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "summary",
        "One row a result: quality, samples, seconds, and what is beside them in the rules.",
        _call_summary,
    )
    _paths_and_rules(parser, "a results folder, a submission or a tree of them")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_summary(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import summary

    return summary.run(arguments.paths, arguments.ruleset, arguments.format)


def _derive(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "derive",
        "Recompute every number that is shown of a result from its raw logs: formula, file and line; compare with what "
        "is typed.",
        _call_derive,
    )
    _paths_and_rules(parser, "a log, a results folder, a submission or a tree of them", default="auto", has_auto=True)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--tree", type=path, metavar="TREE", help="the results among which it is ranked")
    parser.add_argument(
        "--against", type=path, metavar="BOARD.json", help="the data of a published board to compare with"
    )


def _call_derive(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import derive

    return derive.run(arguments.paths, arguments.ruleset, arguments.format, arguments.tree, arguments.against, _today())


def _submit(verbs: Verbs) -> None:
    parser = add_verb(
        verbs, "submit", "Place a result in a leaderboard's tree, if the organiser's check lets it.", _call_submit
    )
    parser.add_argument("result", type=path, metavar="RESULT", help="a folder that `tta run` wrote")
    parser.add_argument("--to", type=path, required=True, metavar="TREE", help="a shared folder or a git checkout")
    parser.add_argument("--submitter", metavar="NAME", help="must be the one in the system description (default: that)")
    parser.add_argument(
        "--category", help="available, preview or research (default: what the description's status says)"
    )
    parser.add_argument("--notes", default="", help="a line for the readers of the board")
    parser.add_argument("--ruleset", default="v1", help="the ruleset to judge by (default: %(default)s)")
    parser.add_argument(
        "--sign", type=path, metavar="KEY", help="an SSH key to sign the manifest with (a public one: by the agent)"
    )
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
            sign=arguments.sign,
        ),
        _today(),
    )


def _board(verbs: Verbs) -> None:
    parser = add_verb(
        verbs, "board", "Build the leaderboard's pages from a tree of submissions, or serve them.", _call_board
    )
    parser.add_argument("action", choices=("build", "serve"))
    parser.add_argument("tree", type=path, metavar="TREE")
    parser.add_argument("--out", type=path, metavar="SITE", help="build: the folder of the site")
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
    parser = add_verb(verbs, "explain", "Print what a check looks for, why, and what to do.", _call_explain)
    parser.add_argument(
        "code", nargs="?", metavar="CODE", help="for example LOG001; of a round of MLPerf's also a benchmark"
    )
    parser.add_argument("--all", action="store_true", help="the whole rulebook")
    parser.add_argument(
        "--ruleset", default="v1", help="whose severities; mlperf_training/5.1.0 retinanet prints a benchmark's rules"
    )


def _call_explain(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import explain

    return explain.run(arguments.code, arguments.all, arguments.ruleset)


def _doctor(verbs: Verbs) -> None:
    parser = add_verb(
        verbs, "doctor", "Say what this machine is; write the system description of a submission.", _call_doctor
    )
    parser.add_argument(
        "--out", type=path, metavar="FILE", help="write the system description here (never over another)"
    )
    parser.add_argument("--submitter", metavar="NAME")
    parser.add_argument("--system-name", metavar="NAME")
    parser.add_argument("--status", help="availability, in MLPerf's words")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_doctor(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import doctor

    return doctor.run(arguments.out, arguments.submitter, arguments.system_name, arguments.status, arguments.format)


def _sync(verbs: Verbs) -> None:
    parser = add_verb(verbs, "sync", "Fill in what is missing in the MLflow mirror of results.", _call_sync)
    parser.add_argument("paths", nargs="+", type=path, metavar="PATH", help="a results folder or a tree of them")
    parser.add_argument("--mlflow", metavar="URI", help="tracking URI (default: MLflow's, else ./mlflow.db)")


def _call_sync(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import sync

    return sync.run(arguments.paths, arguments.mlflow)


def _target(verbs: Verbs) -> None:
    parser = add_verb(
        verbs, "target", "Derive target and convergence points from full-curve reference runs.", _call_target
    )
    _paths_and_rules(parser, "folders that `tta run --full-curve` wrote")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_target(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import target

    return target.run(arguments.paths, arguments.ruleset, arguments.format)
