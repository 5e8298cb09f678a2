"""`tta sweep`: how the pace depends on batch size, precision, data and devices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from harness.characterise import keeping
from harness.characterise.cells import KINDS, grid
from harness.characterise.sweep import check_kinds, sweep
from harness.characterise.sweep_report import document, records, report
from harness.commands._arguments import Parser, add_format, add_ruleset, add_suite, as_path, as_positive
from harness.commands._running import add_meter
from harness.errors import ExitStatus, UsageError, printable, unknown_name
from harness.log.numerics import PRECISIONS
from harness.metering.session import MeterRequest
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.run.benchmark import Request


def add_arguments(parser: Parser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="for example image_classification")
    add_suite(parser)
    add_ruleset(parser, "the ruleset")
    parser.add_argument(
        "--batch",
        type=_several(as_positive),
        metavar="B,B",
        help="global batch sizes (default: half, all and twice the rules')",
    )
    parser.add_argument(
        "--precision", type=_several(str), metavar="P,P", help="fp32, tf32, bf16, fp16 (default: the rules')"
    )
    parser.add_argument(
        "--data",
        type=_several(str),
        default=KINDS,
        metavar="KINDS",
        help="real, or synthetic: steps are given the same again and again (default: real,synthetic)",
    )
    parser.add_argument(
        "--devices", type=_several(as_positive), default=(1,), metavar="N,N", help="numbers of processes (default: 1)"
    )
    parser.add_argument(
        "--steps", type=as_positive, default=30, metavar="N", help="steps of each cell (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=as_path,
        metavar="FOLDER",
        help="where cells.jsonl, sweep.json, sweep.txt and sweep.html go; one with some cells is continued (default: "
        "results/<benchmark>-sweep)",
    )
    parser.add_argument("--cache", type=as_path, metavar="DIR", help="the cache of prepared data (default: $TTA_DATA)")
    parser.add_argument(
        "--source", type=as_path, metavar="DIR", help="data you already have, as the workload's card says"
    )
    parser.add_argument("--system", type=as_path, metavar="FILE", help="system description (default: this machine's)")
    add_meter(parser)
    parser.add_argument("--mlflow", metavar="URI", help="add the sweep to this tracking store (default: to none)")
    parser.add_argument("--quiet", action="store_true", help="report only what went wrong")
    add_format(parser, "html")


T = TypeVar("T")


def _several(kind: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Values that are separated by commas, each of them of a kind."""

    def values(text: str) -> tuple[T, ...]:
        return tuple(kind(part) for part in text.split(","))

    return values


def call(arguments: argparse.Namespace) -> ExitStatus:
    request = Request(
        workload=arguments.workload,
        suite=arguments.suite,
        ruleset=arguments.ruleset,
        data=arguments.cache,
        source=arguments.source,
        system=arguments.system,
        power=MeterRequest(arguments.meter, period_s=arguments.meter_period),
    )
    return run(
        request,
        arguments.batch,
        arguments.precision,
        arguments.data,
        arguments.devices,
        arguments.steps,
        arguments.out,
        arguments.mlflow,
        arguments.quiet,
        arguments.format,
    )


def run(
    request: Request,
    batch_sizes: Sequence[int] | None = None,
    precisions: Sequence[str] | None = None,
    kinds: Sequence[str] = KINDS,
    devices: Sequence[int] = (1,),
    num_steps: int = 30,
    folder: Path | None = None,
    mlflow: str | None = None,
    is_quiet: bool = False,
    output: str = "text",
) -> ExitStatus:
    """Measure the cells that are missing in the folder, and print the sweep. batch_sizes, precisions: None: the rules'.

    Returns:
        FINDINGS if no cell could be measured.

    Raises:
        UsageError: a name that there is not, or the folder is of another sweep. OutputError: it cannot be written.
        Interrupted: by a signal; the same command goes on.
    """
    ruleset = load.load_ruleset(catalog.ruleset_folder(request.ruleset), request.ruleset)
    rules = ruleset.benchmark(request.workload, request.suite)
    check_kinds(kinds)
    for precision in precisions or ():
        if precision not in PRECISIONS:
            raise UsageError(unknown_name("precision", precision, PRECISIONS))
    cells = grid(batch_sizes or _batch_sizes(rules), precisions or rules.precisions[:1], kinds, devices)
    place = folder or Path("results") / f"{rules.name}-sweep"

    def say(text: str) -> None:
        if not is_quiet:
            print(printable(text, 1000), file=sys.stderr, flush=True)

    found = sweep(request, cells, num_steps, place, ruleset, say)
    shown, kept = document(found), report(found)
    paths = keeping.kept_again(place, "sweep", kept, shown)
    say(f"written to {printable(place, 1000)}")
    if mlflow is not None:
        keeping.mirrored(mlflow, records(found), paths)
    print(keeping.shown(kept, shown, output))
    return ExitStatus.OK if any(row.status == "ok" for row in found.rows) else ExitStatus.FINDINGS


def _batch_sizes(rules: BenchmarkRules) -> tuple[int, ...]:
    """Half, all and twice the rules' batch size, as far as the training set has so many samples."""
    size = int(rules.defaults()["global_batch_size"])
    return tuple(each for each in (size // 2, size, 2 * size) if 1 <= each <= rules.train_examples)
