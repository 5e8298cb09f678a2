"""`tta estimate`: what a run to target would take and cost on machines of the price book."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.base.text_table import aligned
from harness.base.values import is_whole
from harness.commands._arguments import Parser, add_format, add_ruleset, add_suite, as_path, as_positive, as_throughput
from harness.cost.price_book import PriceBook
from harness.errors import ExitStatus, RulesError, UsageError, printable
from harness.log import keys
from harness.ruleset import catalog, load
from harness.ruleset.model import BenchmarkRules
from harness.scoring.estimate import Estimate, Pace, Spread, estimate, paces, reference_samples
from harness.submission.result import find_results, read_result

_HEADER = (
    "sku",
    "nodes",
    "USD/h",
    "time to target",
    "95 % range",
    "USD per run",
    "95 % range",
    "USD per result",
    "as of",
)
_LEFT_OUT = "storage, traffic, licences, tax, failed attempts"


def add_arguments(parser: Parser) -> None:
    parser.add_argument("workload", metavar="WORKLOAD", help="for example image_classification")
    add_suite(parser)
    add_ruleset(parser, "the ruleset")
    parser.add_argument(
        "--sku",
        nargs="+",
        required=True,
        metavar="ID",
        help="a row of the price book, provider/sku/region/purchase, with @SAMPLES_PER_S if its throughput is known",
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--throughput", type=as_throughput, metavar="SAMPLES_PER_S", help="in training, all nodes together"
    )
    pace.add_argument(
        "--from", dest="result", type=as_path, metavar="RESULT", help="a result to take the throughput from"
    )
    parser.add_argument(
        "--batch-size", type=as_positive, metavar="N", help="global (default: that of the result, or of the rules)"
    )
    parser.add_argument(
        "--nodes", type=as_positive, default=1, metavar="N", help="number of nodes (default: %(default)s)"
    )
    parser.add_argument("--gpus-per-node", type=as_positive, metavar="N", help="for prices of a single accelerator")
    parser.add_argument("--book", metavar="FILE|DIGEST", help="another price book (default: the one in force)")
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(
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


def run(
    workload: str,
    suite: str,
    ruleset_name: str,
    skus: Sequence[str],
    throughput: float | None = None,
    result: Path | None = None,
    batch_size: int | None = None,
    nodes: int = 1,
    gpus_per_node: int | None = None,
    book: str | None = None,
    output_format: str = "text",
) -> ExitStatus:
    """Print one line per SKU, or one JSON document.

    skus: ids, each followed by `@SAMPLES_PER_S` if the throughput of that machine is known.
    throughput: samples per second in training, of all nodes together; alternatively `result`, from whose logs it is
    taken. batch_size: of the reference; without it that of `result`, or the rules' default.

    Raises:
        UsageError: no reference points, none at the batch size, no throughput, or no such book.
        TtaError: the rules, the book or the result cannot be read.
    """
    folder = catalog.ruleset_folder(ruleset_name)
    ruleset = load.load_ruleset(folder, ruleset_name)
    rules = ruleset.benchmark(workload, suite)
    if ruleset.prices is None:
        raise RulesError(f"{folder}: has no {load.PRICES_FILE}; this ruleset prices nothing")
    if book is None:
        chosen = ruleset.prices.current
    else:
        chosen = load.load_prices(Path(book)) if Path(book).is_file() else ruleset.prices.matching(book)
    if throughput is not None and result is not None:
        raise UsageError("--throughput and --from: give one of them")
    measured, measured_at = ([], None) if result is None else _measured(result, rules)
    size = batch_size or measured_at or _default_batch_size(rules)
    samples = reference_samples(rules, size)
    if throughput is not None:
        measured = [Pace(throughput)]
    found, is_shared = [], False
    for text in dict.fromkeys(skus):
        sku, own = _sku(text)
        pace = _at(own, measured) if own is not None else measured
        if not pace:
            raise UsageError(
                f"{printable(sku)}: its throughput is unknown; give --throughput, --from RESULT, or {printable(sku)}@N"
            )
        is_shared |= own is None and len(skus) > 1
        found.append(estimate(rules, samples, pace, chosen, sku, nodes, gpus_per_node))
    notes = _notes(rules, size, samples, result, found, is_shared)
    if output_format == "json":
        print(json.dumps(_document(rules, size, chosen, found, notes), allow_nan=False, indent=2))
    else:
        print(_text(rules, size, chosen, found, notes))
    return ExitStatus.OK


def _sku(text: str) -> tuple[str, float | None]:
    """The parts of `ID@SAMPLES_PER_S`."""
    sku, at, number = text.rpartition("@")
    if not at:
        return text, None
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise UsageError(f"--sku {printable(text)}: {printable(number)!r} is not a throughput above 0")
    return sku, value


def _at(samples_per_s: float, measured: Sequence[Pace]) -> list[Pace]:
    """That throughput, with the time of evaluations as measured elsewhere, if it was."""
    if not measured:
        return [Pace(samples_per_s)]
    return [dataclasses.replace(pace, samples_per_s=samples_per_s) for pace in measured]


def _measured(place: Path, rules: BenchmarkRules) -> tuple[list[Pace], int | None]:
    paths = find_results(place)
    if len(paths) != 1:
        raise UsageError(f"{place}: has {len(paths)} results; name one of them")
    result = read_result(paths[0])
    if result.benchmark != rules.name:
        raise UsageError(f"{paths[0]}: is a result of {printable(result.benchmark)}, not of {rules.name}")
    size = result.runs[0].value(keys.GLOBAL_BATCH_SIZE)
    return paces(result.runs), size if is_whole(size) else None


def _default_batch_size(rules: BenchmarkRules) -> int:
    default = rules.defaults().get(keys.GLOBAL_BATCH_SIZE)
    if not is_whole(default):
        raise UsageError(f"{rules.name}: the rules have no default batch size; give --batch-size N")
    return default


def _notes(
    rules: BenchmarkRules,
    batch_size: int,
    samples: Sequence[int],
    result: Path | None,
    found: Sequence[Estimate],
    is_shared: bool,
) -> list[str]:
    pairs = found[0].num_pairs
    runs = pairs // len(samples)
    notes = [
        f"samples to target: {len(samples)} reference runs at batch size {batch_size}; pace: "
        + (f"{runs} runs of {printable(result)}" if result is not None else "as given, taken as exact"),
        f"a range is the middle 95 % of {pairs} pairs of a reference run and a pace",
    ]
    if result is None:
        notes.append("left out, because their duration is unknown: evaluations, opening the data, initialisation")
    if is_shared:
        notes.append("one throughput is used for several machines; give each its own with ID@SAMPLES_PER_S")
    notes.append(f"a result is {rules.num_runs} runs, with initialisation, billed as the row says; '-' is unknown")
    notes.append(f"not included: {_LEFT_OUT}")
    notes += [f"{printable(item.sku)}: {item.why_not}" for item in found if item.why_not is not None]
    notes += [
        f"{printable(item.sku)}: information only; this row does not rank"
        for item in found
        if item.why_not is None and not item.is_ranked
    ]
    return notes


def _text(
    rules: BenchmarkRules, batch_size: int, book: PriceBook, found: Sequence[Estimate], notes: Sequence[str]
) -> str:
    head = f"{rules.name} to {rules.metric.name} {rules.target:g} at batch size {batch_size}; price book of {book.date}"
    table = aligned(_HEADER, [_cells(item) for item in found], frozenset({0}))
    return "\n".join([head, "", table, "", *notes])


def _cells(item: Estimate) -> tuple[str, ...]:
    usd = item.usd
    return (
        item.sku,
        str(item.nodes),
        _money(item.usd_per_hour),
        f"{item.seconds.mean:,.1f} s",
        f"{item.seconds.low:,.1f} to {item.seconds.high:,.1f}",
        "no price" if usd is None else _money(usd[0]),
        "-" if usd is None else f"{_money(usd[1])} to {_money(usd[2])}",
        _money(item.usd_result),
        item.as_of or "no date",
    )


def _money(usd: Decimal | None) -> str:
    """To the cent from one dollar up, otherwise to a millionth."""
    if usd is None:
        return "-"
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:f}"


def _document(
    rules: BenchmarkRules, batch_size: int, book: PriceBook, found: Sequence[Estimate], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "benchmark": rules.name,
        "target": rules.target,
        "batch_size": batch_size,
        "price_book": {"digest": book.digest, "date": book.date},
        "estimates": [_record(item) for item in found],
        "notes": list(notes),
    }


def _record(item: Estimate) -> dict[str, Any]:
    """Money is text, so that no reader turns it into a binary fraction."""

    def plain(value: object) -> object:
        if isinstance(value, Decimal):
            return f"{value:f}"
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        return dataclasses.asdict(value) if isinstance(value, Spread) else value

    return {field.name: plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
