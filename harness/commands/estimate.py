"""`tta estimate`: what a run to target would take and cost on machines of the price book."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Collection, Sequence
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
from harness.ruleset.model import BenchmarkRules, Timing
from harness.scoring.convergence import Reference
from harness.scoring.estimate import (
    Comparison,
    Estimate,
    Pace,
    Spread,
    System,
    compare,
    described_system,
    estimate,
    measured_pace,
    reference_samples,
)
from harness.scoring.run_result import run_result
from harness.submission.result import find_results, read_result

_HEADER = (
    "sku",
    "nodes",
    "pace of",
    "USD/h",
    "time to target",
    "95 % of runs",
    "USD per run",
    "95 % of runs",
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
        help="a row of the price book, provider/sku/region/purchase, with @SAMPLES_PER_S to state its throughput",
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--throughput", type=as_throughput, metavar="SAMPLES_PER_S", help="over a whole run, all nodes together"
    )
    pace.add_argument(
        "--from",
        dest="result",
        type=as_path,
        metavar="RESULT",
        help="a result on the same accelerators to take the pace from",
    )
    parser.add_argument(
        "--batch-size", type=as_positive, metavar="N", help="global (default: that of the result, or of the rules)"
    )
    parser.add_argument(
        "--nodes", type=as_positive, metavar="N", help="number of nodes (default: that of the result, or 1)"
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
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    book: str | None = None,
    output_format: str = "text",
) -> ExitStatus:
    """Print one line per SKU, or one JSON document.

    skus: ids, each followed by `@SAMPLES_PER_S` if the throughput of that machine is known.
    throughput: samples per second of a whole run, of all nodes together; alternatively `result`, from whose logs the
    pace is taken. batch_size: of the reference; without it that of `result`, or the rules' default. nodes: without it
    those of `result`, or 1.

    Raises:
        UsageError: no reference at the batch size, no pace, a pace of other accelerators, or no such book.
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
    common, measured_at = (None, None) if result is None else _measured(result, rules, ruleset.timing)
    size = batch_size or measured_at or _default_batch_size(rules)
    reference = reference_samples(rules, size)
    if throughput is not None:
        common = Pace(1 / throughput)
    found, is_shared = [], False
    uncompared: set[str] = set()  # rows whose accelerators may be others than those of the pace
    for text in dict.fromkeys(skus):
        sku, own = _sku(text)
        pace = common if own is None else Pace(1 / own)
        if pace is None:
            raise UsageError(
                f"{printable(sku)}: its throughput is unknown; give --throughput, --from RESULT, or {printable(sku)}@N"
            )
        is_shared |= own is None and throughput is not None and len(skus) > 1
        num_nodes, gpus = nodes or 1, gpus_per_node
        if pace.system is not None:
            num_nodes, gpus = nodes or pace.system.nodes or 1, gpus or pace.system.accelerators_per_node
            if not _is_compared(pace.system, chosen, sku, num_nodes, gpus):
                uncompared.add(sku)
        found.append(estimate(rules, reference, pace, chosen, sku, num_nodes, gpus))
    notes = _notes(rules, reference, result, found, is_shared, uncompared)
    if result is not None and measured_at not in (None, size):
        notes.append(f"the pace was measured at batch size {measured_at}; at {size} it may be another")
    if output_format == "json":
        print(json.dumps(_document(rules, size, chosen, found, notes), allow_nan=False, indent=2))
    else:
        print(_text(rules, size, chosen, found, notes))
    return ExitStatus.OK


def _is_compared(system: System, book: PriceBook, sku: str, nodes: int, gpus_per_node: int | None) -> bool:
    """Whether the row's machine is known to have the accelerators of the measured one.

    Raises:
        UsageError: it is another machine.
    """
    row = book.row(sku)
    found = Comparison(None, False) if row is None else compare(system, row, nodes, gpus_per_node)
    if found.difference is not None:
        raise UsageError(
            f"{printable(sku)}: the pace was measured on another machine: {printable(found.difference, 400)}; "
            f"state its own, {printable(sku)}@SAMPLES_PER_S"
        )
    return found.is_complete


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


