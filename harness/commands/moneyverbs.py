"""What the verbs about money take: `tta prices` and `tta estimate`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness.commands._arguments import add_verb, path, positive
from harness.errors import ExitStatus, printable

if TYPE_CHECKING:
    from harness.commands._arguments import Verbs


def add_prices(verbs: Verbs) -> None:
    """Adds `tta prices` to the verbs of the command line."""
    summary = "Show, search, validate or compare the organiser's price books; work out a machine of one's own."
    parser = add_verb(verbs, "prices", summary, _call_prices)
    parser.add_argument(
        "action",
        nargs="?",
        default="show",
        metavar="ACTION",
        help="show (default), search TEXT, validate FILE, diff OLD NEW, or own FILE",
    )
    parser.add_argument("operands", nargs="*", metavar="TEXT|FILE", help="what the action is about")
    parser.add_argument("--provider", metavar="NAME", help="only its rows")
    parser.add_argument("--gpu", metavar="NAME", help="only rows whose accelerator has this in its name; none: without")
    parser.add_argument("--region", metavar="NAME", help="only rows of this region")
    parser.add_argument("--book", metavar="FILE|DIGEST", help="another book than the one in force")
    parser.add_argument("--ruleset", default="v1", help="the ruleset whose books are meant (default: %(default)s)")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_prices(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import prices

    return prices.run(
        action=arguments.action,
        operands=arguments.operands,
        provider=arguments.provider,
        gpu=arguments.gpu,
        region=arguments.region,
        book=arguments.book,
        ruleset=arguments.ruleset,
        output_format=arguments.format,
    )


def add_estimate(verbs: Verbs) -> None:
    """Adds `tta estimate` to the verbs of the command line."""
    summary = "What a run to target would take and cost on machines of the price book."
    parser = add_verb(verbs, "estimate", summary, _call_estimate)
    parser.add_argument("workload", metavar="WORKLOAD", help="for example image_classification")
    parser.add_argument("--suite", default="mini", help="mini, standard or full (default: %(default)s)")
    parser.add_argument("--ruleset", default="v1", help="the ruleset (default: %(default)s)")
    parser.add_argument(
        "--sku", nargs="+", required=True, metavar="ID", help="provider/sku/region/purchase[@SAMPLES_PER_S]"
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--throughput", type=_number, metavar="SAMPLES_PER_S", help="in training, all nodes together")
    pace.add_argument("--from", dest="result", type=path, metavar="RESULT", help="a result whose logs say it")
    parser.add_argument(
        "--batch-size", type=positive, metavar="N", help="global (default: the result's, or the rules')"
    )
    parser.add_argument("--nodes", type=positive, default=1, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--gpus-per-node", type=positive, metavar="N", help="for prices of one accelerator")
    parser.add_argument("--book", metavar="FILE|DIGEST", help="another book than the one in force")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _call_estimate(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import estimate

    return estimate.run(
        workload=arguments.workload,
        suite=arguments.suite,
        ruleset_name=arguments.ruleset,
        skus=arguments.sku,
        throughput=arguments.throughput,
        result=arguments.result,
        batch_size=arguments.batch_size,
        nodes=arguments.nodes,
        gpus_per_node=arguments.gpus_per_node,
        book=arguments.book,
        output_format=arguments.format,
    )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a number above 0")
    return value
