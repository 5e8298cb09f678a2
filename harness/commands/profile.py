"""`tta profile`: what a benchmark's network and its training step are on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.characterise import keeping
from harness.characterise.profile import ProfileRequest, document, profile, records
from harness.characterise.profile_report import report
from harness.commands._arguments import Parser, add_benchmark, add_format, as_path, as_positive
from harness.commands._running import add_meter
from harness.errors import ExitStatus, printable
from harness.metering.session import MeterRequest
from harness.ruleset import catalog, load
from harness.run.benchmark import Request


def add_arguments(parser: Parser) -> None:
    add_benchmark(parser)
    parser.add_argument(
        "--devices", type=as_positive, default=1, metavar="N", help="processes, one a device (default: 1)"
    )
    parser.add_argument("--precision", metavar="P", help="fp32, tf32, bf16 or fp16 (default: the rules')")
    parser.add_argument("--batch", type=as_positive, metavar="B", help="global batch size (default: the rules')")
    parser.add_argument(
        "--steps", type=as_positive, default=50, metavar="N", help="steps that are timed (default: %(default)s)"
    )
    parser.add_argument(
        "--no-memory", action="store_true", help="measure no other batch sizes, and not the largest that fits"
    )
    parser.add_argument(
        "--out", type=as_path, metavar="FOLDER", help="write profile.json, profile.txt and profile.html there"
    )
    parser.add_argument("--system", type=as_path, metavar="FILE", help="system description (default: this machine's)")
    add_meter(parser)
    parser.add_argument("--mlflow", metavar="URI", help="add the profile to this tracking store (default: to none)")
    parser.add_argument("--quiet", action="store_true", help="report only what went wrong")
    add_format(parser, "html")


def call(arguments: argparse.Namespace) -> ExitStatus:
    request = Request(
        workload=arguments.workload,
        suite=arguments.suite,
        ruleset=arguments.ruleset,
        data=arguments.data,
        source=arguments.source,
        devices=arguments.devices,
        precision=arguments.precision,
        system=arguments.system,
        power=MeterRequest(arguments.meter, period_s=arguments.meter_period),
    )
    wanted = ProfileRequest(request, arguments.batch, arguments.steps, not arguments.no_memory)
    return run(wanted, arguments.out, arguments.mlflow, arguments.quiet, arguments.format)


def run(
    wanted: ProfileRequest,
    folder: Path | None = None,
    mlflow: str | None = None,
    is_quiet: bool = False,
    output: str = "text",
) -> ExitStatus:
    """Measure, print, and keep the profile.

    Raises:
        UsageError, DataError: the benchmark does not take what was asked. OutputError: the folder has a profile.
        WorkerError: the workload failed, or does not fit into the memory.
    """
    keeping.refuse_existing(folder, "profile")
    name = wanted.request.ruleset
    ruleset = load.load_ruleset(catalog.ruleset_folder(name), name)

    def say(text: str) -> None:
        if not is_quiet:
            print(text, file=sys.stderr, flush=True)

    found = profile(wanted, ruleset, say)
    shown, kept = document(found), report(found)
    paths: tuple[Path, ...] = ()
    if folder is not None:
        paths = keeping.kept(folder, "profile", kept, shown)
        say(f"written to {printable(folder, 1000)}")
    if mlflow is not None:
        keeping.mirrored(mlflow, records(found), paths)
    print(keeping.shown(kept, shown, output))
    return ExitStatus.OK
