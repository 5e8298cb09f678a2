"""`tta board`: its table of actions."""

from __future__ import annotations

import argparse
import importlib
from typing import NamedTuple

from harness.commands._arguments import EXIT_STATUSES, Parser
from harness.errors import ExitStatus


class Action(NamedTuple):
    """A row of `ACTIONS`: its module has `add_<name>(parser)` for its arguments, and `call_<name>(arguments)`."""

    module: str
    summary: str


ACTIONS = {
    "build": Action("tree", "write the static site of a tree of submissions, or of MLPerf rounds"),
    "serve": Action("serving", "serve a tree over HTTP; with --data, the leaderboard as a service in one process"),
    "init": Action("serving", "make the folder of a service, with its first round, organisation and organiser"),
    "migrate": Action("serving", "bring a service's database to this version of `tta`"),
    "organisation": Action("people", "list a service's organisations, or add one"),
    "person": Action("people", "list people, add one, change their roles and how they sign in, or keep one out"),
    "token": Action("people", "make a token for a person"),
    "hook": Action("people", "list hooks, make one, or delete one"),
    "round": Action("people", "list the rounds, or add one"),
    "import": Action("keeping", "bring a tree of submissions into a service"),
    "verify": Action("keeping", "compare log, checkpoints, files, states and rows of a service with each other"),
    "reindex": Action("keeping", "make everything derived again, from the files and the rules"),
    "export": Action("keeping", "write what is published as files: results, log with tiles, and the static site"),
    "backup": Action("keeping", "write a backup of a service, which may run meanwhile"),
    "restore": Action("keeping", "make a service of a backup, and verify it"),
    "web": Action("serving", "answer requests for a service whose database is PostgreSQL; several may run"),
    "worker": Action("serving", "check submissions and do what follows; several may run"),
    "deliver": Action("serving", "send what hooks are owed; a worker starts one where hooks are switched on"),
}


def add_arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    for name, action in ACTIONS.items():
        one = actions.add_parser(name, help=action.summary, epilog=EXIT_STATUSES, allow_abbrev=False)
        one.description = action.summary[0].upper() + action.summary[1:] + "."
        module = importlib.import_module(f"harness.commands.board.{action.module}")
        getattr(module, f"add_{name}")(one)
        one.set_defaults(board_action=getattr(module, f"call_{name}"))


def call(arguments: argparse.Namespace) -> ExitStatus:
    status: ExitStatus = arguments.board_action(arguments)
    return status
