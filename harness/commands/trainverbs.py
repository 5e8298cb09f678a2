"""The verbs that need a workload: run, data, baseline."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness.commands._arguments import Parser, add_verb, path, positive, seed
from harness.commands.energyverbs import add_power, wish
from harness.errors import ExitStatus, UsageError, printable

if TYPE_CHECKING:
    from harness.commands._arguments import Verbs


def _benchmark(parser: Parser, is_optional: bool = False) -> None:
    nargs = "?" if is_optional else None
    parser.add_argument("workload", nargs=nargs, metavar="WORKLOAD", help="for example image_classification")
    parser.add_argument("--suite", default="mini", help="mini, standard or full (default: %(default)s)")
    parser.add_argument("--ruleset", default="v1", help="the ruleset (default: %(default)s)")
    parser.add_argument("--data", type=path, metavar="DIR", help="where prepared data are kept (default: $TTA_DATA)")
    parser.add_argument(
        "--source", type=path, metavar="DIR", help="data you have, in a layout the workload's card names"
    )


def add_run(verbs: Verbs) -> None:
    parser = add_verb(verbs, "run", "Run a benchmark: every repeat in a cold process, one log each.", _call_run)
    _benchmark(parser, is_optional=True)
    parser.add_argument("--all", action="store_true", help="every workload that has the suite, one after the other")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="a hyperparameter, as the rules name it")
    parser.add_argument("--division", default="closed", help="closed or open (default: %(default)s)")
    parser.add_argument(
        "--module", type=path, metavar="FILE", help="open division: a Python file with parts of your own"
    )
    parser.add_argument("--runs", type=positive, metavar="N", help="how many runs (default: as many as the rules want)")
    parser.add_argument("--seed", type=seed, metavar="S", help="run k uses S+k (default: from the system's generator)")
    parser.add_argument("--system", type=path, metavar="FILE", help="system description (default: this machine's)")
    parser.add_argument("--out", type=path, metavar="DIR", help="a new folder (default: results/<benchmark>-<time>)")
    parser.add_argument("--resume", action="store_true", help="add the runs that are missing in --out")
    parser.add_argument("--devices", type=positive, default=1, metavar="N", help="worker processes (default: 1)")
    parser.add_argument("--precision", help="fp32, bf16 or fp16, as far as the rules permit")
    add_power(parser)
    parser.add_argument(
        "--mlflow", metavar="URI", help="tracking URI of the mirror (default: MLflow's, else ./mlflow.db)"
    )
    parser.add_argument("--no-mlflow", action="store_true", help="no mirror")
    parser.add_argument("--full-curve", action="store_true", help="run on to max_samples: how reference runs are made")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")


def _call_run(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import run

    if arguments.all:
        _refuse_with_all(arguments)
    elif arguments.workload is None:
        raise UsageError("the following arguments are required: WORKLOAD, or --all (see `tta run --help`)")
    return (run.run_all if arguments.all else run.run)(
        run.Request(
            workload=arguments.workload or "",
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
            power=wish(arguments),
            overrides=tuple(arguments.overrides),
            mlflow=arguments.mlflow,
            is_mirrored=not arguments.no_mlflow,
            is_quiet=arguments.quiet,
            is_resumed=arguments.resume,
            full_curve=arguments.full_curve,
            module=arguments.module,
        )
    )


def _refuse_with_all(arguments: argparse.Namespace) -> None:
    """What speaks of one workload has no place beside all of them."""
    words = [word for word in (arguments.workload, *arguments.overrides) if word is not None]
    settings = [word for word in words if "=" in word]
    if settings:
        raise UsageError(
            f"--all: {printable(settings[0])} cannot be set for every workload at once; run the one that has it alone"
        )
    if words:
        raise UsageError(f"--all means every workload; name {printable(words[0])!r}, or --all, and not both")
    num_nodes = arguments.power_nodes if arguments.power_nodes > 1 else None  # their agents serve one referee
    for option, value in (
        ("--module", arguments.module),
        ("--source", arguments.source),
        ("--power-nodes", num_nodes),
    ):
        if value is not None:
            raise UsageError(f"--all: {option} {printable(value)} is for one workload; run that one alone")


def add_data(verbs: Verbs) -> None:
    parser = add_verb(verbs, "data", "Prepare a suite's data before any clock.", _call_data)
    parser.add_argument("action", choices=("prepare",))
    _benchmark(parser)


def _call_data(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import data

    return data.prepare(arguments.workload, arguments.suite, arguments.ruleset, arguments.data, arguments.source)


def add_baseline(verbs: Verbs) -> None:
    parser = add_verb(verbs, "baseline", "Measure what solutions without training reach on a suite.", _call_baseline)
    _benchmark(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_baseline(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import baseline

    return baseline.run(
        arguments.workload, arguments.suite, arguments.ruleset, arguments.data, arguments.source, arguments.format
    )