def _measured(place: Path, rules: BenchmarkRules, timing: Timing) -> tuple[Pace, int | None]:
    """The pace of the result at `place`, and its batch size."""
    paths = find_results(place)
    if len(paths) != 1:
        raise UsageError(f"{place}: has {len(paths)} results; name one of them")
    result = read_result(paths[0])
    if result.benchmark != rules.name:
        raise UsageError(f"{paths[0]}: is a result of {printable(result.benchmark)}, not of {rules.name}")
    if any(log.value(keys.SUBMISSION_DIVISION) == "open" for log in result.runs):
        raise UsageError(f"{paths[0]}: is of the open division, where the reference's samples say nothing of a recipe")
    size = result.runs[0].value(keys.GLOBAL_BATCH_SIZE)
    runs = [run_result(log, rules, timing=timing) for log in result.runs]
    return measured_pace(runs, described_system(result.system)), size if is_whole(size) else None


def _default_batch_size(rules: BenchmarkRules) -> int:
    default = rules.defaults().get(keys.GLOBAL_BATCH_SIZE)
    if not is_whole(default):
        raise UsageError(f"{rules.name}: the rules have no default batch size; give --batch-size N")
    return default


def _notes(
    rules: BenchmarkRules,
    reference: Reference | None,
    result: Path | None,
    found: Sequence[Estimate],
    is_shared: bool,
    uncompared: Collection[str],
) -> list[str]:
    samples = found[0].samples
    notes = [
        f"samples to target: not known, for there are no reference convergence points; at most the budget of "
        f"{rules.max_samples:,} samples or {rules.max_seconds:,.0f} s"
        if reference is None
        else f"samples to target: {samples.mean:,.0f}, geometric mean of the {reference.how}; 95 % of runs need "
        f"{samples.low:,.0f} to {samples.high:,.0f}"
    ]
    for pace in dict.fromkeys(item.pace for item in found):
        if pace.system is not None:
            exact = "" if pace.errors else ", taken as exact"
            notes.append(
                f"pace: {pace.sample_s * 1e3:.6g} ms per sample, evaluations included, and {pace.fixed_s:.3g} s to "
                f"open the data{exact}: {pace.num_runs} run{'s' * (pace.num_runs > 1)} of {printable(result)} on "
                f"{printable(pace.system.words, 400)}"
            )
    if any(item.pace.system is None for item in found):
        notes.append(
            "a throughput as given is taken as exact; evaluations and opening the data are left out if it leaves them "
            "out, and so is initialisation"
        )
    if is_shared:
        notes.append("one throughput is used for several machines; give each its own with ID@SAMPLES_PER_S")
    if rules.provisional:
        notes.append(f"the target {rules.metric.name} {rules.target:g} is provisional and may change")
    notes.append(f"a result is {rules.num_runs} runs, with initialisation, billed as the row says; '-' is unknown")
    notes.append(f"not included: {_LEFT_OUT}")
    for item in found:
        if item.sku in uncompared:
            notes.append(f"{printable(item.sku)}: whether its accelerators are those of the pace is not known")
        elif item.pace.system is not None and item.pace.system.accelerators_per_node == 0:
            notes.append(f"{printable(item.sku)}: has no accelerators either; processors are not compared")
        if item.why_not is not None:
            notes.append(f"{printable(item.sku)}: {item.why_not}")
        elif not item.is_ranked:
            notes.append(f"{printable(item.sku)}: information only; this row does not rank")
    return notes


def _text(
    rules: BenchmarkRules, batch_size: int, book: PriceBook, found: Sequence[Estimate], notes: Sequence[str]
) -> str:
    head = f"{rules.name} to {rules.metric.name} {rules.target:g} at batch size {batch_size}; price book of {book.date}"
    table = aligned(_HEADER, [_cells(item) for item in found], frozenset({0}))
    return "\n".join([head, "", table, "", *notes])


def _cells(item: Estimate) -> tuple[str, ...]:
    usd, most = item.usd, "at most " if item.is_bound else ""
    return (
        item.sku,
        str(item.nodes),
        "as given" if item.pace.system is None else printable(item.pace.system.name or "unknown", 60),
        _money(item.usd_per_hour),
        f"{most}{_seconds(item.seconds.mean)} s",
        "-" if most else f"{_seconds(item.seconds.low)} to {_seconds(item.seconds.high)}",
        "no price" if usd is None else most + _money(usd[0]),
        "-" if usd is None or most else f"{_money(usd[1])} to {_money(usd[2])}",
        _money(item.usd_result) if item.usd_result is None else most + _money(item.usd_result),
        item.as_of or "no date",
    )


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


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
        "provisional": rules.provisional,
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
        return dataclasses.asdict(value) if isinstance(value, Spread | Pace) else value

    return {field.name: plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
